//! The words every other room speaks in: sizes, times, ids, latencies, the seeded generator.
//!
//! Invariants: a size is always in bytes and a time always in nanoseconds inside the project; units
//! appear in text only at the edges, where they are parsed and printed here. Nothing in this crate
//! reads a clock, a file or the environment.

mod bytes;
mod digest;
pub mod fields;
mod flips;
mod ids;
mod latencies;
pub mod mutants;
mod nanos;
mod nearest;
mod prefetch;
mod rng;
pub mod situations;
mod slab;
pub mod text;

pub use bytes::Bytes;
pub use digest::Digest;
pub use flips::with_one_bit_changed;
pub use ids::{ChunkId, LineId, PoolId, SiteId, VolumeId};
pub use latencies::Latencies;
pub use nanos::Nanos;
pub use nearest::nearest;
pub use prefetch::prefetch;
pub use rng::Rng;
pub use slab::Slab;

/// A quantity in text that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}; write it like {example}")]
pub struct ParseQuantityError {
    /// The user's text.
    pub text: String,
    /// The kind of value that was expected: "size", "duration".
    pub what: &'static str,
    /// An example that would have worked.
    pub example: &'static str,
}

/// Splits `"1.5GiB"` into the number and its unit; the unit is trimmed and may be empty.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Scales `number` by `factor`; `None` when the result is not a whole, representable count.
fn scale(number: f64, factor: u64) -> Option<u64> {
    let value = (number * factor as f64).round();
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
}

#[cfg(test)]
mod tests;
