//! Metadata beyond the metadata region: slots that a pool gives to its checkpoint areas.
//!
//! A group is made with areas for the pools that it has then. When pools are added later, the map
//! may need more blocks than an area has in the region; it goes on in slots of the same pool,
//! which chunks do not get any more. Extents only ever grow, at their end, so that a block of an
//! area keeps its place while a checkpoint is being written. The superblock lists them.
//!
//! 1. Blocks below `area_blocks` are in the region.
//! 2. The blocks after those fill the extents' slots, in the order in which these were given.

use crate::pools::layout;
use crate::pools::slots::CHECKED_MAX;
use crate::sizes::BLOCK_BYTES;
use std::ops::Range;
use thermocline_units::Bytes;

/// Slots that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) slots: u32,
}

/// The slots of one pool that continue one of its areas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Extents {
    runs: Vec<Run>,
}

impl Extents {
    /// Extents as a superblock lists them; `None` when a run is empty or ends beyond any pool.
    pub(crate) fn of_runs(runs: Vec<Run>) -> Option<Extents> {
        let sound = |run: &Run| run.slots > 0 && run.first.checked_add(run.slots).is_some();
        let total = runs.iter().try_fold(0_u32, |sum, run| sum.checked_add(run.slots));
        (runs.iter().all(sound) && total.is_some()).then_some(Extents { runs })
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Number of slots.
    pub(crate) fn count(&self) -> u32 {
        self.runs.iter().map(|run| run.slots).sum()
    }

    /// Every slot, in the order of the area's blocks.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|run| run.first..run.first + run.slots)
    }

    /// The slot with this number in the order of the area's blocks.
    fn slot(&self, mut index: u32) -> Option<u32> {
        for run in &self.runs {
            if index < run.slots {
                return Some(run.first + index);
            }
            index -= run.slots;
        }
        None
    }

    /// Appends a slot.
    pub(crate) fn push(&mut self, slot: u32) {
        let count = self.count();
        let is_new = || count > CHECKED_MAX || self.slots().all(|other| other != slot);
        debug_assert!(is_new(), "a slot continues an area once");
        match self.runs.last_mut().filter(|run| run.first + run.slots == slot) {
            Some(run) => run.slots += 1,
            None => self.runs.push(Run { first: slot, slots: 1 }),
        }
        assert_eq!(self.slot(count), Some(slot), "blocks before it keep their places");
    }
}

/// One checkpoint area of one pool: where each of its blocks lies on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area<'a> {
    /// 0 or 1.
    pub(crate) area: u8,
    pub(crate) journal_blocks: u32,
    /// Blocks of the area in the metadata region.
    pub(crate) area_blocks: u32,
    /// Bytes of a slot.
    pub(crate) chunk_size: u32,
    /// Offset of the pool's first slot.
    pub(crate) first_slot: u64,
    pub(crate) extents: &'a Extents,
}

impl Area<'_> {
    /// Number of blocks that the area has room for.
    pub(crate) fn capacity(&self) -> u32 {
        let more = u64::from(self.extents.count()) * u64::from(self.blocks_per_slot());
        u32::try_from(u64::from(self.area_blocks) + more).unwrap_or(u32::MAX)
    }

    fn blocks_per_slot(&self) -> u32 {
        self.chunk_size / BLOCK_BYTES as u32
    }

    /// Splits `blocks` of the area where its places on the device are not next to each other:
    /// (offset on the device, blocks). Ends early where the area does.
    pub(crate) fn pieces(&self, blocks: Range<u32>) -> Vec<(Bytes, Range<u32>)> {
        let mut pieces: Vec<(Bytes, Range<u32>)> = Vec::new();
        let mut at = blocks.start;
        while at < blocks.end {
            let Some((offset, end)) = self.place(at) else { break };
            let end = end.min(blocks.end);
            match pieces.last_mut() {
                Some((start, piece)) if end_of(*start, piece) == offset => piece.end = end,
                _ => pieces.push((offset, at..end)),
            }
            at = end;
        }
        pieces
    }

    /// Offset of a block, and the block up to which those that follow lie behind it.
    fn place(&self, block: u32) -> Option<(Bytes, u32)> {
        if block < self.area_blocks {
            let offset =
                layout::area_offset(self.journal_blocks, self.area_blocks, self.area, block);
            return Some((offset, self.area_blocks));
        }
        let (beyond, per_slot) = (block - self.area_blocks, self.blocks_per_slot());
        let (index, within) = (beyond / per_slot, beyond % per_slot);
        let slot = u64::from(self.extents.slot(index)?);
        let start = self.first_slot + slot * u64::from(self.chunk_size);
        let offset = Bytes(start + u64::from(within) * BLOCK_BYTES as u64);
        Some((offset, block + (per_slot - within)))
    }
}

fn end_of(start: Bytes, blocks: &Range<u32>) -> Bytes {
    Bytes(start.0 + u64::from(blocks.end - blocks.start) * BLOCK_BYTES as u64)
}

#[cfg(test)]
mod tests;
