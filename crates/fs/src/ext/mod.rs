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
//! the tables, because a descriptor's checksum does not change when an inode does.
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

use crate::FsError;
use crate::blocks::READ_MAX;
use crate::field::Little;
use crate::found::{FileId, FileKind, State, What};
use crate::memory::Fingerprints;
use crate::pass::Pass;
use group::Group;
use inode::Inode;
use journal::Copies;
use map::Map;
use std::ops::Range;
use superblock::{Superblock, compat, incompat};

const BAD_BLOCKS: u64 = 1;
const ROOT: u64 = 2;
const RESIZE: u64 = 7;
const QUOTAS: [u64; 2] = [3, 4];
const JOURNAL: u64 = 8;
/// Where the inode's map keeps the block of blocks of blocks.
const DOUBLE_INDIRECT: usize = 13;

/// A file system under way: its superblock, and what the journal has newer.
struct Volume {
    head: Superblock,
    copies: Copies,
}

impl Volume {
    /// Reads blocks as they are after recovery; `false` when they do not lie in the file system.
    fn read(
        &self,
        pass: &mut Pass<'_>,
        block: u64,
        count: u64,
        into: &mut Vec<u8>,
    ) -> Result<bool, FsError> {
        if !self.read_in_place(pass, block, count, into)? {
            return Ok(false);
        }
        let mut copy = Vec::new();
        for (home, newest) in self.copies.range(block..block + count) {
            if !self.read_in_place(pass, newest.block, 1, &mut copy)? {
                continue;
            }
            if newest.escaped {
                copy[..4].copy_from_slice(&journal::ESCAPED);
            }
            let at = ((home - block) * self.head.block_size) as usize;
            into[at..at + copy.len()].copy_from_slice(&copy);
        }
        Ok(true)
    }

    /// Reads blocks as they stand.
    fn read_in_place(
        &self,
        pass: &mut Pass<'_>,
        block: u64,
        count: u64,
        into: &mut Vec<u8>,
    ) -> Result<bool, FsError> {
        let range = self.head.bytes(block, count);
        pass.read(range.start, range.end - range.start, into)
    }

    /// Whether an inode is the file system's own, and not a file of somebody's.
    fn is_hidden(&self, inode: u64) -> bool {
        (inode < self.head.first_inode && inode != ROOT)
            || inode == self.head.journal_inode
            || self.head.hidden_inodes.contains(&inode)
    }

    /// What the blocks of the file system's own inodes are.
    fn hidden_kind(&self, inode: u64) -> What {
        let [user, group, project, _] = self.head.hidden_inodes;
        if inode == self.head.journal_inode || inode == JOURNAL {
            What::Journal
        } else if QUOTAS.contains(&inode) || [user, group, project].contains(&inode) {
            What::Quota
        } else {
            What::Reserved
        }
    }
}

/// What is kept between runs.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    fingerprints: Fingerprints,
}

impl Reader {
    pub(crate) fn run(&mut self, pass: &mut Pass<'_>) -> Result<(), FsError> {
        let mut buffer = Vec::new();
        let head = Superblock::read(pass, &mut buffer)?;
        let mut volume = Volume { head, copies: Copies::new() };
        volume.copies = recovered(pass, &volume)?;
        if volume.head.incompat & incompat::MMP != 0 {
            pass.metadata(volume.head.bytes(volume.head.protection_block, 1), What::Reserved)?;
        }
        let per_block = volume.head.descriptors_per_block();
        let mut descriptors = Vec::new();
        for index in 0..volume.head.groups.div_ceil(per_block) {
            let block = volume.head.descriptor_block(index);
            let first = index * per_block;
            let groups = first..volume.head.groups.min(first + per_block);
            if !volume.read(pass, block, 1, &mut descriptors)? {
                continue;
            }
            let size = volume.head.descriptor_size as usize;
            for (number, bytes) in groups.zip(descriptors.chunks_exact(size)) {
                let group = Group::parse(&volume.head, number, bytes);
                self.group(pass, &volume, (number, group))?;
            }
        }
        if pass.summary.torn == 0 {
            pass.sweep_metadata();
        }
        Ok(())
    }

    fn group(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (number, group): (u64, Group),
    ) -> Result<(), FsError> {
        let head = &volume.head;
        if !group.is_whole {
            pass.torn();
        }
        let table = (head.inodes_per_group * head.inode_size).div_ceil(head.block_size);
        head.group_head(pass, number)?;
        pass.metadata(head.bytes(group.block_bitmap, 1), What::BlockBitmap)?;
        pass.metadata(head.bytes(group.inode_bitmap, 1), What::InodeBitmap)?;
        pass.metadata(head.bytes(group.inode_table, table), What::InodeTable)?;
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
        let mut index = 0;
        while index < head.inodes_per_group {
            let run = run_of(head, is_used, index..head.inodes_per_group);
            if run.is_empty() {
                break;
            }
            self.forget(pass, first + index..first + run.start);
            index = run.end;
            self.table(pass, volume, (group.inode_table, first, run, &is_used))?;
        }
        self.forget(pass, first + index..first + head.inodes_per_group);
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
                self.forget(pass, inode.number..inode.number + 1);
            }
        }
        Ok(())
    }

    /// Inodes of a range that are free now.
    fn forget(&mut self, pass: &mut Pass<'_>, range: Range<u64>) {
        while let Some(inode) = self.fingerprints.first_in(range.clone()) {
            self.fingerprints.forget(inode);
            pass.gone(FileId { tree: 0, inode });
        }
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
            return hidden(pass, volume, inode);
        }
        if !inode.is_linked() {
            self.forget(pass, inode.number..inode.number + 1);
            return Ok(());
        }
        let fingerprint = inode.fingerprint();
        if self.fingerprints.get(inode.number) == Some(fingerprint.max(1)) {
            pass.summary.unchanged += 1;
            return Ok(());
        }
        let torn = pass.summary.torn;
        tell(pass, volume, inode)?;
        if pass.summary.torn == torn {
            self.fingerprints.set(inode.number, fingerprint);
        } else {
            self.fingerprints.set(inode.number, !fingerprint); // known, and to be told again
        }
        if self.fingerprints.known() > pass.limits.files {
            return Err(FsError::TooMany { what: "files", most: pass.limits.files });
        }
        Ok(())
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

/// The newest copies in the journal, where there is one inside the file system.
fn recovered(pass: &mut Pass<'_>, volume: &Volume) -> Result<Copies, FsError> {
    let head = &volume.head;
    let inode = head.journal_inode;
    if head.compat & compat::HAS_JOURNAL == 0 || inode == 0 {
        return Ok(Copies::new());
    }
    let (group, index) = ((inode - 1) / head.inodes_per_group, (inode - 1) % head.inodes_per_group);
    let (per_block, mut buffer) = (head.descriptors_per_block(), Vec::new());
    let block = head.descriptor_block(group / per_block);
    if group >= head.groups || !volume.read(pass, block, 1, &mut buffer)? {
        return Ok(Copies::new());
    }
    let at = (group % per_block * head.descriptor_size) as usize;
    let table = Group::parse(head, group, &buffer[at..at + head.descriptor_size as usize]);
    let (at, size) = (index * head.inode_size, head.inode_size as usize);
    let block = table.inode_table.saturating_add(at / head.block_size);
    if !volume.read(pass, block, 1, &mut buffer)? {
        return Ok(Copies::new());
    }
    let at = (at % head.block_size) as usize;
    let inode = Inode::new(inode, &buffer[at..at + size]);
    if !inode.is_whole(head) || !inode.has_map() {
        return Ok(Copies::new());
    }
    let map = Map::read(pass, volume, inode)?;
    journal::copies(pass, volume, &map)
}

/// What the file system keeps in the form of a file.
fn hidden(pass: &mut Pass<'_>, volume: &Volume, inode: Inode<'_>) -> Result<(), FsError> {
    let what = volume.hidden_kind(inode.number);
    if inode.number == RESIZE {
        // Its map leads through blocks that are kept for descriptors, and named already.
        let block = u64::from(Little(inode.map()).u32(DOUBLE_INDIRECT * 4));
        if block != 0 {
            pass.metadata(volume.head.bytes(block, 1), what)?;
        }
        return Ok(());
    }
    if !inode.has_map() && inode.number != BAD_BLOCKS {
        return Ok(());
    }
    let map = Map::read(pass, volume, inode)?;
    for node in &map.nodes {
        pass.metadata(volume.head.bytes(*node, 1), what)?;
    }
    for run in &map.runs {
        pass.metadata(volume.head.bytes(run.block, run.count), what)?;
    }
    Ok(())
}

/// Says everything of a file.
fn tell(pass: &mut Pass<'_>, volume: &Volume, inode: Inode<'_>) -> Result<(), FsError> {
    let (id, is_directory) = (inode.id(), inode.kind() == FileKind::Directory);
    pass.file(inode.file());
    if let Some(block) = inode.attributes() {
        pass.owned(id, volume.head.bytes(block, 1), What::Attributes);
    }
    if is_directory && inode.is_inline() && !inode.is_encrypted() {
        directory::inline(pass, volume, inode);
    }
    if !inode.has_map() {
        return Ok(());
    }
    let map = Map::read(pass, volume, inode)?;
    pass.summary.cut += map.cut;
    for node in &map.nodes {
        pass.owned(id, volume.head.bytes(*node, 1), What::ExtentMap);
    }
    for run in &map.runs {
        let range = volume.head.bytes(run.block, run.count);
        if is_directory {
            pass.owned(id, range, What::Directory);
        } else {
            let state = if run.preallocated { State::Preallocated } else { State::Written };
            let at = run.logical.saturating_mul(volume.head.block_size);
            pass.extent(id, at, range, state);
        }
    }
    if is_directory && !inode.is_encrypted() {
        directory::blocks(pass, volume, inode, &map.runs)?;
    }
    Ok(())
}
