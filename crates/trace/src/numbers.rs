//! Decimal numbers in text, read without allocation and without losing a digit.
//!
//! Whole numbers are scanned eight digits at a time inside one machine word (the well-known
//! "SIMD within a register" scheme: subtract `'0'` from all bytes, fold pairs, fours, eights).
//! Fractions are read exactly into integers; no floating point takes part. A number of more than
//! [`DIGITS_MAX`] digits is refused, never wrapped.

use crate::formats::Problem;

/// Digits a whole number may have; 10¹⁹ − 1 still fits 64 bits.
pub(crate) const DIGITS_MAX: usize = 19;

const ASCII_ZEROES: u64 = 0x3030_3030_3030_3030;

/// The eight bytes of `text` from `at` on as a little-endian word; beyond its end there are zeroes.
#[inline(always)]
fn word_at(text: &[u8], at: usize) -> u64 {
    match text.get(at..at + 8).and_then(|bytes| bytes.first_chunk()) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => word_at_end(text, at),
    }
}

/// [`word_at`] where fewer than eight bytes are left.
#[cold]
#[inline(never)]
fn word_at_end(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
    u64::from_le_bytes(bytes)
}

/// The value of eight digits (first digit in the lowest byte), each already reduced to 0–9.
#[inline(always)]
fn fold_eight(digits: u64) -> u64 {
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff
}

/// Scans the decimal digits at `text[at..]`: their value and the index after the last one. `None`
/// when there is no digit or there are more than [`DIGITS_MAX`].
#[inline(always)]
pub(crate) fn scan_whole(text: &[u8], at: usize) -> Option<(u64, usize)> {
    const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let (mut value, mut end) = (0u64, at);
    loop {
        let digits = word_at(text, end) ^ ASCII_ZEROES;
        // A byte above 9 gets its top bit set; a carry only spoils bytes behind the first such.
        let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
        if others == 0 {
            if end - at > DIGITS_MAX - 8 {
                return None;
            }
            value = value * 100_000_000 + fold_eight(digits);
            end += 8;
            continue;
        }
        let count = (others.trailing_zeros() / 8) as usize;
        if count > 0 {
            if end - at + count > DIGITS_MAX {
                return None;
            }
            value = value * POWERS.get(count)? + fold_eight(digits << (64 - 8 * count));
            end += count;
        }
        return (end > at).then_some((value, end));
    }
}

/// At most eight bytes that are compared at once.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    bits: u64,
    mask: u64,
    bytes: usize,
}

impl Word {
    /// The word of one to eight bytes.
    pub(crate) const fn of(text: &[u8]) -> Word {
        assert!(!text.is_empty() && text.len() <= 8, "one to eight bytes");
        let mut bits = 0;
        let mut rest = text;
        while let [before @ .., last] = rest {
            bits = bits << 8 | *last as u64;
            rest = before;
        }
        Word { bits, mask: u64::MAX >> (64 - 8 * text.len()), bytes: text.len() }
    }
}

/// Steps over a line in its canonical spelling, field by field; `None` at anything unexpected.
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of `text`, which goes on behind the line.
    #[inline(always)]
    pub(crate) fn new(text: &'a [u8]) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    /// A number and the byte behind it.
    #[inline(always)]
    pub(crate) fn number_then(&mut self, behind: u8) -> Option<u64> {
        let (value, end) = scan_whole(self.text, self.at)?;
        if self.text.get(end) != Some(&behind) {
            return None;
        }
        self.at = end + 1;
        Some(value)
    }

    /// Either of two words: true for the first. Decided without a branch, because reads and
    /// writes follow each other in no order that a processor could guess.
    #[inline(always)]
    pub(crate) fn accept_either(&mut self, first: Word, second: Word) -> Option<bool> {
        let next = word_at(self.text, self.at);
        let is_first = next & first.mask == first.bits;
        let is_second = next & second.mask == second.bits;
        if !(is_first | is_second) {
            return None;
        }
        self.at += if is_first { first.bytes } else { second.bytes };
        Some(is_first)
    }

    /// The line's rest and all behind it.
    #[inline(always)]
    pub(crate) fn rest(&self) -> Option<&'a [u8]> {
        self.text.get(self.at..)
    }

    /// Steps over `count` bytes of the rest.
    #[inline(always)]
    pub(crate) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    /// Bytes stepped over so far.
    #[inline(always)]
    pub(crate) fn position(&self) -> usize {
        self.at
    }
}

/// The bytes before the one at `at`, and those behind it; `None` if there is no such byte.
#[inline(always)]
pub(crate) fn split_around(text: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    match text.split_at_checked(at)? {
        (before, [_, behind @ ..]) => Some((before, behind)),
        _ => None,
    }
}

/// The whole of `field` as a whole number.
#[inline]
pub(crate) fn whole(field: &[u8]) -> Option<u64> {
    match scan_whole(field, 0) {
        Some((value, end)) if end == field.len() => Some(value),
        _ => None,
    }
}

/// The whole of `field` as a decimal fraction of a unit of `scale` parts, in parts: `1.5` with a
/// scale of 1,000 is 1,500. What is finer than one part is cut off.
pub(crate) fn fraction(field: &[u8], scale: u64) -> Option<u64> {
    parts_of(field, scale).map(|(parts, _)| parts)
}

/// The same, and true if nothing was cut off.
fn parts_of(field: &[u8], scale: u64) -> Option<(u64, bool)> {
    let point = memchr::memchr(b'.', field).and_then(|point| split_around(field, point));
    let units = whole(point.map_or(field, |(units, _)| units))?;
    let mut parts = u128::from(units) * u128::from(scale);
    let mut is_exact = true;
    if let Some((_, decimals)) = point {
        if decimals.is_empty() || !decimals.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let kept = decimals.get(..DIGITS_MAX - 1).unwrap_or(decimals);
        let tenths = 10u128.pow(kept.len() as u32);
        let scaled = u128::from(whole(kept)?) * u128::from(scale);
        parts += scaled / tenths;
        let rest = decimals.get(kept.len()..).unwrap_or_default();
        is_exact = scaled.is_multiple_of(tenths) && rest.iter().all(|digit| *digit == b'0');
    }
    Some((u64::try_from(parts).ok()?, is_exact))
}

/// The problem with a field that should have been a number; `what` names it ("the offset").
#[cold]
pub(crate) fn not_a_number(what: &str, field: &[u8]) -> Problem {
    let digits = |text: &[u8]| {
        !text.is_empty() && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
    };
    let found = Excerpt(field);
    match field {
        [] => Problem::new(format!("{what} is missing")),
        [b'-', rest @ ..] if digits(rest) => Problem::new(format!("{what} `{found}` is negative")),
        _ if field.iter().all(u8::is_ascii_digit) => {
            Problem::new(format!("{what} `{found}` is too large to be real"))
        }
        _ => Problem::new(format!("{what} `{found}` is not a number")),
    }
}

/// A required whole number.
#[inline]
pub(crate) fn whole_field(what: &str, field: &[u8]) -> Result<u64, Problem> {
    whole(field).ok_or_else(|| not_a_number(what, field))
}

/// A required whole number of units of `unit` bytes or nanoseconds, as bytes or nanoseconds.
#[inline]
pub(crate) fn scaled_field(what: &str, field: &[u8], unit: u64) -> Result<u64, Problem> {
    whole_field(what, field)?.checked_mul(unit).ok_or_else(|| too_large(what, field))
}

/// A required decimal fraction of a unit of `unit` nanoseconds, in nanoseconds.
pub(crate) fn fraction_field(what: &str, field: &[u8], unit: u64) -> Result<u64, Problem> {
    parts_field(what, field, unit).map(|(parts, _)| parts)
}

/// A required decimal fraction of a unit of `unit` parts, in parts, and true if it comes to whole
/// ones.
fn parts_field(what: &str, field: &[u8], unit: u64) -> Result<(u64, bool), Problem> {
    parts_of(field, unit).ok_or_else(|| {
        let number = field.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let points = field.iter().filter(|byte| **byte == b'.').count();
        if number && points <= 1 && field.first().is_some_and(u8::is_ascii_digit) {
            if field.ends_with(b".") { not_a_number(what, field) } else { too_large(what, field) }
        } else {
            not_a_number(what, field)
        }
    })
}

/// A required number of units of `unit` bytes, in whole bytes; a fraction is of a unit.
pub(crate) fn bytes_field(what: &str, field: &[u8], unit: u64) -> Result<u64, Problem> {
    match parts_field(what, field, unit)? {
        (bytes, true) => Ok(bytes),
        (_, false) => Err(Problem::new(format!(
            "{what} `{}` is no whole number of bytes; is it another column, or another unit?",
            Excerpt(field)
        ))),
    }
}

#[cold]
fn too_large(what: &str, field: &[u8]) -> Problem {
    Problem::new(format!("{what} `{}` is too large to be real", Excerpt(field)))
}

/// Foreign bytes as they may be shown in a message: escaped, and cut after [`Excerpt::BYTES_MAX`].
pub(crate) struct Excerpt<'a>(pub(crate) &'a [u8]);

impl Excerpt<'_> {
    /// Bytes shown at most.
    const BYTES_MAX: usize = 60;
}

impl std::fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.0.get(..Self::BYTES_MAX).unwrap_or(self.0);
        write!(f, "{}", shown.escape_ascii())?;
        if shown.len() < self.0.len() { write!(f, "…") } else { Ok(()) }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
