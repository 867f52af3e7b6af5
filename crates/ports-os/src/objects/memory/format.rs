//! The bytes of the file that remembers a bucket, little-endian. Drawn in docs/formats/bucket.md.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use super::Remembered;
use thermocline_units::fields::{put_at, u64_at};

const MAGIC: &[u8; 8] = b"THERMOBM";
const VERSION: u64 = 1;
/// Magic 8, version 8, identity 8, owner 8, sequence 8, zero 8, checksum 8.
pub(super) const BYTES: usize = 56;
const IDENTITY_AT: usize = 16;
const OWNER_AT: usize = 24;
const SEQUENCE_AT: usize = 32;
const SUM_AT: usize = 48;

const _: () = assert!(SUM_AT + 8 == BYTES, "the checksum stands last");

pub(super) fn encode(what: Remembered) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    put_at(&mut bytes, 0, MAGIC);
    put_at(&mut bytes, MAGIC.len(), &VERSION.to_le_bytes());
    put_at(&mut bytes, IDENTITY_AT, &what.identity.to_le_bytes());
    put_at(&mut bytes, OWNER_AT, &what.owner.to_le_bytes());
    put_at(&mut bytes, SEQUENCE_AT, &what.sequence.to_le_bytes());
    let sum = sum(&bytes);
    put_at(&mut bytes, SUM_AT, &sum.to_le_bytes());
    bytes
}

/// Reads what [`encode`] wrote; `None` when it is damaged, or something else.
pub(super) fn decode(bytes: &[u8; BYTES]) -> Option<Remembered> {
    let is_whole = bytes.starts_with(MAGIC) && u64_at(bytes, SUM_AT)? == sum(bytes);
    let (identity, owner) = (u64_at(bytes, IDENTITY_AT)?, u64_at(bytes, OWNER_AT)?);
    is_whole.then_some(Remembered { identity, owner, sequence: u64_at(bytes, SEQUENCE_AT)? })
}

/// CRC-32C of what stands between the magic and the checksum.
fn sum(bytes: &[u8; BYTES]) -> u64 {
    u64::from(bytes.get(MAGIC.len()..SUM_AT).map_or(0, crc32c::crc32c))
}
