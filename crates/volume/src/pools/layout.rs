//! Layout of a pool: two superblocks, a region for metadata, then the slots.
//!
//! ```text
//! 0        4 KiB     8 KiB                                              first slot
//! | super 0 | super 1 | journal ring | checkpoint area 0 | area 1 | tables | slot 0 | slot 1 …
//! ```
//! The checksum tables of slots by which a pool grew later stand in slots of their own (`tables`).
//!
//! The metadata region stands on every pool where it takes no more than an eighth, and on two pools
//! in any case where there are two; the journal and the checkpoints live on two of those.

use crate::settings::{CHUNK_MIN, COPIES_MAX, Limits, VOLUME_NAME_BYTES_MAX};
use crate::sizes::{AREA_BLOCKS_MAX, BLOCK_BYTES, RECORD_BYTES_MAX, REDIRECT_CHUNK_MAX};
use thermocline_ports::SECTOR;
use thermocline_units::Bytes;

/// Chunks in two parts that every checkpoint has room for.
const OVERLAYS_FIXED: usize = 32;
/// Slots begin at multiples of this.
pub(crate) const ALIGNMENT: u64 = 64 << 10;
/// Bytes of the record of a chunk with one copy and the checksum of its table; a further copy adds
/// seven.
const CHUNK_RECORD_BYTES: u64 = 24;
/// Bytes of a volume's record without its name.
const VOLUME_RECORD_BYTES: usize = 22;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes by which a further copy makes a chunk's record longer.
const COPY_BYTES: u64 = 7;
/// Bytes of the place and the length of a second part, before its bits.
const OVERLAY_HEAD_BYTES: u64 = 8;

const _: () = assert!(ALIGNMENT.is_multiple_of(BLOCK), "slots begin with a block");
const _: () =
    assert!(CHUNK_MIN.0.is_multiple_of(ALIGNMENT), "each slot is aligned as the first is");
const _: () = assert!(
    CHUNK_RECORD_BYTES
        + (COPIES_MAX as u64 - 1) * COPY_BYTES
        + OVERLAY_HEAD_BYTES
        + REDIRECT_CHUNK_MAX as u64 / BLOCK / 8
        <= RECORD_BYTES_MAX as u64,
    "no record is longer than the longest"
);
const _: () = assert!(
    VOLUME_RECORD_BYTES + VOLUME_NAME_BYTES_MAX <= RECORD_BYTES_MAX,
    "nor is that of a volume"
);
const _: () = assert!(
    (1 << 32) * CHUNK_RECORD_BYTES / ((BLOCK_BYTES - RECORD_BYTES_MAX) as u64)
        < AREA_BLOCKS_MAX as u64,
    "an area may have room for the map of 2^32 slots"
);

/// Offset of superblock `which` (0 or 1).
pub(crate) fn super_offset(which: u64) -> Bytes {
    Bytes(which * BLOCK)
}

/// Room that a checkpoint must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Slots that chunks may be on.
    pub(crate) slots: u64,
    /// Chunks in two parts.
    pub(crate) overlays: usize,
    pub(crate) volumes: usize,
}

/// Blocks of an area that holds the map of so many slots, grown as far as it may, and a fifth of
/// them mirrored (the most that MOST mirrors).
pub(crate) fn area_blocks(slots: u64, chunk_size: u32, limits: &Limits) -> u32 {
    let spare = limits.area_growth.saturating_sub(1) * slots * CHUNK_RECORD_BYTES;
    let blocks = spare.div_ceil(limits.usable() as u64);
    let blocks = blocks + u64::from(blocks_for(slots, chunk_size, limits));
    u32::try_from(blocks).expect("2^32 slots need fewer blocks")
}

/// Blocks of an area that holds the map of so many slots, a fifth of them mirrored.
pub(crate) fn blocks_for(slots: u64, chunk_size: u32, limits: &Limits) -> u32 {
    let bytes = slots * CHUNK_RECORD_BYTES + slots / 5 * overlay_bytes(chunk_size);
    let blocks = bytes.div_ceil(limits.usable() as u64) + fixed_blocks(limits.volumes, limits);
    u32::try_from(blocks).expect("2^32 slots need fewer blocks")
}

/// True if an area of so many blocks has room for that.
pub(crate) fn has_room(blocks: u32, need: Need, chunk_size: u32, limits: &Limits) -> bool {
    let overlays = need.overlays.saturating_sub(OVERLAYS_FIXED) as u64 * overlay_bytes(chunk_size);
    let bytes = need.slots * CHUNK_RECORD_BYTES + overlays;
    map_bytes(blocks, need.volumes, limits).is_some_and(|room| bytes <= room)
}

/// Number of chunks that may be in two parts, beside the slots and volumes of `need`.
pub(crate) fn overlays_max(blocks: u32, need: Need, chunk_size: u32, limits: &Limits) -> usize {
    let room = map_bytes(blocks, need.volumes, limits).unwrap_or(0);
    let spare = room.saturating_sub(need.slots * CHUNK_RECORD_BYTES);
    OVERLAYS_FIXED + (spare / overlay_bytes(chunk_size)) as usize
}

/// Bytes of an area's records beside the fixed ones; `None` when those do not fit.
fn map_bytes(blocks: u32, volumes: usize, limits: &Limits) -> Option<u64> {
    let beside = u64::from(blocks).checked_sub(fixed_blocks(volumes, limits))?;
    Some(beside * limits.usable() as u64)
}

/// Bytes that a chunk's record grows by when it is in two parts: place, length and bits.
fn overlay_bytes(chunk_size: u32) -> u64 {
    let bits = u64::from(chunk_size / BLOCK as u32).div_ceil(8);
    OVERLAY_HEAD_BYTES + (2 * bits).min(u64::from(REDIRECT_CHUNK_MAX / BLOCK as u32 / 8))
}

/// Blocks for volumes and the first chunks in two parts.
fn fixed_blocks(volumes: usize, limits: &Limits) -> u64 {
    let volume = VOLUME_RECORD_BYTES + limits.volume_name;
    let bytes = (volumes * volume + OVERLAYS_FIXED * limits.record) as u64;
    bytes.div_ceil(limits.usable() as u64)
}

/// Offset of block `index` of the journal ring.
pub(crate) fn journal_offset(index: u64) -> Bytes {
    Bytes((2 + index) * BLOCK)
}

/// Offset of block `index` of checkpoint area `area`.
pub(crate) fn area_offset(journal_blocks: u32, area_blocks: u32, area: u8, index: u32) -> Bytes {
    let blocks = 2 + u64::from(journal_blocks) + u64::from(area) * u64::from(area_blocks);
    Bytes((blocks + u64::from(index)) * BLOCK)
}

/// Bytes of the metadata region, superblocks included.
pub(crate) fn region_bytes(journal_blocks: u32, area_blocks: u32) -> u64 {
    (2 + u64::from(journal_blocks) + 2 * u64::from(area_blocks)) * BLOCK
}

/// Offset behind the metadata: of the checksum tables where a group has them, else of the first
/// slot.
pub(crate) fn head_bytes(journal_blocks: u32, area_blocks: u32, has_region: bool) -> u64 {
    let head = if has_region { region_bytes(journal_blocks, area_blocks) } else { 2 * BLOCK };
    head.next_multiple_of(ALIGNMENT)
}

/// Bytes of one slot's checksum table: eight of its own, and a checksum for each block of a chunk.
pub(crate) fn table_bytes(chunk_size: u32) -> u64 {
    (8 + u64::from(chunk_size / BLOCK as u32) * 4).next_multiple_of(u64::from(SECTOR))
}

/// Number of slots from `first_slot` on on a device of `size`.
pub(crate) fn slots_from(size: Bytes, first_slot: u64, chunk_size: u32) -> u32 {
    let slots = size.0.saturating_sub(first_slot) / u64::from(chunk_size);
    u32::try_from(slots).unwrap_or(u32::MAX).min(u32::MAX - 1)
}

/// (Slots, offset of the first) on a device of `size` behind `head`, with or without checksum
/// tables.
pub(crate) fn slots_behind(size: Bytes, head: u64, chunk_size: u32, checksums: bool) -> (u64, u64) {
    let table = if checksums { table_bytes(chunk_size) } else { 0 };
    let mut slots = size.0.saturating_sub(head) / (u64::from(chunk_size) + table);
    loop {
        let first = (head + slots * table).next_multiple_of(ALIGNMENT);
        if slots == 0 || first + slots * u64::from(chunk_size) <= size.0 {
            return (slots, first);
        }
        slots -= 1;
    }
}
