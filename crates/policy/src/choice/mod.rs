//! Choices between pools for one request: which pool takes a new chunk, which copy is read, which
//! side of a mirrored chunk answers. `thermocline_volume` asks, with what it knows of its pools.

mod fill;
mod split;
#[cfg(test)]
mod tests;

pub use fill::{Fill, Room, pool_for_chunk};
pub use split::Split;

/// The one that is expected to wait least; the first of equals.
pub fn soonest<T>(copies: impl Iterator<Item = T>, wait: impl Fn(&T) -> f64) -> Option<T> {
    copies.min_by(|a, b| wait(a).total_cmp(&wait(b)))
}
