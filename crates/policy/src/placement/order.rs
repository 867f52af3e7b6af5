//! The order in which chunks are taken: heaviest first, in one word a chunk.
//!
//! Of equally heavy chunks the one on the faster pool goes first (it costs no move), then the one
//! met first. Weights that differ by less than 1/131,072 count as equal. A number that sorts is all
//! that is sorted: ten times as fast as chunks with their weights, for a million of them.
//!
//! [`sort`] sorts by radix: chunks are told by ascending number, so that the upper half of the word
//! is all there is to sort by, in four passes of 8 bits from the lowest on; a pass in which all
//! have the same digit is left out. State: 8 B a chunk while it sorts.

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

/// Bits of a digit, and digits above the number: 4 × 8 ≥ 32.
const DIGIT_BITS: u32 = 8;
const DIGITS: u32 = 4;
const BUCKETS: usize = 1 << DIGIT_BITS;
/// Fewer are sorted faster by comparing.
const RADIX_FROM: usize = 2048;

const _: () = assert!(DIGIT_BITS * DIGITS >= u32::BITS);

/// Sorts places, all of them of different chunks.
pub(super) fn sort(places: &mut Vec<u64>) {
    let ascending = |pair: &[u64]| number(pair[0]) < number(pair[1]);
    if places.len() < RADIX_FROM || !places.windows(2).all(ascending) {
        places.sort_unstable();
        return;
    }
    let mut from = std::mem::take(places);
    let mut to = vec![0; from.len()];
    for digit in 0..DIGITS {
        let digit = |place: u64| (place >> (u32::BITS + digit * DIGIT_BITS)) as usize % BUCKETS;
        let mut starts = [0_usize; BUCKETS];
        from.iter().for_each(|&place| starts[digit(place)] += 1);
        if starts[digit(from[0])] == from.len() {
            continue;
        }
        let mut sum = 0;
        starts.iter_mut().for_each(|start| sum += std::mem::replace(start, sum));
        for &place in &from {
            let at = &mut starts[digit(place)];
            to[*at] = place;
            *at += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    *places = from;
}

#[cfg(test)]
mod tests;
