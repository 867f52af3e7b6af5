//! The bytes of a block cache on its two devices. Drawn in `docs/formats/blockcache.md`.
//!
//! ```text
//! fast device   0       4 KiB                                    first slot, at 64 KiB × n
//!               | label | table: one sector for each 124 slots | slot 0 | slot 1 …   4 KiB each
//! slow device   0       64 KiB
//!               | label | what the machine above sees
//! ```
//! A sector is written whole or not at all, so each sector of the table stands for itself: a torn
//! write of several leaves some old and some new, and both are true. The table names only lines
//! whose contents the slow device does not have.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::LINE;
use thermocline_ports::SECTOR;
use thermocline_units::Bytes;
use thermocline_units::fields::{put_at, u16_at, u32_at, u64_at};
use thermocline_units::mutants::mutant;

/// Version of the layout; another one is refused.
const VERSION: u16 = 1;
const LABEL_MAGIC: &[u8; 8] = b"THERMOBC";
const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"TCBT");
/// Magic 8, CRC 4, version 2, side 2, identity 8; then slots, lines, ways and bytes of a line.
const LABEL_FIELDS_BYTES: usize = 24 + 4 * 4;
/// Bytes of a label before those that its checksum is over.
const LABEL_CRC_FROM: usize = 12;
/// Magic 4, CRC 4, identity 8.
const TABLE_HEADER_BYTES: usize = 16;
/// Bytes of a sector of the table before those that its checksum is over.
const TABLE_CRC_FROM: usize = 8;
/// Slots that one sector of the table is about.
pub(crate) const SECTOR_SLOTS: u32 = (SECTOR - TABLE_HEADER_BYTES as u32) / 4;
/// No dirty line in the slot.
const NO_LINE: u32 = u32::MAX;
/// Slots, and what the machine above sees, begin at multiples of this.
const ALIGNMENT: u64 = 64 << 10;
/// Offset of the table.
const TABLE_OFFSET: u64 = 4096;
/// Bytes of the slow device in front of what the machine above sees.
pub(crate) const ORIGIN_OFFSET: u64 = ALIGNMENT;
/// Slots to a set.
pub(crate) const WAYS: u32 = 16;
/// The fewest slots that make a cache: one set for each way there is.
pub(crate) const SLOTS_MIN: u32 = WAYS * WAYS;

const _: () = {
    let sector = SECTOR as usize;
    let line = LINE as u64;
    assert!(LABEL_FIELDS_BYTES <= sector, "a label is in one sector, which is written whole");
    assert!(TABLE_HEADER_BYTES + SECTOR_SLOTS as usize * 4 == sector, "a sector has no rest");
    assert!(TABLE_CRC_FROM + 8 == TABLE_HEADER_BYTES, "the checksum is over the identity, too");
    assert!(TABLE_OFFSET >= sector as u64, "the table is behind the label");
    assert!(TABLE_OFFSET.is_multiple_of(SECTOR as u64), "sectors of the table are the device's");
    assert!(LINE.is_multiple_of(SECTOR), "lines are whole sectors");
    assert!(ALIGNMENT.is_multiple_of(line), "slots are aligned as lines are");
    assert!(ORIGIN_OFFSET >= TABLE_OFFSET, "what the machine above sees is behind the label");
    assert!(WAYS.is_power_of_two(), "a set is found by its lowest bits");
    assert!(SLOTS_MIN.is_multiple_of(WAYS), "sets are whole");
    assert!(LABEL_MAGIC.len() + 4 == LABEL_CRC_FROM, "the checksum is behind the magic");
};

/// One of the two devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The fast one.
    Cache,
    /// The slow one.
    Origin,
}

/// The label by which both devices know each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) side: Side,
    pub(crate) identity: u64,
    pub(crate) slots: u32,
    /// Lines that the machine above sees; the last one may be shorter.
    pub(crate) lines: u32,
}

impl Label {
    /// The label as a block of 4 KiB.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TABLE_OFFSET as usize);
        out.extend_from_slice(LABEL_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.side as u16).to_le_bytes());
        out.extend_from_slice(&self.identity.to_le_bytes());
        for value in [self.slots, self.lines, WAYS, LINE] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        assert!(out.len() == LABEL_FIELDS_BYTES, "the fields are those of the picture");
        out.resize(SECTOR as usize, 0);
        let crc = crc32c::crc32c(out.split_at(LABEL_CRC_FROM).1);
        put_at(&mut out, 8, &crc.to_le_bytes());
        out.resize(TABLE_OFFSET as usize, 0);
        out
    }

    /// Reads a block; `None` when it is no whole label of this version.
    pub(crate) fn decode(block: &[u8]) -> Option<Label> {
        let block = block.get(..SECTOR as usize)?;
        let sound = block.starts_with(LABEL_MAGIC)
            && crc32c::crc32c(block.get(LABEL_CRC_FROM..)?) == u32_at(block, 8)?
            && u16_at(block, 12)? == VERSION
            && u32_at(block, 32)? == WAYS
            && u32_at(block, 36)? == LINE;
        let side = match u16_at(block, 14)? {
            0 => Side::Cache,
            1 => Side::Origin,
            _ => return None,
        };
        let identity = u64_at(block, 16)?;
        let (slots, lines) = (u32_at(block, 24)?, u32_at(block, 28)?);
        sound.then_some(Label { side, identity, slots, lines })
    }
}

/// True if a block begins as a label does, whole or not, of whatever version.
pub(crate) fn is_label(block: &[u8]) -> bool {
    block.starts_with(LABEL_MAGIC)
}

/// Sectors of the table for so many slots.
pub(crate) fn table_sectors(slots: u32) -> u32 {
    slots.div_ceil(SECTOR_SLOTS)
}

/// Offset of a sector of the table.
pub(crate) fn table_offset(sector: u32) -> Bytes {
    Bytes(TABLE_OFFSET + u64::from(sector) * u64::from(SECTOR))
}

/// Offset of the first slot.
fn slots_offset(slots: u32) -> u64 {
    table_offset(table_sectors(slots)).0.next_multiple_of(ALIGNMENT)
}

/// Offset of a slot, in a cache of `slots`.
pub(crate) fn slot_offset(slots: u32, slot: u32) -> Bytes {
    Bytes(slots_offset(slots) + u64::from(slot) * u64::from(LINE))
}

/// Number of slots that fit on a fast device of `size`.
pub(crate) fn slots_on(size: Bytes) -> u32 {
    let fits = |slots: u64| {
        let slots = slots as u32;
        slot_offset(slots, slots).0 <= size.0
    };
    let mut slots = (size.0 / u64::from(LINE)).min(u64::from(NO_LINE) - 1);
    while slots > 0 && !fits(slots) {
        // What the table takes, at once; then what rounding takes.
        let over = slot_offset(slots as u32, slots as u32).0 - size.0;
        slots = slots.saturating_sub(over.div_ceil(u64::from(LINE)).max(1));
    }
    slots as u32
}

/// Appends a sector of the table; `line` tells which dirty line is in a slot.
pub(crate) fn encode_table(
    identity: u64,
    sector: u32,
    line: impl Fn(u32) -> Option<u32>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&TABLE_MAGIC.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&identity.to_le_bytes());
    for slot in sector * SECTOR_SLOTS..(sector + 1) * SECTOR_SLOTS {
        out.extend_from_slice(&line(slot).unwrap_or(NO_LINE).to_le_bytes());
    }
    assert!(out.len() - start == SECTOR as usize, "a sector of the table is one of the device");
    let crc = table_crc(sector, out.split_at(start + TABLE_CRC_FROM).1);
    put_at(out, start + 4, &crc.to_le_bytes());
}

/// (Slot, line) of every dirty line that a sector names; `None` when it is not this sector of this
/// cache, whole.
pub(crate) fn decode_table(identity: u64, sector: u32, bytes: &[u8]) -> Option<Vec<(u32, u32)>> {
    let crc = table_crc(sector, bytes.get(TABLE_CRC_FROM..)?);
    let sound = u32_at(bytes, 0)? == TABLE_MAGIC
        && (crc == u32_at(bytes, 4)? || mutant("table_not_checked"))
        && u64_at(bytes, 8)? == identity;
    let lines = bytes.get(TABLE_HEADER_BYTES..)?.chunks_exact(4);
    let lines = lines.filter_map(|line| u32_at(line, 0));
    let first = sector * SECTOR_SLOTS;
    sound.then(|| (first..).zip(lines).filter(|&(_, line)| line != NO_LINE).collect())
}

/// The identity in a sector of the table, sound or not; 0 where it is not all there.
pub(crate) fn table_identity(bytes: &[u8]) -> u64 {
    u64_at(bytes, 8).unwrap_or(0)
}

/// Over the sector's number too, so that one in another's place is found. `summed`: what stands
/// behind the checksum.
fn table_crc(sector: u32, summed: &[u8]) -> u32 {
    let sector = if mutant("table_checked_without_its_place") { 0 } else { sector };
    crc32c::crc32c_append(crc32c::crc32c(&sector.to_le_bytes()), summed)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
