//! Layout of btrfs, and its writes beside data.
//!
//! 1. Trees are in a metadata chunk of 1 GiB that is there twice (DUP); behind it data fills the
//!    volume from low to high. The superblock is there three times.
//! 2. Nothing is written in place: what is overwritten goes elsewhere, and its old place is free.
//! 3. Every 30 seconds a transaction commits: each leaf that was changed, the nodes above it and
//!    the roots, 16 KiB each, go to the next places in both copies of the metadata chunk; then a
//!    flush, the superblocks, a flush.
//! 4. What a transaction frees is discarded after it, with the free space beside it
//!    (`discard=async`, the default since Linux 6.2), and may be taken again after the next.
//!
//! A leaf holds the items of about 40 files, the extents of 128 MiB, the checksums of 16 MiB of
//! data (4 B a block). Source: the on-disk format's documentation and mkfs.btrfs's defaults for one
//! device. Metadata is never read: it stays in memory. The log tree, which only fsync writes, is
//! left out.

use super::layout::{BLOCK, Layout, blocks_of};
use super::space::Space;
use crate::machine::Step;
use std::collections::BTreeSet;
use std::ops::Range;
use thermocline_units::Nanos;

const GIB: u64 = 1 << 30;
/// A tree's node.
const NODE: u64 = 16 << 10;
/// Children of an inner node, about.
const FAN_OUT: u64 = 100;
/// Roots that every transaction writes: of roots, extents, checksums, files, free space, devices.
const ROOTS: u64 = 6;
/// Offsets of the superblocks.
const SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
/// Files, and bytes of extents and of checksummed data, whose items fit into a leaf.
const FILES_PER_LEAF: u64 = 40;
const EXTENTS_PER_LEAF: u64 = 128 << 20;
const CHECKSUMS_PER_LEAF: u64 = 16 << 20;
/// Time between commits of transactions.
const COMMIT: Nanos = Nanos::from_secs(30);
/// Free space that is discarded again on both sides of what became free: a chunk is forgotten when
/// all of it is discarded at once.
const AROUND: u64 = 1 << 20;
/// Longest request.
const REQUEST: u64 = 512 << 10;

/// A leaf that was changed: which tree, and which of its leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Leaf {
    Files(u64),
    Directory(u32, u64),
    Extents(u64),
    Checksums(u64),
}

/// A modelled btrfs.
#[derive(Debug)]
pub(super) struct Btrfs {
    volume: u64,
    space: Space,
    /// Bytes of each copy of the metadata chunk, and the next place in it.
    metadata: u64,
    head: u64,
    changed: BTreeSet<Leaf>,
    /// Places that were overwritten: free once the transaction has committed.
    leaving: Vec<Range<u64>>,
    /// Places whose discards are on their way: free once the next transaction has committed.
    discarding: Vec<Range<u64>>,
}

impl Btrfs {
    /// A file system over `volume` bytes, 256 MiB at least.
    pub(super) fn new(volume: u64) -> Btrfs {
        let metadata = GIB.min(volume / 16 / NODE * NODE);
        let mut space = Space::default();
        let data = Btrfs::copies(metadata)[1].end;
        let below = SUPERBLOCKS[2].min(volume);
        space.give(data..below);
        space.give((below + BLOCK).min(volume)..volume);
        Btrfs {
            volume,
            space,
            metadata,
            head: 0,
            changed: BTreeSet::new(),
            leaving: Vec::new(),
            discarding: Vec::new(),
        }
    }

    /// Both copies of the metadata chunk, behind the second superblock.
    fn copies(metadata: u64) -> [Range<u64>; 2] {
        let start = SUPERBLOCKS[1] + (1 << 20);
        [start..start + metadata, start + metadata..start + 2 * metadata]
    }

    fn change_extents(&mut self, extents: &[Range<u64>]) {
        for extent in extents {
            let leaves =
                |per: u64| extent.start / per..extent.end.div_ceil(per).max(extent.start / per + 1);
            self.changed.extend(leaves(EXTENTS_PER_LEAF).map(Leaf::Extents));
            self.changed.extend(leaves(CHECKSUMS_PER_LEAF).map(Leaf::Checksums));
        }
    }

    /// Frees what was discarded after the last transaction, and discards what this one has freed,
    /// once, as far as it is free around it.
    fn discard(&mut self, out: &mut Vec<Step>) {
        let mut freed = std::mem::take(&mut self.leaving);
        freed.sort_unstable_by_key(|extent| extent.start);
        for extent in self.discarding.drain(..).chain(freed.iter().cloned()) {
            self.space.give(extent);
        }
        let mut told = 0;
        for extent in freed {
            let run = self.space.run_around(extent.start);
            let start = run.start.max(extent.start.saturating_sub(AROUND)).max(told);
            let end = run.end.min(extent.end + AROUND);
            if start < end {
                self.discarding.push(start..end);
                told = end;
            }
        }
        for extent in &self.discarding {
            let taken = self.space.take(extent.start, extent.end - extent.start);
            assert!(taken.is_some(), "it has just been freed");
            out.push(Step::Discard((extent.start, extent.end)));
        }
    }

    fn write_nodes(&mut self, nodes: u64, out: &mut Vec<Step>) {
        let mut left = nodes * NODE;
        while left > 0 {
            let length = left.min(REQUEST).min(self.metadata - self.head);
            for copy in Btrfs::copies(self.metadata) {
                out.push(Step::Write(copy.start + self.head, length as u32));
            }
            self.head = (self.head + length) % self.metadata;
            left -= length;
        }
    }
}

impl Layout for Btrfs {
    fn place(&mut self, _directory: u32, bytes: u64) -> Option<Vec<Range<u64>>> {
        let extents = self.space.take(0, blocks_of(bytes))?;
        self.change_extents(&extents);
        Some(extents)
    }

    fn release(&mut self, extent: Range<u64>) {
        self.change_extents(std::slice::from_ref(&extent));
        self.leaving.push(extent);
    }

    fn rewrites_in_place(&self) -> bool {
        false
    }

    fn change_file(&mut self, _directory: u32, inode: u64) {
        self.changed.insert(Leaf::Files(inode / FILES_PER_LEAF));
    }

    fn change_directory(&mut self, directory: u32, inode: u64) {
        self.changed.insert(Leaf::Files(inode / FILES_PER_LEAF));
        // By the name's hash and by its index.
        self.changed.insert(Leaf::Directory(directory, inode % 4));
        self.changed.insert(Leaf::Directory(directory, 4 + inode / FILES_PER_LEAF));
    }

    fn interval(&self) -> Nanos {
        COMMIT
    }

    fn commit(&mut self, out: &mut Vec<Step>) {
        let leaves = std::mem::take(&mut self.changed).len() as u64;
        if leaves == 0 {
            return;
        }
        self.write_nodes(leaves + leaves.div_ceil(FAN_OUT) + ROOTS, out);
        out.push(Step::Flush);
        let there = SUPERBLOCKS.iter().filter(|&&at| at + BLOCK <= self.volume);
        out.extend(there.map(|&at| Step::Write(at, BLOCK as u32)));
        out.push(Step::Flush);
        self.discard(out);
    }

    fn metadata(&self) -> Vec<Range<u64>> {
        let there = SUPERBLOCKS.iter().filter(|&&at| at + BLOCK <= self.volume);
        let superblocks = there.map(|&at| at..at + BLOCK);
        superblocks.chain(Btrfs::copies(self.metadata)).collect()
    }
}
