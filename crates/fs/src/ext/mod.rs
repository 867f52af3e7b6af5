//! The reader of ext2, ext3 and ext4.
//!
//! 1. The superblock; then the journal's inode and the newest committed copies in the journal
//!    (`journal.rs`). From here on, metadata is read through those copies.
//! 2. Group by group: the descriptor says where bitmaps and inodes are. Superblock copies,
//!    descriptors, bitmaps and tables are metadata that no file owns.
//! 3. The inode bitmap says which parts of the inode table to read, at most 1 MiB at once. An inode
//!    whose fingerprint is remembered has not changed; any other is told: its extents (`map.rs`),
//!    and the names in a directory (`directory.rs`).
//! 4. A remembered inode that is free now is gone.
//!
//! A second run reads descriptors, inode bitmaps, the used parts of inode tables, and the journal's
//! descriptors: about 256 B a file, and for a changed file its map or its names again. It must read
//! the tables, because a descriptor's checksum does not change when an inode does. But while the
//! file system stays mounted and its journal has not gone around since the last run, the journal
//! names every block that was written: then only those blocks of inode tables are read that it
//! names.
//!
//! Limits: a move of blocks that leaves every byte of the inode alone (defragmentation of a file
//! whose extents do not fit into the inode) is not noticed until the inode changes. Fast commits
//! are seen once they are checkpointed. State: 4 B an inode slot (`memory.rs`), 32 B a block in the
//! journal, during a run.

mod directory;
mod group;
mod inode;
mod journal;
mod map;
mod superblock;
mod volume;

use crate::FsError;
use crate::blocks::READ_MAX;
use crate::field::Little;
use crate::found::What;
use crate::memory::Fingerprints;
use crate::pass::Pass;
use group::Group;
use inode::Inode;
use journal::{Copies, Mark};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use superblock::{Superblock, incompat};
use volume::Volume;

/// State kept between runs.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    fingerprints: Fingerprints,
    /// Beginnings of the groups' inode tables, with the groups' numbers.
    tables: BTreeMap<u64, u64>,
    /// The mount during which the last run was, if nothing was torn in it, and how far the journal
    /// was then.
    last: Option<(u32, Mark)>,
}

impl Reader {
    pub(crate) fn run(&mut self, pass: &mut Pass<'_>) -> Result<(), FsError> {
        let head = Superblock::read(pass, &mut Vec::new())?;
        let session = head.session;
        let mut volume = Volume { head, copies: Copies::new() };
        let mark = self.last.take().filter(|(same, _)| *same == session).map(|(_, mark)| mark);
        let recovery = volume.recovery(pass, mark)?;
        volume.copies = recovery.copies;
        let is_whole = recovery.since.is_none();
        match recovery.since {
            Some(blocks) => self.changed(pass, &volume, &blocks)?,
            None => self.all(pass, &volume)?,
        }
        if pass.summary.torn == 0 {
            self.last = recovery.end.map(|end| (session, end));
            if is_whole {
                pass.sweep_metadata();
            }
        }
        Ok(())
    }

    /// Looks at every group.
    fn all(&mut self, pass: &mut Pass<'_>, volume: &Volume) -> Result<(), FsError> {
        let head = &volume.head;
        if head.incompat & incompat::MMP != 0 {
            pass.metadata(head.bytes(head.protection_block, 1), What::Reserved)?;
        }
        self.tables.clear();
        let per_block = head.descriptors_per_block();
        let mut descriptors = Vec::new();
        for index in 0..head.groups.div_ceil(per_block) {
            let first = index * per_block;
            let groups = first..head.groups.min(first + per_block);
            if !volume.read(pass, head.descriptor_block(index), 1, &mut descriptors)? {
                continue;
            }
            let size = head.descriptor_size as usize;
            for (number, bytes) in groups.zip(descriptors.chunks_exact(size)) {
                let group = Group::parse(head, number, bytes);
                if !group.is_whole {
                    pass.torn();
                }
                head.group_head(pass, number)?;
                pass.metadata(head.bytes(group.block_bitmap, 1), What::BlockBitmap)?;
                pass.metadata(head.bytes(group.inode_bitmap, 1), What::InodeBitmap)?;
                let table = head.bytes(group.inode_table, head.table_blocks());
                pass.metadata(table, What::InodeTable)?;
                self.tables.insert(group.inode_table, number);
                self.group(pass, volume, (number, group), None)?;
            }
        }
        Ok(())
    }

    /// Looks at those of the changed blocks that are parts of inode tables.
    fn changed(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        blocks: &BTreeSet<u64>,
    ) -> Result<(), FsError> {
        let mut groups: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for block in blocks {
            let Some((table, group)) = self.tables.range(..=block).next_back() else { continue };
            if block - table < volume.head.table_blocks() {
                groups.entry(*group).or_default().insert(block - table);
            }
        }
        for (number, blocks) in groups {
            let Some(group) = volume.group(pass, number)? else { continue };
            if !group.is_whole {
                pass.torn();
            }
            self.group(pass, volume, (number, group), Some(&blocks))?;
        }
        Ok(())
    }

    /// Looks at the inodes of a group, or at those in certain blocks of its table.
    fn group(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (number, group): (u64, Group),
        only: Option<&BTreeSet<u64>>,
    ) -> Result<(), FsError> {
        let head = &volume.head;
        let first = number * head.inodes_per_group + 1;
        let mut bitmap = Vec::new();
        if group.inodes_used > 0 && !volume.read(pass, group.inode_bitmap, 1, &mut bitmap)? {
            return Ok(());
        }
        if group.inodes_used > 0 && !group.vouches_for(head, &bitmap) {
            pass.torn();
            bitmap.fill(0xff); // then the inodes themselves say
        }
        let is_used = |index: u64| {
            index < group.inodes_used
                && Little(&bitmap).u8((index / 8) as usize) & 1 << (index % 8) != 0
        };
        let per_block = head.block_size / head.inode_size;
        let is_asked = |index: u64| only.is_none_or(|only| only.contains(&(index / per_block)));
        let is_wanted = |index: u64| is_asked(index) && is_used(index);
        let mut index = 0;
        while index < head.inodes_per_group {
            let run = run_of(head, is_wanted, index..head.inodes_per_group);
            if run.is_empty() {
                break;
            }
            if only.is_none() {
                self.fingerprints.gone(pass, first + index..first + run.start);
            }
            index = run.end;
            self.table(pass, volume, (group.inode_table, first, run, &is_used))?;
        }
        if only.is_none() {
            self.fingerprints.gone(pass, first + index..first + head.inodes_per_group);
        }
        for block in only.into_iter().flatten() {
            let inodes = block * per_block..((block + 1) * per_block).min(head.inodes_per_group);
            for index in inodes.filter(|index| !is_used(*index)) {
                self.fingerprints.gone(pass, first + index..first + index + 1);
            }
        }
        Ok(())
    }

    /// Reads inodes `range` of a table, which are in use at least in part.
    fn table(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (table, first, range, is_used): (u64, u64, Range<u64>, &dyn Fn(u64) -> bool),
    ) -> Result<(), FsError> {
        let head = &volume.head;
        let per_block = head.block_size / head.inode_size;
        let block = table.saturating_add(range.start / per_block);
        let count = (range.end - range.start).div_ceil(per_block);
        let mut buffer = Vec::new();
        if !volume.read(pass, block, count, &mut buffer)? {
            return Ok(());
        }
        for (index, bytes) in range.zip(buffer.chunks_exact(head.inode_size as usize)) {
            let inode = Inode::new(first + index, bytes);
            if is_used(index) {
                self.inode(pass, volume, inode)?;
            } else {
                self.fingerprints.gone(pass, inode.number..inode.number + 1);
            }
        }
        Ok(())
    }

    fn inode(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        inode: Inode<'_>,
    ) -> Result<(), FsError> {
        if !inode.is_whole(&volume.head) {
            pass.torn();
            return Ok(());
        }
        if volume.is_hidden(inode.number) {
            return volume::hidden(pass, volume, inode);
        }
        if !inode.is_linked() {
            self.fingerprints.gone(pass, inode.number..inode.number + 1);
            return Ok(());
        }
        let seen = (inode.number, inode.fingerprint());
        self.fingerprints.tell_if_new(pass, seen, |pass| volume::tell(pass, volume, inode))
    }
}

/// The next inodes of `range` whose table blocks have all some in use, at most [`READ_MAX`] of
/// table; empty when there are none. `range` begins with a block.
fn run_of(head: &Superblock, is_used: impl Fn(u64) -> bool, range: Range<u64>) -> Range<u64> {
    let (per_block, most) = (head.block_size / head.inode_size, READ_MAX / head.inode_size);
    let Some(first) = range.clone().find(|index| is_used(*index)) else { return 0..0 };
    let start = first / per_block * per_block;
    let mut end = start;
    while end < range.end && end - start < most {
        let block = end..range.end.min(end + per_block);
        if !block.clone().any(&is_used) {
            break;
        }
        end = block.end;
    }
    start..end
}
