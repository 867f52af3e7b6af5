//! Places of a pool's checksum tables, and of its checkpoint areas.
//!
//! 1. Those of the slots that a pool was made with stand before its first slot.
//! 2. A pool that has grown has more slots than have tables there. The slots from the first one
//!    without on come in runs: the first slot of a run holds the tables of all its slots, and never
//!    a chunk.
//! 3. All of it follows from numbers that a superblock has of every pool. Nothing is listed, and a
//!    pool that grows once more goes on with its last run.

use crate::format::PoolRecord;
use crate::pools::extents::{Area, Extents};
use crate::pools::layout::{head_bytes, table_bytes};
use std::ops::Range;
use thermocline_units::Bytes;
use thermocline_units::mutants::mutant;

/// Sizes of a group and of a pool that say where tables stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) journal_blocks: u32,
    pub(crate) area_blocks: u32,
    pub(crate) chunk_size: u32,
    pub(crate) checksums: bool,
    pub(crate) has_region: bool,
    pub(crate) first_slot: u64,
}

/// Sizes of a group that say where tables and checkpoint areas stand on its pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) chunk_size: u32,
    pub(crate) journal_blocks: u32,
    pub(crate) area_blocks: u32,
}

impl Places {
    /// Places of the tables of a pool's checksums.
    pub(crate) fn tables_of(&self, pool: &PoolRecord) -> Tables {
        Tables::new(Shape {
            journal_blocks: self.journal_blocks,
            area_blocks: self.area_blocks,
            chunk_size: self.chunk_size,
            checksums: pool.checksums,
            has_region: pool.has_metadata_region,
            first_slot: pool.first_slot,
        })
    }

    /// A checkpoint area, 0 or 1, of a pool whose first slot is at `first_slot`, and which has
    /// grown by `extents`.
    pub(crate) fn area<'a>(&self, area: u8, first_slot: u64, extents: &'a Extents) -> Area<'a> {
        Area {
            area,
            journal_blocks: self.journal_blocks,
            area_blocks: self.area_blocks,
            chunk_size: self.chunk_size,
            first_slot,
            extents,
        }
    }

    /// An area of a pool that a superblock names.
    pub(crate) fn area_of<'a>(&self, pool: &'a PoolRecord, area: u8) -> Area<'a> {
        self.area(area, pool.first_slot, &pool.extents[usize::from(area)])
    }
}

/// Places of the tables of one pool's checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Offset of the first table.
    head: u64,
    first_slot: u64,
    chunk_size: u64,
    /// Bytes of a table.
    table: u64,
    /// Slots whose tables stand before the first slot.
    before: u32,
}

impl Tables {
    pub(crate) fn new(shape: Shape) -> Tables {
        let head = head_bytes(shape.journal_blocks, shape.area_blocks, shape.has_region);
        let table = table_bytes(shape.chunk_size);
        let before = match shape.checksums {
            true => shape.first_slot.saturating_sub(head) / table,
            false => u64::MAX,
        };
        Tables {
            head,
            first_slot: shape.first_slot,
            chunk_size: u64::from(shape.chunk_size),
            table,
            before: u32::try_from(before).unwrap_or(u32::MAX),
        }
    }

    /// Slots of a run.
    fn run(&self) -> u32 {
        // The smallest chunk has room for more than a hundred tables.
        (self.chunk_size / self.table).max(1) as u32
    }

    /// Offset of the table of a slot.
    pub(crate) fn offset(&self, slot: u32) -> Bytes {
        let Some(beyond) = slot.checked_sub(self.before) else {
            return Bytes(self.head + u64::from(slot) * self.table);
        };
        let (first, within) = (slot - beyond % self.run(), beyond % self.run());
        let start = self.first_slot + u64::from(first) * self.chunk_size;
        Bytes(start + u64::from(within) * self.table)
    }

    /// True if a slot holds tables.
    pub(crate) fn is_on(&self, slot: u32) -> bool {
        let beyond = slot.checked_sub(self.before);
        beyond.is_some_and(|beyond| beyond.is_multiple_of(self.run())) && kept()
    }

    /// The slots of a range that hold tables.
    pub(crate) fn among(self, slots: Range<u32>) -> impl Iterator<Item = u32> {
        let run = self.run();
        let ahead = slots.start.saturating_sub(self.before).checked_next_multiple_of(run);
        let first = self.before.saturating_add(ahead.unwrap_or(u32::MAX));
        let end = if kept() { slots.end } else { first };
        (first..end).step_by(run as usize)
    }

    /// Number of slots with tables among the first so many.
    pub(crate) fn count(self, slots: u32) -> u32 {
        if kept() { slots.saturating_sub(self.before).div_ceil(self.run()) } else { 0 }
    }

    /// True if the tables of the first so many slots all stand before the first slot.
    pub(crate) fn all_before(&self, slots: u32) -> bool {
        slots <= self.before
    }

    /// True if the metadata region ends before the first slot.
    pub(crate) fn has_head(&self) -> bool {
        self.head <= self.first_slot
    }
}

/// True if slots are kept for tables.
fn kept() -> bool {
    !mutant("chunks_among_grown_tables")
}

#[cfg(test)]
mod tests;
