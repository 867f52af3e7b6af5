//! Our recorder's text: `ns,op,offset,len,hashes`.
//!
//! One line a request: nanoseconds since the start, `R`, `W`, `F` (flush) or `T` (trim), offset
//! and length in bytes, and the content's hashes: 16 hexadecimal digits for each 4 KiB begun,
//! joined without a separator, or nothing. A hash fills the first 8 of a [`ContentHash`]'s bytes.
//! The recorder writes in the order it saw, so time running backwards means damage and is an
//! error.

use super::Problem;
use super::msr::split_commas;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, whole_field};
use crate::order::OrderRule;
use crate::request::{ContentHash, HashRange, Op, Request};
use thermocline_units::Nanos;

/// Bytes of content that one hash stands for.
const BLOCK_BYTES: u64 = 4096;

/// Hexadecimal digits of a hash.
const HASH_DIGITS: usize = 16;

/// Parser of our recorder's text.
#[derive(Debug)]
pub(crate) struct Capture {
    volume: String,
}

impl Capture {
    pub(crate) fn new(volume: String) -> Capture {
        Capture { volume }
    }
}

impl LineFormat for Capture {
    fn layout(&self) -> &str {
        "ns,op,offset,len,hashes"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Steady(Nanos(0))
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let [time, op, offset, length, hashes] = split_commas(line)?;
        let time = whole_field("the time", time)?;
        let op = match op {
            b"R" => Op::Read,
            b"W" => Op::Write,
            b"F" => Op::Flush,
            b"T" => Op::Trim,
            other => {
                return Err(Problem::new(format!(
                    "`{}` is none of R (read), W (write), F (flush), T (trim)",
                    Excerpt(other)
                )));
            }
        };
        let offset = whole_field("the offset", offset)?;
        let length = whole_field("the length", length)?;
        let count = hash_count(hashes, length)?;
        let volume = context.volumes.id_of(self.volume.as_bytes())?;
        let start = context.hashes.len();
        for digits in hashes.chunks_exact(HASH_DIGITS) {
            let mut hash = ContentHash::default();
            hex_into(digits, &mut hash.0)?;
            context.hashes.push(hash);
        }
        let mut found = request(time, volume, op, offset, length);
        found.hashes = HashRange { start: start as u32, count };
        Ok(Some(found))
    }
}

fn hash_count(hashes: &[u8], length: u64) -> Result<u32, Problem> {
    let count = hashes.len() / HASH_DIGITS;
    if !hashes.len().is_multiple_of(HASH_DIGITS)
        || (count > 0 && count as u64 != length.div_ceil(BLOCK_BYTES))
    {
        return Err(Problem::new(format!(
            "{} digits of hashes for {length} bytes; there are 16 for each 4 KiB, or none",
            hashes.len()
        )));
    }
    Ok(count as u32)
}

/// Decodes hexadecimal `digits` into the first bytes of `hash`.
pub(super) fn hex_into(digits: &[u8], hash: &mut [u8; 16]) -> Result<(), Problem> {
    assert!(digits.len() <= 32 && digits.len().is_multiple_of(2), "at most 16 whole bytes");
    for (byte, [high, low]) in hash.iter_mut().zip(digits.as_chunks().0) {
        match (nibble(*high), nibble(*low)) {
            (Some(high), Some(low)) => *byte = high << 4 | low,
            _ => {
                return Err(Problem::new(format!(
                    "the hash `{}` is not hexadecimal",
                    Excerpt(digits)
                )));
            }
        }
    }
    Ok(())
}

/// The value of a hexadecimal digit.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
