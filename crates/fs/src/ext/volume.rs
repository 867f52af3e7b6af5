//! An ext2/3/4 that is open: its metadata as it is after recovery, its own inodes, and what is told
//! of a file.

use super::directory;
use super::group::Group;
use super::inode::Inode;
use super::journal::{self, Copies, Mark, Recovery};
use super::map::Map;
use super::superblock::{Superblock, compat};
use crate::FsError;
use crate::field::{Little, piece};
use crate::found::{FileKind, State, What};
use crate::pass::Pass;

const BAD_BLOCKS: u64 = 1;
const ROOT: u64 = 2;
const RESIZE: u64 = 7;
const QUOTAS: [u64; 2] = [3, 4];
const JOURNAL: u64 = 8;
/// Place of the block of blocks of blocks in the inode's map.
const DOUBLE_INDIRECT: usize = 13;

/// A file system under way: its superblock, and what the journal has newer.
pub(super) struct Volume {
    pub(super) head: Superblock,
    pub(super) copies: Copies,
}

impl Volume {
    /// Reads blocks as they are after recovery; `false` when they do not lie in the file system.
    pub(super) fn read(
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
                let start = copy.first_chunk_mut();
                start.into_iter().for_each(|start| *start = journal::ESCAPED);
            }
            let at = ((home - block) * self.head.block_size) as usize;
            let place = into.get_mut(at..).and_then(|rest| rest.get_mut(..copy.len()));
            place.into_iter().for_each(|place| place.copy_from_slice(&copy));
        }
        Ok(true)
    }

    /// Reads blocks as they stand.
    pub(super) fn read_in_place(
        &self,
        pass: &mut Pass<'_>,
        block: u64,
        count: u64,
        into: &mut Vec<u8>,
    ) -> Result<bool, FsError> {
        let range = self.head.bytes(block, count);
        pass.read(range.start, range.end - range.start, into)
    }

    /// True if an inode is the file system's own, and not a file of somebody's.
    pub(super) fn is_hidden(&self, inode: u64) -> bool {
        (inode < self.head.first_inode && inode != ROOT)
            || inode == self.head.journal_inode
            || self.head.hidden_inodes.contains(&inode)
    }

    /// Kind of the blocks of the file system's own inodes.
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

    /// Reads the descriptor of a group; none when it does not lie in the file system.
    pub(super) fn group(&self, pass: &mut Pass<'_>, number: u64) -> Result<Option<Group>, FsError> {
        let head = &self.head;
        let (per_block, mut buffer) = (head.descriptors_per_block(), Vec::new());
        let block = head.descriptor_block(number / per_block);
        if number >= head.groups || !self.read(pass, block, 1, &mut buffer)? {
            return Ok(None);
        }
        let at = (number % per_block * head.descriptor_size) as usize;
        let bytes = piece(&buffer, at, head.descriptor_size as usize);
        Ok(Some(Group::parse(head, number, bytes)))
    }

    /// Contents of the journal, where there is one inside the file system.
    pub(super) fn recovery(
        &self,
        pass: &mut Pass<'_>,
        mark: Option<Mark>,
    ) -> Result<Recovery, FsError> {
        let (head, number) = (&self.head, self.head.journal_inode);
        if head.compat & compat::HAS_JOURNAL == 0 || number == 0 {
            return Ok(Recovery::default());
        }
        let (group, index) =
            ((number - 1) / head.inodes_per_group, (number - 1) % head.inodes_per_group);
        let Some(group) = self.group(pass, group)? else { return Ok(Recovery::default()) };
        let (at, size) = (index * head.inode_size, head.inode_size as usize);
        let block = group.inode_table.saturating_add(at / head.block_size);
        let mut buffer = Vec::new();
        if !self.read(pass, block, 1, &mut buffer)? {
            return Ok(Recovery::default());
        }
        let at = (at % head.block_size) as usize;
        let inode = Inode::new(number, piece(&buffer, at, size));
        if !inode.is_whole(head) || !inode.has_map() {
            return Ok(Recovery::default());
        }
        let map = Map::read(pass, self, inode)?;
        journal::read(pass, self, (&map, mark))
    }
}

/// Tells what the file system keeps in the form of a file.
pub(super) fn hidden(
    pass: &mut Pass<'_>,
    volume: &Volume,
    inode: Inode<'_>,
) -> Result<(), FsError> {
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
pub(super) fn tell(pass: &mut Pass<'_>, volume: &Volume, inode: Inode<'_>) -> Result<(), FsError> {
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
