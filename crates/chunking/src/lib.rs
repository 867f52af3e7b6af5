//! Cut points of a byte stream: where one chunk ends and the next begins, by content.
//!
//! Two parts that know nothing of each other:
//!
//! 1. **Candidates** ([`Candidates`]): for each byte, whether a chunk may end after it. A pure
//!    function of the last few bytes ([`Candidates::window`], 32 for most methods), so it can be
//!    computed in any order, by SIMD, or on another device, and checked against this crate.
//! 2. **Selection** ([`Selection`]): which candidates become cut points, given the least, the
//!    expected and the greatest size of a chunk ([`Sizes`]).
//!
//! [`Chunker`] joins them over a stream; [`offload`](check) is what another device computes,
//! checked. Invariants: the cut points depend on the bytes only, not on how they were split into
//! calls; every chunk but the last is at least [`Sizes::min`] and at most [`Sizes::max`] long;
//! every way to compute a method (scalar, AVX2, AVX-512 with GFNI) finds the same candidates, bit
//! for bit. Not here: fingerprints of chunks, caches, what is done with a chunk.

mod candidates;
mod chunker;
mod gear;
mod method;
mod offload;
mod rabin16;
mod rabin_source;
mod sampling;
mod selection;

#[cfg(test)]
mod tests;

pub use candidates::{BLOCK_BYTES, Candidates, Marks, WINDOW_MAX};
pub use chunker::Chunker;
pub use gear::Gear;
pub use method::{Chunking, ChunkingError, EXPECTED_MAX, EXPECTED_MIN, METHODS, Method};
pub use offload::{Claim, CoreFunction, Lie, TAIL_BYTES, Tests, UnderWay, check};
pub use rabin_source::{PRIME, RabinSource, fingerprint};
pub use rabin16::{Engine, POLYNOMIAL, Rabin16};
pub use sampling::{MaxP, ModP, SAMPLING_PERIOD};
pub use selection::{BelowMin, Selection, Sizes};
