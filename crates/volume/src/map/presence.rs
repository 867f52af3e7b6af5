//! Bitmap of the 4 KiB blocks of a chunk that a partial copy holds: the sub-chunk state of the map.
//!
//! Kept only while a copy is partial: under an operation, and for chunks whose writes are
//! redirected. One bit a block: 32 bytes for a chunk of 1 MiB.

use crate::settings::BLOCK;
use std::ops::Range;

/// A bit for every block of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Presence {
    words: Vec<u64>,
    blocks: u32,
    absent: u32,
}

impl Presence {
    /// No block present, for a chunk of `chunk_size` bytes.
    pub(crate) fn none(chunk_size: u32) -> Presence {
        let blocks = chunk_size / BLOCK;
        Presence { words: vec![0; blocks.div_ceil(64) as usize], blocks, absent: blocks }
    }

    /// Blocks of the chunk.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// A bit for each block, the first one lowest.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of blocks that are present.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.blocks - self.absent)
    }

    /// True if every block is present.
    pub(crate) fn is_full(&self) -> bool {
        self.absent == 0
    }

    pub(crate) fn holds(&self, block: u32) -> bool {
        self.words[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// True if any block that `bytes` touches is present.
    pub(crate) fn any_in(&self, bytes: &Range<u32>) -> bool {
        touched(bytes).any(|block| self.holds(block))
    }

    /// True if all blocks that `bytes` touches are present.
    pub(crate) fn all_in(&self, bytes: &Range<u32>) -> bool {
        self.is_full() || touched(bytes).all(|block| self.holds(block))
    }

    /// Marks the blocks that lie wholly inside `bytes` present; whether any was not before.
    pub(crate) fn mark(&mut self, bytes: &Range<u32>) -> bool {
        let before = self.absent;
        assert!(bytes.end / BLOCK <= self.blocks, "marks stay within the chunk");
        for block in bytes.start.div_ceil(BLOCK)..bytes.end / BLOCK {
            if !self.holds(block) {
                self.words[(block / 64) as usize] |= 1 << (block % 64);
                assert!(self.absent > 0, "a block that is absent was counted");
                self.absent -= 1;
            }
        }
        self.absent != before
    }

    /// Marks every block that `bytes` touches absent.
    pub(crate) fn unmark(&mut self, bytes: &Range<u32>) {
        for block in touched(bytes) {
            if self.holds(block) {
                self.words[(block / 64) as usize] &= !(1 << (block % 64));
                self.absent += 1;
            }
        }
        assert!(self.absent <= self.blocks, "no more blocks are absent than there are");
    }

    /// The first run of absent blocks at or after byte `from`, cut to `length_max` bytes.
    pub(crate) fn absent_run(&self, from: u32, length_max: u32) -> Option<Range<u32>> {
        let start = (from / BLOCK..self.blocks).find(|&block| !self.holds(block))?;
        let limit = self.blocks.min(start + (length_max / BLOCK).max(1));
        let end = (start..limit).find(|&block| self.holds(block)).unwrap_or(limit);
        Some(start * BLOCK..end * BLOCK)
    }

    /// The bytes from the first absent block at or after byte `from` to the last one within
    /// `length_max` bytes of it; blocks between them may be present.
    pub(crate) fn absent_span(&self, from: u32, length_max: u32) -> Option<Range<u32>> {
        let start = (from / BLOCK..self.blocks).find(|&block| !self.holds(block))?;
        let limit = self.blocks.min(start + (length_max / BLOCK).max(1));
        let last = (start..limit).rev().find(|&block| !self.holds(block)).unwrap_or(start);
        Some(start * BLOCK..(last + 1) * BLOCK)
    }
}

/// The blocks that lie wholly inside `bytes`, as a range of bytes; empty when there are none.
pub(crate) fn whole_blocks(bytes: &Range<u32>) -> Range<u32> {
    let start = bytes.start.div_ceil(BLOCK) * BLOCK;
    start..(bytes.end / BLOCK * BLOCK).max(start)
}

/// The blocks that `bytes` touches, as a range of bytes.
pub(crate) fn around_blocks(bytes: &Range<u32>) -> Range<u32> {
    bytes.start / BLOCK * BLOCK..bytes.end.div_ceil(BLOCK) * BLOCK
}

/// The blocks that `bytes` touches.
fn touched(bytes: &Range<u32>) -> Range<u32> {
    bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)
}

#[cfg(test)]
mod tests;
