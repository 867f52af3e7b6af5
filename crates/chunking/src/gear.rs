//! Gear: a sum of random numbers, each shifted left as its byte ages.
//!
//! `h = (h << 1) + table[byte]` in 32 bits, so a byte leaves the sum after 32 steps and the hash is
//! a function of the last 32 bytes. A byte is a candidate when the highest bits are zero: those
//! depend on the whole window. Source: Xia et al., "Ddelta: A Deduplication-Inspired Fast Delta
//! Compression Approach", Performance Evaluation 79, 2014, §3.2; the two strengths are FastCDC's.
//!
//! The block is cut in four stripes that are hashed side by side, because one hash waits for the
//! one before it. Stripes start 31 bytes early: that is all they need to know of their neighbours.

use crate::candidates::{Candidates, Marks};
use crate::method::Strengths;

const WINDOW: usize = 32;
const STRIPES: usize = 4;

/// The gear hash with the two tests of one expected size.
#[derive(Debug, Clone, Copy)]
pub struct Gear {
    /// A hash below this is a loose candidate.
    loose_below: u32,
    /// A hash below this is a strict one.
    strict_below: u32,
}

impl Gear {
    /// Candidates for an expected size in bytes, a power of two.
    pub fn new(expected: u32) -> Gear {
        let Strengths { loose, strict } = Strengths::around(expected);
        Gear { loose_below: 1 << (32 - loose), strict_below: 1 << (32 - strict) }
    }

    fn test(&self, hash: u32, at: usize, marks: &mut Marks) {
        if hash < self.loose_below {
            marks.set(at, hash < self.strict_below);
        }
    }
}

impl Candidates for Gear {
    fn window(&self) -> usize {
        WINDOW
    }

    fn mark(&self, bytes: &[u8], marks: &mut Marks) {
        marks.clear(bytes.len());
        let Some(count) = bytes.len().checked_sub(WINDOW - 1) else { return };
        let stripe = count / STRIPES;
        let mut hashes = [0_u32; STRIPES];
        for at in 0..WINDOW - 1 {
            for (lane, hash) in hashes.iter_mut().enumerate() {
                *hash = roll(*hash, bytes[lane * stripe + at]);
            }
        }
        let lanes: [&[u8]; STRIPES] =
            std::array::from_fn(|lane| &bytes[lane * stripe + WINDOW - 1..][..stripe]);
        for at in 0..stripe {
            for (lane, (hash, bytes)) in hashes.iter_mut().zip(lanes).enumerate() {
                *hash = roll(*hash, bytes[at]);
                self.test(*hash, lane * stripe + WINDOW - 1 + at, marks);
            }
        }
        // The last lane goes on over what the division left.
        for (at, &byte) in bytes.iter().enumerate().skip(STRIPES * stripe + WINDOW - 1) {
            hashes[STRIPES - 1] = roll(hashes[STRIPES - 1], byte);
            self.test(hashes[STRIPES - 1], at, marks);
        }
    }
}

fn roll(hash: u32, byte: u8) -> u32 {
    (hash << 1).wrapping_add(TABLE[usize::from(byte)])
}

/// 256 random numbers: the high halves of SplitMix64 from the seed 0 on.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut state = 0_u64;
    let mut index = 0;
    while index < 256 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        table[index] = ((mixed ^ (mixed >> 31)) >> 32) as u32;
        index += 1;
    }
    table
};
