//! Layout of ext4, and its writes beside data.
//!
//! 1. The volume is flexible groups of 2 GiB (16 groups of 128 MiB); each begins with the bitmaps
//!    and inode tables of its groups: 32.1 MiB. The first has superblock, group descriptors and
//!    room for more of them before that. The journal is in the middle (mke2fs's defaults; copies of
//!    the superblock are left out).
//! 2. A directory has a flexible group (Orlov's spread), its files their inodes there, and their
//!    data from there on.
//! 3. Every five seconds a transaction commits: a descriptor, each block of metadata that was
//!    changed, a commit block, one after the other in the journal; then a flush.
//! 4. Every sixth commit the changed blocks are written in place.
//!
//! Source: e2fsprogs 1.47's defaults (mke2fs.conf; ext2fs_default_journal_size) and jbd2's commit
//! interval. Metadata is never read: it stays in the page cache.

use super::layout::{BLOCK, Layout, blocks_of};
use super::space::Space;
use crate::machine::Step;
use std::collections::BTreeSet;
use std::ops::Range;
use thermocline_units::Nanos;

const GIB: u64 = 1 << 30;
/// Bytes of a flexible group.
const FLEX: u64 = 2 * GIB;
/// Groups of one.
const GROUPS: u64 = 16;
const INODES_PER_GROUP: u64 = 8192;
const INODE: u64 = 256;
/// Bitmaps, then inode tables, of a flexible group.
const BITMAPS: u64 = 2 * GROUPS * BLOCK;
const TABLES: u64 = GROUPS * INODES_PER_GROUP * INODE;
/// Superblock, and descriptors with room to grow.
const FIRST: u64 = BLOCK + 1024 * BLOCK + 64 * BLOCK;
/// Blocks of a directory of some hundred files.
const DIRECTORY: u64 = 4 * BLOCK;
/// Time between commits of transactions.
const COMMIT: Nanos = Nanos::from_secs(5);
/// Commits after which changed blocks are written in place: dirty pages grow 30 s old.
const IN_PLACE: u32 = 6;
/// Longest request.
const REQUEST: u64 = 512 << 10;

/// A modelled ext4.
#[derive(Debug)]
pub(super) struct Ext4 {
    flexes: u64,
    space: Space,
    journal: Range<u64>,
    head: u64,
    /// Blocks of each directory.
    directories: Vec<u64>,
    /// Blocks changed since the last commit, and since they were last written in place.
    changed: BTreeSet<u64>,
    dirty: BTreeSet<u64>,
    commits: u32,
}

/// The journal that mke2fs makes for a file system of so many bytes.
fn journal_bytes(volume: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match volume / GIB {
        0 => 16 * MIB,
        1 => 32 * MIB,
        2..16 => 64 * MIB,
        16..32 => 128 * MIB,
        32..64 => 256 * MIB,
        64..128 => 512 * MIB,
        _ => GIB,
    }
}

impl Ext4 {
    /// A file system over `volume` bytes, at least one flexible group, with so many directories.
    pub(super) fn new(volume: u64, directories: u32) -> Ext4 {
        let flexes = (volume / FLEX).max(1);
        let mut space = Space::default();
        for flex in 0..flexes {
            let end = ((flex + 1) * FLEX).min(volume);
            space.give(Ext4::tables(flex).end..end);
        }
        let start = Ext4::tables(flexes / 2).end;
        let journal =
            space.take(start, journal_bytes(volume)).expect("it has room for its journal");
        let journal = journal[0].start..journal.last().expect("one at least").end;
        let mut ext4 = Ext4 {
            flexes,
            space,
            head: journal.start,
            journal,
            directories: Vec::new(),
            changed: BTreeSet::new(),
            dirty: BTreeSet::new(),
            commits: 0,
        };
        for directory in 0..directories {
            let flex = ext4.flex_of(directory, directories);
            let place = ext4.space.take(Ext4::tables(flex).end, DIRECTORY).expect("it is empty");
            ext4.directories.push(place[0].start);
        }
        ext4
    }

    /// The flexible group of a directory.
    fn flex_of(&self, directory: u32, of: u32) -> u64 {
        (2 * u64::from(directory) + 1) * self.flexes / (2 * u64::from(of.max(1)))
    }

    /// Bitmaps and tables of a flexible group.
    fn tables(flex: u64) -> Range<u64> {
        let start = flex * FLEX + if flex == 0 { FIRST } else { 0 };
        start..start + BITMAPS + TABLES
    }

    fn change_inode(&mut self, directory: u32, inode: u64) {
        let flex = self.flex_of(directory, self.directories.len() as u32);
        let slot = inode % (GROUPS * INODES_PER_GROUP);
        let table = Ext4::tables(flex).start + BITMAPS;
        self.changed.insert((table + slot * INODE) / BLOCK * BLOCK);
    }

    fn change_bitmaps(&mut self, extents: &[Range<u64>]) {
        for extent in extents {
            for group in extent.start / (FLEX / GROUPS)..extent.end.div_ceil(FLEX / GROUPS) {
                let (flex, within) = (group / GROUPS, group % GROUPS);
                self.changed.insert(Ext4::tables(flex).start + within * BLOCK);
                self.changed.insert(BLOCK + group / 64 * BLOCK);
            }
        }
    }

    fn write_journal(&mut self, blocks: u64, out: &mut Vec<Step>) {
        let mut left = blocks * BLOCK;
        while left > 0 {
            let length = left.min(REQUEST).min(self.journal.end - self.head);
            out.push(Step::Write(self.head, length as u32));
            self.head += length;
            if self.head == self.journal.end {
                self.head = self.journal.start;
            }
            left -= length;
        }
    }
}

impl Layout for Ext4 {
    fn place(&mut self, directory: u32, bytes: u64) -> Option<Vec<Range<u64>>> {
        let flex = self.flex_of(directory, self.directories.len() as u32);
        let extents = self.space.take(Ext4::tables(flex).end, blocks_of(bytes))?;
        self.change_bitmaps(&extents);
        Some(extents)
    }

    fn release(&mut self, extent: Range<u64>) {
        self.change_bitmaps(std::slice::from_ref(&extent));
        self.space.give(extent);
    }

    fn rewrites_in_place(&self) -> bool {
        true
    }

    fn change_file(&mut self, directory: u32, inode: u64) {
        self.change_inode(directory, inode);
    }

    fn change_directory(&mut self, directory: u32, inode: u64) {
        self.change_inode(directory, inode);
        let flex = self.flex_of(directory, self.directories.len() as u32);
        self.changed.insert(Ext4::tables(flex).start + GROUPS * BLOCK);
        let blocks = DIRECTORY / BLOCK;
        self.changed.insert(self.directories[directory as usize] + inode % blocks * BLOCK);
    }

    fn interval(&self) -> Nanos {
        COMMIT
    }

    fn commit(&mut self, out: &mut Vec<Step>) {
        self.commits += 1;
        if !self.changed.is_empty() {
            self.write_journal(self.changed.len() as u64 + 2, out);
            out.push(Step::Flush);
            self.dirty.append(&mut self.changed);
        }
        if self.commits.is_multiple_of(IN_PLACE) {
            let blocks = std::mem::take(&mut self.dirty);
            out.extend(blocks.into_iter().map(|block| Step::Write(block, BLOCK as u32)));
        }
    }

    fn metadata(&self) -> Vec<Range<u64>> {
        let mut ranges = vec![0..FIRST, self.journal.clone()];
        ranges.extend((0..self.flexes).map(Ext4::tables));
        ranges.extend(self.directories.iter().map(|&start| start..start + DIRECTORY));
        ranges
    }
}
