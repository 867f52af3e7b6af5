//! Selection: which candidates become cut points.
//!
//! For a chunk that begins at byte `s`:
//!
//! 1. Candidates that would make it shorter than `min` are ignored (or, as the source prints it, a
//!    chunk with such a candidate is cut at `min`: [`BelowMin::CutAtMin`]).
//! 2. Up to the expected size, a strict candidate ends it; from there on a loose one. This draws
//!    sizes toward the expected one ("normalized chunking": Xia et al., FastCDC, USENIX ATC 2016,
//!    §3.4, with one bit more and one bit less).
//! 3. At `max` it ends in any case.

use crate::candidates::{BLOCK_BYTES, Marks};

/// The sizes of chunks, bytes: `1 <= min <= expected <= max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The least size of a chunk that is not the last.
    pub min: u32,
    /// The size from which on the loose test decides.
    pub expected: u32,
    /// The greatest size.
    pub max: u32,
}

impl Sizes {
    /// The usual ratios around an expected size: `max = 4 · expected = 16 · min` (LBFS; VNRE,
    /// §4.2.2).
    pub fn around(expected: u32) -> Sizes {
        Sizes { min: (expected / 4).max(1), expected, max: expected.saturating_mul(4) }
    }
}

/// The treatment of a candidate that comes before the least size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BelowMin {
    /// Ignored.
    #[default]
    Ignore,
    /// The chunk is cut at the least size, as VNRE prints it. Such cuts depend on where the chunk
    /// began and not on content, so inserted bytes shift them: for reproductions only.
    CutAtMin,
}

/// Selects cut points from candidates, over a stream that comes in blocks.
#[derive(Debug, Clone)]
pub struct Selection {
    sizes: Sizes,
    below_min: BelowMin,
    /// Length of the chunk that is under way.
    length: u64,
    /// A candidate came before the least size ([`BelowMin::CutAtMin`] only).
    early: bool,
}

impl Selection {
    /// A selection at the beginning of a stream.
    ///
    /// # Panics
    /// If `sizes` are not in order.
    pub fn new(sizes: Sizes, below_min: BelowMin) -> Selection {
        let ordered = 1 <= sizes.min && sizes.min <= sizes.expected && sizes.expected <= sizes.max;
        assert!(ordered, "{sizes:?} are not in order");
        Selection { sizes, below_min, length: 0, early: false }
    }

    /// Length of the chunk that is under way, bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// True if the chunk under way will be cut at the least size ([`BelowMin::CutAtMin`] only).
    pub fn early(&self) -> bool {
        self.early
    }

    /// Goes on in a chunk of this length.
    pub(crate) fn resume(&mut self, length: u64, early: bool) {
        self.length = length;
        self.early = early;
    }

    /// Ends the chunk that is under way here; the next byte begins a new one.
    pub fn restart(&mut self) {
        self.length = 0;
        self.early = false;
    }

    /// Passes over `count` bytes (at most [`BLOCK_BYTES`]) with these marks, and tells `cut` the
    /// index after the last byte of every chunk that ends among them.
    ///
    /// # Panics
    /// If `count` exceeds [`BLOCK_BYTES`].
    pub fn advance(&mut self, count: usize, marks: &Marks, mut cut: impl FnMut(usize)) {
        assert!(count <= BLOCK_BYTES, "{count} bytes are more than a block");
        let mut at = 0;
        while at < count {
            let Some(end) = self.end(at, count, marks) else {
                self.length += (count - at) as u64;
                return;
            };
            debug_assert!(end > at && end <= count, "a cut lies ahead and in the block");
            cut(end);
            self.restart();
            at = end;
        }
    }

    /// The end of the chunk of which byte `at` is the next; `None` if it is not before `count`.
    fn end(&mut self, at: usize, count: usize, marks: &Marks) -> Option<usize> {
        // Index of the first byte behind a chunk of `size`, in this block.
        let length = self.length;
        let behind = |size: u32| at as u64 + u64::from(size).saturating_sub(length);
        let bounded = |size: u32| behind(size).min(count as u64 + 1) as usize;
        let (min, expected, max) =
            (bounded(self.sizes.min), bounded(self.sizes.expected), bounded(self.sizes.max));
        if self.below_min == BelowMin::CutAtMin {
            self.early |= first(&marks.loose, at, min.saturating_sub(1).min(count)).is_some();
            if self.early && length < u64::from(self.sizes.min) {
                return (min <= count).then_some(min);
            }
        }
        // A chunk that ends with byte `i` has its end at `i + 1`.
        let strict = first(
            &marks.strict,
            at.max(min.saturating_sub(1)),
            expected.saturating_sub(1).min(count),
        );
        let found = strict.or_else(|| {
            first(
                &marks.loose,
                at.max(expected.saturating_sub(1)),
                max.saturating_sub(1).min(count),
            )
        });
        found.map(|byte| byte + 1).or_else(|| (max <= count).then_some(max))
    }
}

/// The first marked byte in `from..to`.
fn first(words: &[u64; BLOCK_BYTES / 64], from: usize, to: usize) -> Option<usize> {
    if from >= to {
        return None;
    }
    let mut index = from / 64;
    let mut word = words[index] & (u64::MAX << (from % 64));
    loop {
        if word != 0 {
            let at = index * 64 + word.trailing_zeros() as usize;
            return (at < to).then_some(at);
        }
        index += 1;
        if index * 64 >= to {
            return None;
        }
        word = words[index];
    }
}
