//! Candidates: for each byte of a stream, whether a chunk may end after it.

/// Bytes that are marked in one go; a multiple of 64.
pub const BLOCK_BYTES: usize = 4096;

/// The longest window of any method, bytes.
pub const WINDOW_MAX: usize = 64;

/// The candidates of one block: a bit for each byte, in two strengths.
///
/// Whatever is strict is loose too. Methods without two strengths mark both alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Bit `i % 64` of word `i / 64`: byte `i` is a candidate by the loose test.
    pub loose: Box<[u64; BLOCK_BYTES / 64]>,
    /// The same by the strict test, which four times fewer bytes pass.
    pub strict: Box<[u64; BLOCK_BYTES / 64]>,
}

impl Marks {
    /// Marks of a block without candidates.
    pub fn none() -> Marks {
        let words = Box::new([0; BLOCK_BYTES / 64]);
        Marks { loose: words.clone(), strict: words }
    }

    /// Marks byte `at` of the block.
    ///
    /// # Panics
    /// If `at` is not below [`BLOCK_BYTES`].
    pub fn set(&mut self, at: usize, strict: bool) {
        self.loose[at / 64] |= 1 << (at % 64);
        if strict {
            self.strict[at / 64] |= 1 << (at % 64);
        }
    }

    /// Removes all marks of the first `bytes` bytes.
    pub fn clear(&mut self, bytes: usize) {
        for words in [&mut self.loose, &mut self.strict] {
            for word in &mut words[..bytes.div_ceil(64)] {
                *word = 0;
            }
        }
    }

    /// Removes the marks of the first `count` bytes (fewer than 64).
    pub(crate) fn unmark(&mut self, count: usize) {
        assert!(count < 64, "all lie in one word");
        let rest = u64::MAX << count;
        self.loose[0] &= rest;
        self.strict[0] &= rest;
    }

    /// Replaces the marks of the first `count` bytes (fewer than 64) by those that `from` has from
    /// `skip` (fewer than 64) on.
    pub(crate) fn graft(&mut self, from: &Marks, skip: usize, count: usize) {
        assert!(count < 64 && skip < 64, "a graft lies in one word");
        let kept = (1_u64 << count) - 1;
        for (into, from) in [(&mut self.loose, &from.loose), (&mut self.strict, &from.strict)] {
            let high = if skip == 0 { 0 } else { from[1] << (64 - skip) };
            into[0] = (into[0] & !kept) | (((from[0] >> skip) | high) & kept);
        }
    }
}

/// A way to find candidates: a pure function of the last [`window`](Candidates::window) bytes.
pub trait Candidates: Send {
    /// Bytes that decide on a candidate, the last of them being the one that a chunk may end with;
    /// 1 to [`WINDOW_MAX`].
    fn window(&self) -> usize;

    /// Marks the candidates among `bytes` (at most [`BLOCK_BYTES`]) whose whole window lies in
    /// `bytes`, which are those from index `window() - 1` on. The words that cover `bytes` are
    /// overwritten; bits of earlier and later bytes are unspecified. Cost O(bytes).
    fn mark(&self, bytes: &[u8], marks: &mut Marks);
}

/// A method without candidates: chunks of one size, or none at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoCandidates;

impl Candidates for NoCandidates {
    fn window(&self) -> usize {
        1
    }

    fn mark(&self, bytes: &[u8], marks: &mut Marks) {
        marks.clear(bytes.len());
    }
}
