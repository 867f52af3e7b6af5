//! A machine of two pools that carries moves out and checks each against the joint's contract.

use crate::placement::{FLASH, How, Move, PoolLoad, PoolTraits, VolumeView};
use std::collections::BTreeSet;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

pub(crate) const DISK: PoolId = PoolId(1);

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) flash: BTreeSet<ChunkId>,
    /// Chunks that are on both.
    pub(crate) mirrored: BTreeSet<ChunkId>,
    pub(crate) flash_capacity: u64,
    pub(crate) disk_capacity: u64,
    /// Chunks that exist; those not on flash are on disk.
    pub(crate) chunks: u64,
    pub(crate) volumes: u32,
}

pub(crate) fn chunk(volume: u32, index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(volume), index }
}

impl Machine {
    /// Empty flash of `capacity` chunks over a disk that is never full.
    pub(crate) fn new(capacity: u64, volumes: u32) -> Machine {
        Machine {
            flash: BTreeSet::new(),
            mirrored: BTreeSet::new(),
            flash_capacity: capacity,
            disk_capacity: u64::MAX,
            chunks: 1 << 20,
            volumes,
        }
    }

    /// Carries out the first `count` of `moves`; every one must be possible and do something.
    pub(crate) fn carry_out(&mut self, moves: &[Move], count: usize) {
        for (i, step) in moves.iter().take(count).enumerate() {
            assert!(step.to <= DISK, "move {i} goes to a pool that does not exist");
            let there = self.pool_of(step.chunk) == step.to;
            let apart = step.how == How::Move && self.mirrored.remove(&step.chunk);
            assert!(!there || apart, "move {i} of {} goes where the chunk is", step.chunk);
            match (step.how, step.to) {
                (How::Mirror, _) => assert!(self.mirrored.insert(step.chunk), "mirrored twice"),
                (How::Move, FLASH) => _ = self.flash.insert(step.chunk),
                (How::Move, _) => _ = self.flash.remove(&step.chunk),
            }
            assert!(self.used_chunks(FLASH) <= self.flash_capacity, "move {i} overfills flash");
            assert!(self.used_chunks(DISK) <= self.disk_capacity, "move {i} overfills the disk");
        }
    }
}

impl VolumeView for Machine {
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }

    fn epoch(&self) -> Nanos {
        Nanos::from_secs(1)
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, self.pool_count())
    }

    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad::default()
    }

    fn volume_count(&self) -> u32 {
        self.volumes
    }

    fn pool_count(&self) -> u16 {
        2
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        if pool == FLASH { self.flash_capacity } else { self.disk_capacity }
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        if self.flash.contains(&chunk) { FLASH } else { DISK }
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        let flash = self.flash.len() as u64;
        let there = if pool == FLASH { flash } else { self.chunks - flash };
        let others = self.mirrored.iter().filter(|&&chunk| self.pool_of(chunk) != pool);
        there + others.count() as u64
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        // Nothing was written to the disk: its chunks count as there, and are not shown.
        if pool == FLASH {
            self.flash.iter().copied().for_each(visit);
        }
    }

    fn visit_mirrors(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        for &chunk in &self.mirrored {
            visit(chunk, if self.pool_of(chunk) == FLASH { DISK } else { FLASH });
        }
    }
}
