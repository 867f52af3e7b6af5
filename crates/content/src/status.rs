//! Status and counts of a store.

use crate::name::{BLOCK, Domain};
use crate::request::{Quotas, Tag};
use crate::store::Store;
use thermocline_ports::Device;
use thermocline_units::{Bytes, VolumeId};

/// Counts since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Blocks that were stored.
    pub new_blocks: u64,
    /// Written blocks that were already stored.
    pub deduplicated: u64,
    /// Of those, blocks that had to be read to compare them.
    pub verified: u64,
    /// Blocks that no map named any more and that were freed.
    pub swept_blocks: u64,
    /// Sweeps.
    pub sweeps: u64,
    /// Segments that were cleaned.
    pub cleanings: u64,
    /// Blocks that cleaning moved.
    pub cleaned_blocks: u64,
    /// Cycles that wrote the journal.
    pub commits: u64,
    /// Blocks written to the journal.
    pub journal_blocks: u64,
    /// Blocks written for nodes of maps and for roots.
    pub map_blocks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks that had another hash than the one under which they were stored.
    pub damaged: u64,
}

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
    /// Of those, bytes of blocks that no map names any more, and that a sweep frees.
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
        let segments = &self.segments;
        Status {
            capacity: bytes(segments.capacity()),
            stored: bytes(u64::from(self.blocks.used())),
            unreferenced: bytes(u64::from(self.unreferenced())),
            segments: (self.layout.segments, segments.free_count(), segments.node_segments()),
            nodes: self.nodes.count() as u64,
            block_memory: Bytes(self.blocks.memory() as u64),
            map_memory: Bytes(self.nodes.memory() as u64),
            session: self.commit.generation,
            counters: self.counters,
        }
    }

    /// The volumes, by number.
    pub fn volumes(&self) -> Vec<VolumeStatus> {
        let bytes = |blocks: u64| Bytes(blocks * u64::from(BLOCK));
        let volumes = self.volumes.iter().map(|(&id, volume)| VolumeStatus {
            id,
            name: volume.name.clone(),
            size: volume.size,
            domain: volume.domain,
            read_only: volume.read_only,
            mapped: bytes(volume.mapped),
            charged: bytes(self.ledger.charged.get(&id).copied().unwrap_or(0)),
            quotas: volume.quotas,
            version: volume.version,
            origin: volume.origin,
            tag: volume.tag,
        });
        volumes.collect()
    }

    /// Number of entries in leaves that name a block. Clones that share a leaf count once. 0 if the
    /// block is not stored any more.
    pub fn share_count(&self, block: crate::BlockId) -> u32 {
        let is_it = block.number != 0 && self.blocks.id(block.number) == block;
        if is_it { self.blocks.entry(block.number).refs } else { 0 }
    }

    /// True if no work is in flight or waiting, except requests that wait for a commit.
    pub fn is_quiet(&self) -> bool {
        self.tasks.is_empty()
            && self.writes.is_empty()
            && self.reads.is_empty()
            && self.locks.are_free()
            && !self.room.is_wanted()
            && self.sweep.is_idle()
            && self.cleaner.is_idle()
            && self.checkpoint.is_idle()
            && !self.nodes.has_doomed()
    }
}

impl<D> std::fmt::Debug for Store<D> {
    /// Work that is under way.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("service", &self.service)
            .field("requests", &(self.writes.len(), self.reads.len(), self.tasks.len()))
            .field("room", &self.room)
            .field("cleaner", &self.cleaner)
            .field("checkpoint", &self.checkpoint)
            .field("commit", &(self.commit.stage, self.commit.queued(), self.commit.used()))
            .field("segments", &self.segments)
            .finish_non_exhaustive()
    }
}
