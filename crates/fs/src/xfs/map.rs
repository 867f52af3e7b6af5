//! Location of a fork's blocks: a list of extents in the inode, or a tree of them.
//!
//! The root of the tree lies in the inode, its other nodes in blocks; the level must shrink by one
//! at each step. Memory: 32 B an extent and 8 B a node, at most
//! [`crate::Limits::extents_per_file`] of each.

use super::Volume;
use super::superblock::is_whole;
use crate::FsError;
use crate::field::{Big, piece, rest};
use crate::pass::Pass;

const RECORD: usize = 16;
const PAIR: usize = 16;
const LEVELS_MAX: u16 = 9;
const SUM_AT: usize = 64;

/// Blocks of a fork that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Number of its first block in the fork.
    pub(super) logical: u64,
    /// Its address.
    pub(super) address: u64,
    pub(super) count: u64,
    pub(super) preallocated: bool,
}

/// Forms of a fork's contents.
pub(super) mod form {
    pub(crate) const LOCAL: u8 = 1;
    pub(crate) const EXTENTS: u8 = 2;
    pub(crate) const TREE: u8 = 3;
}

/// A fork's blocks, and those of the tree that maps them.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) runs: Vec<Run>,
    pub(super) nodes: Vec<u64>,
    /// Extents and nodes that the limits cut off.
    pub(super) cut: u64,
}

impl Map {
    /// Reads the map of a fork in `form`; `count` is how many extents its inode says it has.
    pub(super) fn read(
        pass: &mut Pass<'_>,
        volume: &Volume,
        inode: u64,
        (form, fork, count): (u8, &[u8], u64),
    ) -> Result<Map, FsError> {
        let mut map = Map::default();
        match form {
            form::EXTENTS => {
                let room = (fork.len() / RECORD) as u64;
                if count > room {
                    pass.torn();
                }
                map.records(pass, piece(fork, 0, (count.min(room) as usize) * RECORD));
            }
            form::TREE => {
                let field = Big(fork);
                let (level, count) = (field.u16(0), usize::from(field.u16(2)));
                if !(1..=LEVELS_MAX).contains(&level) || fork.len() < 4 {
                    pass.torn();
                    return Ok(map);
                }
                map.children(pass, volume, inode, (rest(fork, 4), count, level - 1))?;
            }
            _ => {}
        }
        Ok(map)
    }

    fn keep(&mut self, node: u64, most: usize) {
        if self.nodes.len() < most {
            self.nodes.push(node);
        } else {
            self.cut += 1;
        }
    }

    fn records(&mut self, pass: &Pass<'_>, records: &[u8]) {
        for record in records.chunks_exact(RECORD) {
            let (high, low) = (Big(record).u64(0), Big(record).u64(8));
            let run = Run {
                logical: high >> 9 & ((1 << 54) - 1),
                address: (high & 0x1ff) << 43 | low >> 21,
                count: low & 0x1f_ffff,
                preallocated: high >> 63 != 0,
            };
            if self.runs.len() < pass.limits.extents_per_file {
                self.runs.push(run);
            } else {
                self.cut += 1;
            }
        }
    }

    /// The children of a node: keys first, then as much room for addresses.
    fn children(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        inode: u64,
        (body, count, level): (&[u8], usize, u16),
    ) -> Result<(), FsError> {
        let most = body.len() / PAIR;
        let addresses = rest(body, most * 8);
        for address in addresses.chunks_exact(8).take(count.min(most)) {
            self.node(pass, volume, inode, (Big(address).u64(0), level))?;
        }
        Ok(())
    }

    fn node(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        inode: u64,
        (address, level): (u64, u16),
    ) -> Result<(), FsError> {
        let head = &volume.head;
        let (range, mut bytes) = (head.bytes(address, 1), Vec::new());
        if !pass.read(range.start, range.end - range.start, &mut bytes)? {
            return Ok(());
        }
        let (field, front) = (Big(&bytes), if head.is_v5 { 72 } else { 24 });
        let magic = if head.is_v5 { b"BMA3" } else { b"BMAP" };
        let whole = bytes.starts_with(magic)
            && field.u16(4) == level
            && (!head.is_v5 || (field.u64(56) == inode && is_whole(&bytes, SUM_AT)));
        if !whole {
            pass.torn();
            return Ok(());
        }
        self.keep(address, pass.limits.extents_per_file);
        let (count, body) = (usize::from(field.u16(6)), rest(&bytes, front));
        if level == 0 {
            let count = count.min(body.len() / RECORD);
            self.records(pass, piece(body, 0, count * RECORD));
            return Ok(());
        }
        self.children(pass, volume, inode, (body, count, level - 1))
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
