//! VNRE's fingerprint: a sum in base 16 modulo a 64-bit prime.
//!
//! 1. For a window `t1 … t32`, `F = (t1·16^31 + t2·16^30 + … + t32) mod Q` with `Q = 2^64 − 59`
//!    (Ge, "Storage, network and host … hybrid storage" thesis, §4.2.2, eq. 4.1; `R = 16`, `M = 32`
//!    as printed, Q is "a large 64-bit prime" there).
//! 2. The next window's value follows from this one's (eq. 4.2):
//!    `F' = (F − t1·16^31)·16 + t33 mod Q`. Since `16^32 mod Q = 59²`, no table is needed.
//! 3. A byte is a candidate where `F AND (expected − 1) = 1`. There is one strength.
//!
//! Since the base is 16 and digits are bytes, neighbours overlap by four bits, and the sum is two
//! strings of nibbles added: `F = (low + 16·high) mod Q`, where `low` and `high` are the low and
//! the high nibbles of the window as 128-bit numbers. So it needs no recursion ([`fingerprint`]
//! computes it that way, and tests hold both to eq. 4.1). Its lowest bits depend on about nine of
//! the 32 bytes only; what it saves does not suffer from that.
//!
//! The block is cut in stripes as in `gear`. Values are kept below 2^64 and reduced below Q only
//! for the test: `2^64 ≡ 59 (mod Q)`.

use crate::candidates::{Candidates, Marks};

/// The modulus: the greatest prime below 2^64.
pub const PRIME: u64 = u64::MAX - 58;

pub(crate) const WINDOW: usize = 32;
const STRIPES: usize = 4;
/// 2^64 modulo [`PRIME`].
const WRAP: u64 = 59;

/// VNRE's candidates for one expected size.
#[derive(Debug, Clone, Copy)]
pub struct RabinSource {
    mask: u64,
    equals: u64,
}

impl RabinSource {
    /// Candidates for an expected size in bytes, a power of two.
    pub fn new(expected: u32) -> RabinSource {
        assert!(expected.is_power_of_two(), "an expected size is a power of two");
        RabinSource { mask: u64::from(expected) - 1, equals: 1 }
    }

    /// Candidates by any mask.
    pub(crate) fn tested(mask: u16, equals: u16) -> RabinSource {
        RabinSource { mask: u64::from(mask), equals: u64::from(equals) }
    }
}

impl Candidates for RabinSource {
    fn window(&self) -> usize {
        WINDOW
    }

    fn mark(&self, bytes: &[u8], marks: &mut Marks) {
        marks.clear(bytes.len());
        let RabinSource { mask, equals } = *self;
        fingerprints(bytes, |at, value| {
            if value & mask == equals {
                marks.set(at, true);
            }
        });
    }
}

/// The fingerprint of one window, without recursion: two strings of nibbles added.
pub fn fingerprint(window: &[u8; WINDOW]) -> u64 {
    let nibbles = |shift: u32| {
        window.iter().fold(0_u128, |sum, &byte| (sum << 4) | u128::from((byte >> shift) & 15))
    };
    let (low, high) = (nibbles(0), nibbles(4));
    let fold = |number: u128| (number >> 64) * u128::from(WRAP) + (number & u128::from(u64::MAX));
    // Below 2^70 each, so the sum fits; two more folds bring it below 2^64 + 59.
    (fold(fold(fold(low) + 16 * fold(high))) % u128::from(PRIME)) as u64
}

/// Tells `tell` the fingerprint of the window that ends with each byte, from byte 31 on.
pub(crate) fn fingerprints(bytes: &[u8], mut tell: impl FnMut(usize, u64)) {
    let Some(count) = bytes.len().checked_sub(WINDOW - 1) else { return };
    let stripe = count / STRIPES;
    let mut values = [0_u64; STRIPES];
    for at in 0..WINDOW - 1 {
        for (lane, value) in values.iter_mut().enumerate() {
            *value = roll(*value, 0, bytes[lane * stripe + at]);
        }
    }
    let entering: [&[u8]; STRIPES] =
        std::array::from_fn(|lane| &bytes[lane * stripe + WINDOW - 1..][..stripe]);
    // The byte that leaves lies a window before the one that enters: none for the first.
    let mut leaving = [0_u8; STRIPES];
    for at in 0..stripe {
        for lane in 0..STRIPES {
            values[lane] = roll(values[lane], leaving[lane], entering[lane][at]);
            tell(lane * stripe + WINDOW - 1 + at, reduced(values[lane]));
            leaving[lane] = bytes[lane * stripe + at];
        }
    }
    let mut value = values[STRIPES - 1];
    let mut gone = if stripe > 0 { leaving[STRIPES - 1] } else { 0 };
    for at in STRIPES * stripe + WINDOW - 1..bytes.len() {
        value = roll(value, gone, bytes[at]);
        tell(at, reduced(value));
        gone = bytes[at + 1 - WINDOW];
    }
}

/// Eq. 4.2 on a value below 2^64 that is congruent to the fingerprint.
fn roll(value: u64, leaving: u8, entering: u8) -> u64 {
    // 16·F + t − t_old·16^32, each carry and borrow of 2^64 being worth 59.
    let (sum, carry) = (value << 4).overflowing_add((value >> 60) * WRAP + u64::from(entering));
    let (rest, borrow) = sum.overflowing_sub(u64::from(leaving) * LEAVING);
    // A carry leaves a sum below 2^11, and a borrow a rest above 2^64 − 2^20: alone, neither
    // correction wraps, and together they are nothing.
    rest.wrapping_add(u64::from(carry) * WRAP).wrapping_sub(u64::from(borrow) * WRAP)
}

fn reduced(value: u64) -> u64 {
    if value >= PRIME { value - PRIME } else { value }
}

/// `16^32 = 2^128` modulo [`PRIME`]: what a byte is worth when it leaves.
const LEAVING: u64 = WRAP * WRAP;
