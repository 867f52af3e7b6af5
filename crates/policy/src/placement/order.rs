//! The order in which chunks are taken: heaviest first, in one word a chunk.
//!
//! Of equally heavy chunks the one on the faster pool goes first (it costs no move), then the one
//! met first. Weights that differ by less than 1/131,072 count as equal. A number that sorts is all
//! that is sorted: ten times as fast as chunks with their weights, for a million of them.

use thermocline_units::PoolId;

/// Bits of a weight that count: sign, exponent and 17 bits of its fraction.
const WEIGHT_BITS: u32 = 26;
/// Pools beyond the 64th of a machine are equals; machines have at most 64.
const HOME_BITS: u32 = 6;

const _: () = assert!(WEIGHT_BITS + HOME_BITS + u32::BITS == u64::BITS);

/// A chunk's place in the order; sorts heaviest first. `weight` is not negative, and finite.
#[inline]
pub(super) fn place(weight: f64, home: PoolId, number: u32) -> u64 {
    debug_assert!(weight >= 0.0 && weight.is_finite(), "a weight of {weight}");
    // Bits of floats that are not negative order as the floats do.
    let weight = !((weight as f32).to_bits() >> HOME_BITS) & ((1 << WEIGHT_BITS) - 1);
    let home = u32::from(home.0).min((1 << HOME_BITS) - 1);
    u64::from(weight << HOME_BITS | home) << 32 | u64::from(number)
}

/// The number of the chunk that stands at `place`.
#[inline]
pub(super) fn number(place: u64) -> u32 {
    place as u32
}

#[cfg(test)]
mod tests;
