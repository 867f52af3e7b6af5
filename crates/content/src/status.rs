//! Status and counts of a store.

use crate::check::{Flaw, Inspection};
use crate::counters::Counters;
use crate::name::{BLOCK, BlockId, Domain};
use crate::request::{Quotas, Tag};
use crate::store::Store;
use crate::worth::{Worth, parts};
use thermocline_ports::Device;
use thermocline_units::{Bytes, VolumeId};

/// A volume as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Its number; never used again.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// Domain within which its blocks are shared.
    pub domain: Domain,
    /// True for snapshots.
    pub read_only: bool,
    /// Bytes of blocks that are not zeroes.
    pub mapped: Bytes,
    /// Bytes of stored blocks that are charged to it.
    pub charged: Bytes,
    /// Its bounds.
    pub quotas: Quotas,
    /// Version of its map.
    pub version: u64,
    /// Volume that it was made of as a clone or snapshot, which may be gone; 0: none.
    pub origin: VolumeId,
    /// Bytes that a client keeps with it.
    pub tag: Tag,
}

/// A store as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Bytes of blocks that it can hold.
    pub capacity: Bytes,
    /// Bytes of blocks that it holds.
    pub stored: Bytes,
    /// Those of them in blocks that no map names any more, and that a sweep frees.
    pub unreferenced: Bytes,
    /// Segments, free segments, and segments that hold nodes of maps.
    pub segments: (u32, u32, u32),
    /// Nodes of maps in memory.
    pub nodes: u64,
    /// Memory of the table and the index of blocks.
    pub block_memory: Bytes,
    /// Memory of maps.
    pub map_memory: Bytes,
    /// Number of the opening. Block numbers and versions of earlier openings are not valid.
    pub session: u64,
    /// Counts.
    pub counters: Counters,
}

impl<D: Device> Store<D> {
    /// The store as it is now.
    pub fn status(&self) -> Status {
        let bytes = |blocks: u64| Bytes(blocks * u64::from(BLOCK));
        let state = &self.state;
        let segments = &state.segments;
        Status {
            capacity: bytes(segments.capacity()),
            stored: bytes(u64::from(state.blocks.used())),
            unreferenced: bytes(u64::from(state.unreferenced())),
            segments: (state.layout.segments, segments.free_count(), segments.node_segments()),
            nodes: state.nodes.count() as u64,
            block_memory: Bytes(state.blocks.memory() as u64),
            map_memory: Bytes(state.nodes.memory() as u64),
            session: state.journal.generation(),
            counters: state.counters,
        }
    }

    /// The volumes, by number.
    pub fn volumes(&self) -> Vec<VolumeStatus> {
        self.state.volumes.keys().filter_map(|&id| self.volume(id)).collect()
    }

    /// The volume of this name.
    pub fn volume_named(&self, name: &str) -> Option<VolumeStatus> {
        let found = self.state.volumes.iter().find(|(_, volume)| volume.name == name);
        found.and_then(|(&id, _)| self.volume(id))
    }

    /// The volume of this number.
    pub fn volume(&self, id: VolumeId) -> Option<VolumeStatus> {
        let volume = self.state.volumes.get(&id)?;
        let bytes = |blocks: u64| Bytes(blocks * u64::from(BLOCK));
        Some(VolumeStatus {
            id,
            name: volume.name.clone(),
            size: volume.size,
            domain: volume.domain,
            read_only: volume.read_only,
            mapped: bytes(volume.mapped),
            charged: bytes(self.state.ledger.charged.get(&id).copied().unwrap_or(0)),
            quotas: volume.quotas,
            version: volume.version,
            origin: volume.origin,
            tag: volume.tag,
        })
    }

    /// Number of entries in leaves that name a block. Clones that share a leaf count once. 0 if the
    /// block is not stored any more.
    pub fn share_count(&self, block: BlockId) -> u32 {
        let is_it = block.number != 0 && self.state.blocks.id(block.number) == block;
        if is_it { self.state.blocks.entry(block.number).refs } else { 0 }
    }

    /// Parts of the device that are worth more than others, by ascending offset: first byte, byte
    /// after the last, and worth. Looks at the maps of images: some milliseconds.
    pub fn worth(&self) -> Vec<(Bytes, Bytes, Worth)> {
        parts(&self.state)
    }

    /// True if no work is in flight or waiting, except requests that wait for a commit.
    pub fn is_quiet(&self) -> bool {
        self.tasks.is_empty()
            && self.writes.are_done()
            && self.reads.len() == 0
            && !self.room.is_wanted()
            && self.sweep.is_idle()
            && self.cleaner.is_idle()
            && !self.checkpoint.is_under_way()
            && self.state.wants.checkpoint.is_none()
            && !self.state.nodes.has_doomed()
    }

    /// List of all broken invariants. O(maps and blocks). Meant for a store that has nothing in
    /// flight; blocks that are being written count as written.
    pub fn check(&self) -> Vec<Flaw> {
        let (state, checkpoint) = (&self.state, &self.checkpoint);
        let is_sweeping = !self.sweep.is_idle();
        Inspection { state, checkpoint, is_sweeping, is_quiet: self.is_quiet() }.flaws()
    }
}

impl<D> std::fmt::Debug for Store<D> {
    /// Work that is under way.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = &self.state;
        let journal = &state.journal;
        f.debug_struct("Store")
            .field("service", &state.service)
            .field("requests", &(self.writes.len(), self.reads.len(), self.tasks.len()))
            .field("room", &(&self.room, state.promised))
            .field("cleaner", &self.cleaner)
            .field("wants", &state.wants)
            .field("checkpoint", &self.checkpoint)
            .field("commit", &(journal.is_busy(), journal.queued(), journal.used()))
            .field("segments", &state.segments)
            .finish_non_exhaustive()
    }
}
