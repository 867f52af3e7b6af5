//! FIU traces with the content's MD5: `time pid process lba size op major minor md5`.
//!
//! Source: R. Koller, R. Rangaswami, "I/O Deduplication", FAST 2010 (SNIA IOTTA 391: homes, mail,
//! web). Time counts nanoseconds, lba and size 512-byte sectors, op is `R` or `W`; the volume is
//! `major,minor`, as blkparse prints a device. A process name may hold blanks, so fields are
//! counted from both ends.
//!
//! What the digests stand for is told by their number, because the published sets differ: in mail
//! one digest of 32 digits covers 4 KiB; in homes each sector has its own (eight for a request of
//! eight sectors; the commonest there, `bf619eac0cdf3f68d496ea9344137e8b`, is the MD5 of 512 zero
//! bytes). [`crate::Batch::hashes`] wants one for each 4 KiB from the request's start on, so the
//! digests of a block's sectors are folded into one, in order, by `fold`; equal contents give
//! equal hashes, and unlike contents unlike ones as surely as MD5 does. Hashes of the two kinds
//! cannot be compared.

use super::Problem;
use super::arc::first_blank_separated;
use super::capture::hex_into;
use super::msr::read_or_write;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, scaled_field, whole_field};
use crate::order::OrderRule;
use crate::request::{ContentHash, HashRange, Request};
use thermocline_units::Nanos;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// Sectors of a block of 4 KiB.
const BLOCK_SECTORS: usize = 8;

/// Hexadecimal digits of an MD5.
const DIGEST_DIGITS: usize = 32;

/// Fields a line has at least.
const FIELDS_MIN: usize = 9;

/// Fields a line may have: a process name has at most 15 bytes, so at most 8 words.
const FIELDS_MAX: usize = FIELDS_MIN + 7;

/// Parser of FIU's traces.
#[derive(Debug)]
pub(crate) struct Fiu;

impl LineFormat for Fiu {
    fn layout(&self) -> &str {
        "time pid process lba size op major minor md5"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Steady(Nanos::from_secs(1))
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let mut places: [&[u8]; FIELDS_MAX] = [&[]; FIELDS_MAX];
        let fields = first_blank_separated(line, &mut places);
        let [time, process, _, .., block, size, op, major, minor, digests] = fields else {
            let found = Excerpt(line);
            return Err(Problem::new(format!("fewer than {FIELDS_MIN} fields: `{found}`")));
        };
        let time = whole_field("the time", time)?;
        whole_field("the process id", process)?;
        let offset = scaled_field("the lba", block, SECTOR_BYTES)?;
        let sectors = whole_field("the size", size)?;
        let length = scaled_field("the size", size, SECTOR_BYTES)?;
        let op = read_or_write(op)?;
        whole_field("the major device number", major)?;
        whole_field("the minor device number", minor)?;
        let volume = context.volumes.id_of(&[*major, b",", *minor].concat())?;
        let mut found = request(time, volume, op, offset, length);
        found.hashes = take_digests(digests, sectors, context.hashes)?;
        Ok(Some(found))
    }
}

fn take_digests(
    digests: &[u8],
    sectors: u64,
    hashes: &mut Vec<ContentHash>,
) -> Result<HashRange, Problem> {
    let start = hashes.len() as u32;
    let count = digests.len() / DIGEST_DIGITS;
    let whole = digests.len().is_multiple_of(DIGEST_DIGITS);
    let per_hash = match count as u64 {
        _ if !whole || count == 0 => 0,
        count if count == sectors.div_ceil(BLOCK_SECTORS as u64) => 1,
        count if count == sectors => BLOCK_SECTORS,
        _ => 0,
    };
    if per_hash == 0 {
        return Err(Problem::new(format!(
            "{} digits of MD5 for {sectors} sectors; there are 32 for each 4 KiB or each sector",
            digests.len()
        )));
    }
    for block in digests.chunks(per_hash * DIGEST_DIGITS) {
        let mut folded = ContentHash::default();
        for (index, digits) in block.chunks_exact(DIGEST_DIGITS).enumerate() {
            let mut digest = ContentHash::default();
            hex_into(digits, &mut digest.0)?;
            folded = if index == 0 { digest } else { fold(folded, digest) };
        }
        hashes.push(folded);
    }
    Ok(HashRange { start, count: hashes.len() as u32 - start })
}

/// Joins a block's hash so far with its next sector's digest, depending on the order: a
/// polynomial in an odd number over the integers modulo 2^128.
fn fold(so_far: ContentHash, next: ContentHash) -> ContentHash {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let sum =
        u128::from_le_bytes(so_far.0).wrapping_mul(ODD).wrapping_add(u128::from_le_bytes(next.0));
    ContentHash(sum.to_le_bytes())
}
