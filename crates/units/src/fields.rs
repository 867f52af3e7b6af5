//! Numbers at fixed places in bytes, little-endian.
//!
//! Bytes from outside are read with functions that return `None` beyond their end. What a program
//! writes itself has the length that it gave it: writing beyond the end is a bug, and panics.

/// The number of two bytes at `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number of four bytes at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number of eight bytes at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes `field` at `at`, over what is there.
///
/// # Panics
/// When the bytes end before it does.
pub fn put_at(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests;
