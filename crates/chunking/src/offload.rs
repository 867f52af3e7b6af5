//! Chunking elsewhere: what an accelerator is told, and what it says in return held to this crate.
//!
//! 1. [`Chunking::tests`] puts a method into the few numbers that a core needs ([`Tests`]).
//! 2. [`UnderWay`] is a stream between two buffers: the bytes that the next windows begin in, and
//!    the chunk that has begun. With it any buffer can be cut alone ([`Tests::chunker`]).
//! 3. [`check`] holds positions from an accelerator to the rules before they are used. Order and
//!    sizes are checked always. Of the chunks some are cut again here: a chunk that is right has no
//!    cut before its end and one there, so every wrong or missing position spoils a chunk.

use crate::candidates::Candidates;
use crate::chunker::Chunker;
use crate::method::{Chunking, Method, Strengths};
use crate::rabin_source::RabinSource;
use crate::rabin16::Rabin16;
use crate::sampling::SAMPLING_PERIOD;
use crate::selection::{BelowMin, Sizes};
use std::fmt;
use thermocline_units::Rng;

/// Bytes before a buffer that decide on candidates in it.
pub const TAIL_BYTES: usize = 31;

/// A function that cores compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreFunction {
    /// [`RabinSource`]'s fingerprint.
    RabinSource,
    /// [`Rabin16`]'s.
    Rabin16,
}

impl fmt::Display for CoreFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CoreFunction::RabinSource => "rabin-source",
            CoreFunction::Rabin16 => "rabin16",
        })
    }
}

/// A byte is a candidate where `value AND mask` is `equals`, in two strengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tests {
    /// The function; `None`: there are no candidates.
    pub engine: Option<CoreFunction>,
    /// The mask of the loose test: the lowest bits, 0 to 16 of them.
    pub loose: u16,
    /// The mask of the strict test.
    pub strict: u16,
    /// 0 or 1; 0 for Rabin16.
    pub equals: u16,
}

impl Tests {
    /// The same candidates on this processor.
    pub fn candidates(&self) -> Box<dyn Candidates> {
        match self.engine {
            None => Chunking::NONE.candidates(),
            Some(CoreFunction::RabinSource) => {
                Box::new(RabinSource::tested(self.loose, self.equals))
            }
            Some(CoreFunction::Rabin16) => Box::new(Rabin16::tested(self.loose, self.strict)),
        }
    }

    /// A chunker that goes on where `under_way` says.
    ///
    /// # Panics
    /// If `sizes` are not in order.
    pub fn chunker(&self, sizes: Sizes, below_min: BelowMin, under_way: &UnderWay) -> Chunker {
        Chunker::new(self.candidates(), sizes, below_min).resumed(under_way)
    }
}

impl Chunking {
    /// The method as a core is told of it; `None` where no core computes it (gear, MAXP).
    pub fn tests(&self) -> Option<Tests> {
        let low = |bits: u32| ((1_u32 << bits) - 1) as u16;
        let same = |engine, mask, equals| Some(Tests { engine, loose: mask, strict: mask, equals });
        let expected = self.expected().map_or(0, |size| size.0);
        match self.method() {
            Method::None | Method::Fixed => same(None, 0, 0),
            Method::RabinSource => {
                same(Some(CoreFunction::RabinSource), low(expected.trailing_zeros()), 1)
            }
            Method::ModP => {
                same(Some(CoreFunction::RabinSource), low(SAMPLING_PERIOD.trailing_zeros()), 0)
            }
            Method::Rabin16 => {
                let Strengths { loose, strict } = Strengths::around(expected as u32);
                let engine = Some(CoreFunction::Rabin16);
                Some(Tests { engine, loose: low(loose), strict: low(strict), equals: 0 })
            }
            Method::Gear | Method::MaxP => None,
        }
    }
}

/// A stream between two buffers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnderWay {
    /// The last bytes of the stream, the newest last: at most [`TAIL_BYTES`], fewer at its
    /// beginning.
    pub tail: Vec<u8>,
    /// Length of the chunk that is under way, bytes.
    pub length: u64,
    /// A candidate came before the least size, and the chunk will be cut there
    /// ([`BelowMin::CutAtMin`] only).
    pub early: bool,
}

impl UnderWay {
    /// The stream after `bytes` more, when the chunk under way has come to `length` and `early`.
    pub fn after(&self, bytes: &[u8], length: u64, early: bool) -> UnderWay {
        let kept = TAIL_BYTES.saturating_sub(bytes.len()).min(self.tail.len());
        let mut tail = self.tail[self.tail.len() - kept..].to_vec();
        tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        UnderWay { tail, length, early }
    }
}

/// An accelerator's answer for one buffer.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The tests it was told.
    pub tests: Tests,
    /// The sizes it was told.
    pub sizes: Sizes,
    /// The rule for early candidates that it was given.
    pub below_min: BelowMin,
    /// The stream before the buffer.
    pub before: &'a UnderWay,
    /// The buffer.
    pub bytes: &'a [u8],
    /// Ends of chunks, as positions in the buffer.
    pub positions: &'a [u32],
    /// Length of the chunk under way behind the buffer.
    pub length: u64,
    /// The state of [`UnderWay::early`], behind the buffer.
    pub early: bool,
}

/// A claim that is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lie {
    /// Positions do not rise, or leave the buffer.
    #[error("the position {at} is out of order, or outside the buffer")]
    Order {
        /// The position.
        at: u32,
    },
    /// A chunk is shorter than the least size or longer than the greatest.
    #[error("the chunk that ends at {at} has {length} bytes, which the limits do not allow")]
    Size {
        /// Its end in the buffer.
        at: u32,
        /// Its length.
        length: u64,
    },
    /// The chunk under way has another length than what the positions leave.
    #[error("{claimed} bytes are said to be under way, but the positions leave {left}")]
    Left {
        /// Bytes claimed.
        claimed: u64,
        /// Bytes left.
        left: u64,
    },
    /// Cut again, a chunk ends elsewhere.
    #[error("the chunk before {at} is cut otherwise by content")]
    Content {
        /// Its end in the buffer.
        at: u32,
    },
}

/// Holds a claim to the rules. One chunk in `one_in`, drawn from `rng`, is cut again here, and
/// always the one under way at the end when a draw takes it; with `one_in` = 1 all are, and a claim
/// that passes is right. Cost: O(positions), and a `one_in`-th of chunking the buffer.
///
/// # Errors
/// The first thing found to be false.
///
/// # Panics
/// If `one_in` is 0, or the claim's sizes are not in order.
pub fn check(claim: &Claim<'_>, one_in: u64, rng: &mut Rng) -> Result<(), Lie> {
    assert!(one_in > 0, "one in none cannot be drawn");
    let total = claim.bytes.len();
    let mut start = 0;
    let mut length = claim.before.length;
    for &at in claim.positions {
        let end = at as usize;
        if end <= start || end > total {
            return Err(Lie::Order { at });
        }
        length += (end - start) as u64;
        let Sizes { min, max, .. } = claim.sizes;
        if length < u64::from(min) || length > u64::from(max) {
            return Err(Lie::Size { at, length });
        }
        if rng.below(one_in) == 0 && !cut_again(claim, start, end, true) {
            return Err(Lie::Content { at });
        }
        (start, length) = (end, 0);
    }
    let left = length + (total - start) as u64;
    if left != claim.length || left >= u64::from(claim.sizes.max) {
        return Err(Lie::Left { claimed: claim.length, left });
    }
    // Where candidates before the least size are ignored, none is remembered either.
    if claim.early && claim.below_min == BelowMin::Ignore {
        return Err(Lie::Content { at: total as u32 });
    }
    if rng.below(one_in) == 0 && !cut_again(claim, start, total, false) {
        return Err(Lie::Content { at: total as u32 });
    }
    Ok(())
}

/// True if the chunk `start..end` of the buffer is what content says: `ends` there, or is under
/// way.
fn cut_again(claim: &Claim<'_>, start: usize, end: usize, ends: bool) -> bool {
    let mut before = claim.before.after(&claim.bytes[..start], 0, false);
    if start == 0 {
        (before.length, before.early) = (claim.before.length, claim.before.early);
    }
    let mut chunker = claim.tests.chunker(claim.sizes, claim.below_min, &before);
    let mut cuts = Vec::new();
    chunker.push(&claim.bytes[start..end], &mut cuts);
    if ends {
        return cuts == [(end - start) as u64];
    }
    cuts.is_empty() && chunker.early() == claim.early
}

#[cfg(test)]
mod tests;
