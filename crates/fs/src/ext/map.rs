//! Location of a file's blocks: ext4's extent trees, and the block maps of ext2 and ext3.
//!
//! 1. The 60 bytes in the inode are the root of an extent tree, or twelve blocks and the places of
//!    a block of addresses, a block of such blocks, and one of those.
//! 2. The tree descends by a depth that must shrink by one at each step, from five at most; the
//!    block map by its three levels. Neither can loop.
//! 3. Neighbours are joined to runs.
//!
//! Memory: 40 B a run and 8 B a block of the map, at most [`crate::Limits::extents_per_file`] of
//! each; a block of at most 64 KiB for each level.

use super::Volume;
use super::inode::Inode;
use super::superblock::sum;
use crate::FsError;
use crate::field::{Little, piece};
use crate::pass::Pass;

const EXTENT_MAGIC: u16 = 0xf30a;
/// The deepest tree that the kernel makes or takes.
const DEPTH_MAX: u16 = 5;
/// A longer extent is preallocated, by what it is longer.
const WRITTEN_MAX: u64 = 1 << 15;
const DIRECT: usize = 12;

/// Blocks of a file that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Number of its first block in the file.
    pub(super) logical: u64,
    pub(super) block: u64,
    pub(super) count: u64,
    pub(super) preallocated: bool,
}

/// A file's blocks: its own, and those that hold the map itself.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) runs: Vec<Run>,
    pub(super) nodes: Vec<u64>,
    /// Runs and nodes that the limits cut off.
    pub(super) cut: u64,
}

impl Map {
    fn add(&mut self, run: Run, most: usize) {
        if let Some(last) = self.runs.last_mut() {
            let adjoins = last.block + last.count == run.block
                && last.logical + last.count == run.logical
                && last.preallocated == run.preallocated;
            if adjoins {
                last.count += run.count;
                return;
            }
        }
        if self.runs.len() < most {
            self.runs.push(run);
        } else {
            self.cut += 1;
        }
    }

    fn node(&mut self, block: u64, most: usize) {
        if self.nodes.len() < most {
            self.nodes.push(block);
        } else {
            self.cut += 1;
        }
    }

    /// Reads the map of an inode that has one.
    pub(super) fn read(
        pass: &mut Pass<'_>,
        volume: &Volume,
        inode: Inode<'_>,
    ) -> Result<Map, FsError> {
        let mut map = Map::default();
        if inode.has_extents() {
            let seed = inode.seed(&volume.head);
            map.extents(pass, volume, (inode.map(), seed, None))?;
        } else {
            map.indirect(pass, volume, inode)?;
        }
        Ok(map)
    }

    /// One node of an extent tree, of the depth that its parent demands.
    fn extents(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (node, seed, demanded): (&[u8], u32, Option<u16>),
    ) -> Result<(), FsError> {
        let field = Little(node);
        let (count, depth) = (usize::from(field.u16(2)), field.u16(6));
        let proper = field.u16(0) == EXTENT_MAGIC
            && depth <= demanded.unwrap_or(DEPTH_MAX)
            && demanded.is_none_or(|demanded| demanded == depth)
            && 12 + count * 12 <= node.len();
        if !proper {
            pass.torn();
            return Ok(());
        }
        for entry in piece(node, 12, count * 12).chunks_exact(12) {
            let field = Little(entry);
            if depth == 0 {
                let length = u64::from(field.u16(4));
                let preallocated = length > WRITTEN_MAX;
                let run = Run {
                    logical: u64::from(field.u32(0)),
                    block: u64::from(field.u32(8)) | u64::from(field.u16(6)) << 32,
                    count: if preallocated { length - WRITTEN_MAX } else { length },
                    preallocated,
                };
                self.add(run, pass.limits.extents_per_file);
            } else {
                let block = u64::from(field.u32(4)) | u64::from(field.u16(8)) << 32;
                self.child(pass, volume, (block, seed, depth - 1))?;
            }
        }
        Ok(())
    }

    fn child(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (block, seed, depth): (u64, u32, u16),
    ) -> Result<(), FsError> {
        let mut node = Vec::new();
        if !volume.read(pass, block, 1, &mut node)? {
            return Ok(());
        }
        self.node(block, pass.limits.extents_per_file);
        let tail = 12 + usize::from(Little(&node).u16(4)) * 12;
        if volume.head.has_sums() && sum(seed, piece(&node, 0, tail)) != Little(&node).u32(tail) {
            pass.torn();
            return Ok(());
        }
        self.extents(pass, volume, (&node, seed, Some(depth)))
    }

    /// The block map: addresses in the inode, then one, two and three levels deep.
    fn indirect(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        inode: Inode<'_>,
    ) -> Result<(), FsError> {
        let end = inode.size().div_ceil(volume.head.block_size);
        let field = Little(inode.map());
        let mut logical = 0;
        for index in 0..DIRECT {
            self.address(pass, u64::from(field.u32(index * 4)), logical);
            logical += 1;
        }
        for level in 1..=3 {
            if logical >= end {
                break;
            }
            let block = u64::from(field.u32((DIRECT + level - 1) * 4));
            logical = self.level(pass, volume, (block, level, logical, end))?;
        }
        Ok(())
    }

    fn address(&mut self, pass: &mut Pass<'_>, block: u64, logical: u64) {
        if block != 0 {
            let run = Run { logical, block, count: 1, preallocated: false };
            self.add(run, pass.limits.extents_per_file);
        }
    }

    /// A block of addresses, `level` above the file's own blocks; the logical block behind it.
    fn level(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (block, level, logical, end): (u64, usize, u64, u64),
    ) -> Result<u64, FsError> {
        let fanout = volume.head.block_size / 4;
        let behind = logical.saturating_add(fanout.pow(level as u32));
        let mut node = Vec::new();
        if block == 0 || !volume.read(pass, block, 1, &mut node)? {
            return Ok(behind);
        }
        self.node(block, pass.limits.extents_per_file);
        let mut at = logical;
        for index in 0..fanout as usize {
            if at >= end {
                break;
            }
            let below = u64::from(Little(&node).u32(index * 4));
            if level == 1 {
                self.address(pass, below, at);
                at += 1;
            } else {
                at = self.level(pass, volume, (below, level - 1, at, end))?;
            }
        }
        Ok(behind)
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
