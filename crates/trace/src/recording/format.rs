//! The bytes of a recording; drawn in `docs/formats/recording.md`.
//!
//! All numbers are little-endian. A file is a head of 16 bytes and then blocks; a block is a head
//! of 24 bytes and a zstd frame. Both heads and each frame carry a CRC-32 (IEEE 802.3), so that
//! what is cut off or damaged is known as such. Blocks hold records, one after the other, none
//! across two blocks. What follows from the records before (a time, a place) is written as a
//! difference.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use super::{CHUNKS_MAX, SecondCopy, VOLUMES_MAX};
use thermocline_units::PoolId;
use thermocline_units::fields::{put_at, u32_at};

/// The bytes a recording begins with: no text does, and a copy that "repaired" line ends shows.
pub(crate) const MAGIC: &[u8; 8] = b"\x89TCR\r\n\x1a\n";
/// The version written; those before it are read too. Version 1 knew neither figures of pools nor
/// where in a chunk an access begins, version 2 neither mirrored chunks nor promises, version 3 no
/// kept copies, version 4 no pools that join before others or are gone.
pub(crate) const VERSION: u16 = 5;
const OLDEST: u16 = 1;
/// Bytes of the file's head: magic, version, zero, CRC-32 of what stands before it.
pub(crate) const FILE_HEAD: usize = 16;
/// Bytes of a block's head: magic, number, stored bytes, plain bytes, CRC-32 of the frame, CRC-32
/// of the head before it.
pub(crate) const BLOCK_HEAD: usize = 24;
const BLOCK_MAGIC: &[u8; 4] = b"TCRB";

/// Plain bytes after which a block is closed.
pub(crate) const BLOCK_FULL: usize = 256 << 10;
/// Plain bytes that a block may have. What is added to a block that is not full is smaller than the
/// difference: a text at most.
pub(crate) const BLOCK_MAX: usize = 512 << 10;
/// Bytes of a text: a policy with its settings, a pair of the head.
pub(crate) const TEXT_MAX: usize = 4096;
/// Pairs of the head.
pub(crate) const PAIRS_MAX: usize = 16;
/// Parts of a request that need no record of their own when they are seen at once.
pub(crate) const SEEN_MAX: u64 = 64;
/// Chunks of one `HOMES` record.
pub(crate) const RUN_MAX: u32 = 1 << 16;
/// Pools of an epoch.
pub(crate) const POOLS_MAX: u64 = 64;
/// Figures of a pool.
pub(crate) const FIGURES_MAX: usize = 64;

const _: () = assert!(BLOCK_FULL + 2 * PAIRS_MAX * (TEXT_MAX + 4) < BLOCK_MAX);
const _: () = assert!(VOLUMES_MAX as u64 <= 1 << 32 && CHUNKS_MAX as u64 <= 1 << 32);

/// Kinds of records: the lower five bits of the first byte.
pub(crate) mod tag {
    pub(crate) const READ: u8 = 0;
    pub(crate) const WRITE: u8 = 1;
    pub(crate) const FLUSH: u8 = 2;
    pub(crate) const TRIM: u8 = 3;
    pub(crate) const ZERO: u8 = 4;
    pub(crate) const ANSWERED: u8 = 5;
    pub(crate) const FAILED: u8 = 6;
    pub(crate) const READS_CHUNK: u8 = 7;
    pub(crate) const WRITES_CHUNK: u8 = 8;
    pub(crate) const EPOCH: u8 = 9;
    pub(crate) const HOMES: u8 = 10;
    pub(crate) const MOVE: u8 = 11;
    pub(crate) const EPOCH_END: u8 = 12;
    pub(crate) const PLACED: u8 = 13;
    pub(crate) const HEAD: u8 = 14;
    pub(crate) const END: u8 = 15;
    pub(crate) const ROUTED: u8 = 16;
    pub(crate) const PROMISED: u8 = 17;
    pub(crate) const POOLS: u8 = 18;

    pub(crate) const KIND: u8 = 0x1f;
    /// The volume follows; otherwise it is the one before.
    pub(crate) const VOLUME: u8 = 0x20;
    /// The chunk shall be mirrored.
    pub(crate) const MIRRORED: u8 = 0x40;
    /// The pool is gone; without it, the pool has joined.
    pub(crate) const GONE: u8 = 0x40;
    /// The request is durable when answered.
    pub(crate) const FORCED: u8 = 0x40;
    /// The placement saw every part of the request before anything else happened; otherwise a
    /// number says how many.
    pub(crate) const SEEN: u8 = 0x80;
}

/// A chunk's places as one number, 0 for none: those with a second copy name its pool, and those of
/// a kept copy come behind those of a mirror.
pub(crate) fn places_code(pool: Option<PoolId>, second: Option<SecondCopy>) -> u64 {
    let number = |pool: PoolId| u64::from(pool.0) + 1;
    let second = match second {
        None => 0,
        Some(SecondCopy::Mirror(pool)) => number(pool),
        Some(SecondCopy::Kept(pool)) => POOLS_MAX + number(pool),
    };
    pool.map_or(0, number) + second * (POOLS_MAX + 1)
}

/// Places that [`places_code`] encoded.
pub(crate) fn places_of(code: u64) -> Option<(Option<PoolId>, Option<SecondCopy>)> {
    let [pool, second] = [code % (POOLS_MAX + 1), code / (POOLS_MAX + 1)];
    let place = |number: u64| PoolId((number - 1) as u16);
    let second = match second {
        0 => None,
        1..=POOLS_MAX => Some(SecondCopy::Mirror(place(second))),
        _ if second <= 2 * POOLS_MAX => Some(SecondCopy::Kept(place(second - POOLS_MAX))),
        _ => return None,
    };
    let first = (pool > 0).then(|| place(pool));
    let differ = second.is_none_or(|second| first.is_some_and(|first| first != second.pool()));
    differ.then_some((first, second))
}

/// CRC-32 of IEEE 802.3.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The beginning of a file.
pub(crate) fn file_head() -> [u8; FILE_HEAD] {
    let mut head = [0; FILE_HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let sum = checksum(&head[..12]);
    head[12..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// The version of a file that begins with `head`.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn check_file_head(head: &[u8; FILE_HEAD]) -> Result<u16, String> {
    let version = u16::from_le_bytes([head[8], head[9]]);
    if &head[..8] != MAGIC {
        return Err(format!(
            "not a recording: it begins with {:02x?}, a recording with {MAGIC:02x?}",
            &head[..8]
        ));
    }
    if checksum(&head[..12]).to_le_bytes() != head[12..] {
        return Err("the head of the recording is damaged; copy the file again".to_string());
    }
    match version {
        OLDEST..=VERSION => Ok(version),
        _ => Err(format!(
            "a recording of version {version}; this program reads versions {OLDEST} to {VERSION}"
        )),
    }
}

/// Contents of a block's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHead {
    /// Counted from 0; none is missing.
    pub(crate) number: u32,
    /// Bytes of the frame.
    pub(crate) stored: u32,
    /// Bytes of its records.
    pub(crate) plain: u32,
    /// CRC-32 of the frame.
    pub(crate) sum: u32,
}

impl BlockHead {
    pub(crate) fn to_bytes(self) -> [u8; BLOCK_HEAD] {
        let mut head = [0; BLOCK_HEAD];
        head[..4].copy_from_slice(BLOCK_MAGIC);
        for (at, field) in (4..).step_by(4).zip([self.number, self.stored, self.plain, self.sum]) {
            put_at(&mut head, at, &field.to_le_bytes());
        }
        let sum = checksum(&head[..20]);
        head[20..].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// The head of a block, if that is what `bytes` are.
    pub(crate) fn of(bytes: &[u8; BLOCK_HEAD]) -> Option<BlockHead> {
        let field = |at: usize| u32_at(bytes, at);
        let whole = &bytes[..4] == BLOCK_MAGIC && checksum(&bytes[..20]) == field(20)?;
        let (number, stored) = (field(4)?, field(8)?);
        let (plain, sum) = (field(12)?, field(16)?);
        whole.then_some(BlockHead { number, stored, plain, sum })
    }
}

/// Appends a number in groups of seven bits, the lowest first (LEB128).
#[inline]
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a difference: small ones, of either sign, are short.
#[inline]
pub(crate) fn put_difference(bytes: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from) as i64;
    put(bytes, (difference << 1 ^ difference >> 63) as u64);
}

/// Appends a text of at most [`TEXT_MAX`] bytes.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= TEXT_MAX, "a text of a recording has at most {TEXT_MAX} bytes");
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}
