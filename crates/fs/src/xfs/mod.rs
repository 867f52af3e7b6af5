//! The reader of XFS, versions 4 and 5.
//!
//! 1. The superblock, and the log's place.
//! 2. Group by group: the headers of free space (AGF), inodes (AGI) and the free list; the inner
//!    nodes of the trees of free space, owners and sharing; the tree of inodes with its leaves.
//! 3. A leaf names clusters of 64 inodes: which of them exist and which are in use. Clusters with
//!    any in use are read whole, 64 inodes at once. An inode whose fingerprint is remembered has
//!    not changed; any other is told: its extents (`map.rs`) and the names in a directory
//!    (`directory.rs`).
//! 4. A remembered inode that is free now, or whose cluster does not exist any more, is gone.
//!
//! A second run reads headers, inner nodes and the clusters: 512 B a file by default, and for a
//! changed file its map or its names again. It must read the clusters, because nothing above an
//! inode changes with it.
//!
//! Limits: the log is not replayed. A mounted XFS writes inodes to their place up to half a minute
//! after they changed, and until then the old state is told; after a crash, until it is mounted
//! again. Realtime volumes and metadata directories are refused. State: 4 B an inode slot
//! (`memory.rs`).

mod directory;
mod inode;
mod map;
mod superblock;
mod tree;

use crate::FsError;
use crate::field::{Big, piece};
use crate::found::{FileKind, State, What};
use crate::memory::Fingerprints;
use crate::pass::Pass;
use inode::Inode;
use map::{Map, form};
use superblock::{Superblock, is_whole};
use tree::{Root, Shape};

/// Inodes of a cluster.
const CLUSTER: u64 = 64;
/// Inodes for each bit of a mask of holes.
const PER_HOLE: u64 = 4;
/// Sectors of a group's headers: superblock, free space, inodes, free list.
const HEADERS: u64 = 4;
const AGF_SUM: usize = 216;
const AGI_SUM: usize = 312;
/// Offset of the free list's block numbers in version 5.
const AGFL_HEAD: usize = 36;

/// A file system under way.
struct Volume {
    head: Superblock,
}

/// State kept between runs.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    fingerprints: Fingerprints,
}

/// A record of the tree of inodes.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    /// The first inode's number in the group.
    first: u64,
    /// One bit for each four inodes that have no blocks.
    holes: u16,
    /// One bit for each inode that is free.
    free: u64,
}

impl Cluster {
    fn exists(&self, index: u64) -> bool {
        self.holes & 1 << (index / PER_HOLE) == 0
    }

    fn is_used(&self, index: u64) -> bool {
        self.exists(index) && self.free & 1 << index == 0
    }
}

impl Reader {
    pub(crate) fn run(&mut self, pass: &mut Pass<'_>) -> Result<(), FsError> {
        let head = Superblock::read(pass, &mut Vec::new())?;
        let volume = Volume { head };
        let log = &volume.head.log;
        if log.start != 0 {
            pass.metadata(volume.head.bytes(log.start, log.end - log.start), What::Journal)?;
        }
        for group in 0..volume.head.groups {
            self.group(pass, &volume, group)?;
        }
        if pass.summary.torn == 0 {
            pass.sweep_metadata();
        }
        Ok(())
    }

    fn group(&mut self, pass: &mut Pass<'_>, volume: &Volume, group: u64) -> Result<(), FsError> {
        let head = &volume.head;
        let start = group * head.group_blocks * head.block_size;
        let sector = head.sector_size;
        pass.metadata(start..start + sector, What::Superblock)?;
        let headers = (HEADERS * sector).next_multiple_of(head.block_size);
        pass.metadata(start + sector..start + headers, What::GroupHeaders)?;
        let mut bytes = Vec::new();
        if !pass.read(start, HEADERS * sector, &mut bytes)? {
            return Ok(());
        }
        let sector = sector as usize;
        let [own, inodes, list] = [1, 2, 3].map(|at| piece(&bytes, at * sector, sector));
        let whole = |bytes: &[u8], magic: &[u8; 4], sum| {
            bytes.starts_with(magic)
                && u64::from(Big(bytes).u32(8)) == group
                && (!head.is_v5 || is_whole(bytes, sum))
        };
        if whole(own, b"XAGF", AGF_SUM) {
            volume.space_trees(pass, group, Big(own))?;
            volume.free_list(pass, group, (Big(own), list))?;
        } else {
            pass.torn();
        }
        if !whole(inodes, b"XAGI", AGI_SUM) {
            pass.torn();
            return Ok(());
        }
        if head.has_free_inode_tree {
            let root = volume.root(group, Big(inodes), (328, 332));
            tree::walk(pass, volume, (tree::FREE_INODES, root), &mut None)?;
        }
        let root = volume.root(group, Big(inodes), (20, 24));
        self.inodes(pass, volume, root)
    }

    /// Reads a group's tree of inodes, and the inodes.
    fn inodes(&mut self, pass: &mut Pass<'_>, volume: &Volume, root: Root) -> Result<(), FsError> {
        let (group, torn) = (root.group, pass.summary.torn);
        let all = volume.head.inodes_of(group);
        let mut told = all.start;
        let mut each = |pass: &mut Pass<'_>, records: &[u8]| {
            for record in records.chunks_exact(tree::RECORD) {
                let cluster = volume.cluster(record);
                let first = volume.head.inode(group, cluster.first);
                if !(told..all.end.saturating_sub(CLUSTER) + 1).contains(&first) {
                    pass.torn(); // records come in order, and stay in their group
                    continue;
                }
                self.fingerprints.gone(pass, told..first);
                self.cluster(pass, volume, (group, cluster))?;
                told = first + CLUSTER;
            }
            Ok(())
        };
        tree::walk(pass, volume, (tree::INODES, root), &mut Some(&mut each))?;
        if pass.summary.torn == torn {
            self.fingerprints.gone(pass, told..all.end);
        }
        Ok(())
    }

    /// Reads the inodes of a cluster where they exist.
    fn cluster(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (group, cluster): (u64, Cluster),
    ) -> Result<(), FsError> {
        let head = &volume.head;
        let mut bytes = Vec::new();
        let mut index = 0;
        while index < CLUSTER {
            let exists = cluster.exists(index);
            let end = (index..CLUSTER).find(|i| cluster.exists(*i) != exists).unwrap_or(CLUSTER);
            let piece = index..end;
            index = end;
            let first = head.inode(group, cluster.first + piece.start);
            let count = piece.end - piece.start;
            if !exists {
                self.fingerprints.gone(pass, first..first + count);
                continue;
            }
            // A large block holds several clusters: this one may begin in the middle of it.
            let (begin, per_block) = (cluster.first + piece.start, head.inodes_per_block());
            let before = begin % per_block;
            let blocks = (before + count).div_ceil(per_block);
            let range = head.group_bytes(group, head.block_of_inode(begin), blocks);
            pass.metadata(range.clone(), What::InodeTable)?;
            if !piece.clone().any(|index| cluster.is_used(index)) {
                self.fingerprints.gone(pass, first..first + count);
                continue;
            }
            if !pass.read(range.start, range.end - range.start, &mut bytes)? {
                continue;
            }
            let inodes = bytes.chunks_exact(head.inode_size as usize).skip(before as usize);
            for ((index, inode), bytes) in piece.zip(first..).zip(inodes) {
                if cluster.is_used(index) {
                    self.inode(pass, volume, Inode::new(inode, bytes))?;
                } else {
                    self.fingerprints.gone(pass, inode..inode + 1);
                }
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
        if volume.head.hidden_inodes.contains(&inode.number) {
            return hidden(pass, volume, inode);
        }
        if !inode.is_linked() {
            self.fingerprints.gone(pass, inode.number..inode.number + 1);
            return Ok(());
        }
        let seen = (inode.number, inode.fingerprint());
        self.fingerprints.tell_if_new(pass, seen, |pass| tell(pass, volume, inode))
    }
}

impl Volume {
    fn root(&self, group: u64, field: Big<'_>, (block, levels): (usize, usize)) -> Root {
        Root { group, block: u64::from(field.u32(block)), levels: field.u32(levels) }
    }

    /// The trees that a group's header of free space names.
    fn space_trees(&self, pass: &mut Pass<'_>, group: u64, header: Big<'_>) -> Result<(), FsError> {
        let trees: [(bool, Shape, (usize, usize)); 4] = [
            (true, tree::BY_BLOCK, (16, 28)),
            (true, tree::BY_COUNT, (20, 32)),
            (self.head.has_owners, tree::OWNERS, (24, 36)),
            (self.head.has_sharing, tree::SHARING, (88, 92)),
        ];
        for (_, shape, at) in trees.into_iter().filter(|(exists, ..)| *exists) {
            tree::walk(pass, self, (shape, self.root(group, header, at)), &mut None)?;
        }
        Ok(())
    }

    /// Blocks kept for the growth of a group's trees: a ring of numbers in a sector.
    fn free_list(
        &self,
        pass: &mut Pass<'_>,
        group: u64,
        (header, sector): (Big<'_>, &[u8]),
    ) -> Result<(), FsError> {
        let front = if self.head.is_v5 { AGFL_HEAD } else { 0 };
        let room = (sector.len() - front) / 4;
        let (first, count) = (header.u32(40) as usize, header.u32(48) as usize);
        if first >= room || count > room {
            pass.torn();
            return Ok(());
        }
        for step in 0..count {
            let block = Big(sector).u32(front + (first + step) % room * 4);
            pass.metadata(self.head.group_bytes(group, u64::from(block), 1), What::FreeList)?;
        }
        Ok(())
    }

    fn cluster(&self, record: &[u8]) -> Cluster {
        let field = Big(record);
        let holes = if self.head.has_sparse { field.u16(4) } else { 0 };
        Cluster { first: u64::from(field.u32(0)), holes, free: field.u64(8) }
    }
}

/// Tells what the file system keeps in the form of a file: quota, and what a realtime volume would
/// use.
fn hidden(pass: &mut Pass<'_>, volume: &Volume, inode: Inode<'_>) -> Result<(), FsError> {
    let map = Map::read(pass, volume, inode.number, inode.contents())?;
    for node in &map.nodes {
        pass.metadata(volume.head.bytes(*node, 1), What::Quota)?;
    }
    for run in &map.runs {
        pass.metadata(volume.head.bytes(run.address, run.count), What::Quota)?;
    }
    Ok(())
}

/// Says everything of a file.
fn tell(pass: &mut Pass<'_>, volume: &Volume, inode: Inode<'_>) -> Result<(), FsError> {
    let (id, is_directory) = (inode.id(), inode.kind() == FileKind::Directory);
    pass.file(inode.file());
    if inode.is_realtime() {
        pass.torn(); // of a file system without a realtime volume
        return Ok(());
    }
    if let Some(fork) = inode.attributes() {
        let map = Map::read(pass, volume, inode.number, fork)?;
        for node in &map.nodes {
            pass.owned(id, volume.head.bytes(*node, 1), What::Attributes);
        }
        for run in &map.runs {
            pass.owned(id, volume.head.bytes(run.address, run.count), What::Attributes);
        }
    }
    let (how, fork, count) = inode.contents();
    if how == form::LOCAL && is_directory {
        directory::short(pass, volume, (id, fork));
    }
    let map = Map::read(pass, volume, inode.number, (how, fork, count))?;
    pass.summary.cut += map.cut;
    for node in &map.nodes {
        pass.owned(id, volume.head.bytes(*node, 1), What::ExtentMap);
    }
    for run in &map.runs {
        let range = volume.head.bytes(run.address, run.count);
        if is_directory {
            pass.owned(id, range, What::Directory);
        } else {
            let state = if run.preallocated { State::Preallocated } else { State::Written };
            pass.extent(id, run.logical.saturating_mul(volume.head.block_size), range, state);
        }
    }
    if is_directory {
        directory::blocks(pass, volume, (id, &map.runs))?;
    }
    Ok(())
}
