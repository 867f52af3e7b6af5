//! The Internet checksum: in full (RFC 1071), and by difference (RFC 1624, equation 3).
//!
//! A correction by difference touches only what changed. So a checksum that was wrong before stays
//! wrong, and a receiver still notices; and a header can be corrected although the rest of the
//! packet is not there, as in fragments and in ICMP errors.

use thermocline_units::mutants::mutant;

/// Sum of 16-bit words in ones' complement, not yet folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian words; a last odd byte counts as if a zero followed. Pieces before
    /// the last one must have an even length.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Sum {
        let (fours, rest) = bytes.as_chunks::<4>();
        let (twos, odd) = rest.as_chunks::<2>();
        let fours: u64 = fours.iter().map(|four| u64::from(u32::from_be_bytes(*four))).sum();
        let twos: u64 = twos.iter().map(|two| u64::from(u16::from_be_bytes(*two))).sum();
        let odd: u64 = odd.iter().map(|high| u64::from(*high) << 8).sum();
        Sum(self.0 + fours + twos + odd)
    }

    /// Adds one number.
    #[must_use]
    pub(crate) fn with_word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word))
    }

    /// Value of the 16 bits that a header carries for this sum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
}

/// Change of a sum by words that were replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Difference(u64);

impl Difference {
    /// Notes that `old` became `new`; both begin at an even offset of what is summed, and have the
    /// same even length.
    #[must_use]
    pub fn replace(self, old: &[u8], new: &[u8]) -> Difference {
        debug_assert!(old.len() == new.len() && old.len().is_multiple_of(2), "whole words");
        let words = |bytes: &[u8], flip: u16| -> u64 {
            let (words, _) = bytes.as_chunks();
            words.iter().map(|word| u64::from(u16::from_be_bytes(*word) ^ flip)).sum()
        };
        Difference(self.0 + words(old, 0xffff) + words(new, 0))
    }

    /// Notes that one number became another.
    #[must_use]
    pub(crate) fn replace_word(self, old: u16, new: u16) -> Difference {
        Difference(self.0 + u64::from(!old) + u64::from(new))
    }

    /// Both changes.
    #[must_use]
    pub fn and(self, other: Difference) -> Difference {
        Difference(self.0 + other.0)
    }

    /// The checksum that follows from `checksum` by this change.
    pub fn apply(self, checksum: u16) -> u16 {
        let before = if mutant("checksum_with_the_wrong_sign") { checksum } else { !checksum };
        let sum = Sum(self.0 + u64::from(before)).folded();
        if mutant("checksum_with_the_wrong_sign") { sum } else { !sum }
    }
}
