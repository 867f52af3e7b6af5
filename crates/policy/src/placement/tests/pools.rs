//! A machine of any number of pools, its chunks in one volume, that refuses moves which do not fit.

use crate::placement::{Accesses, How, Move, PoolChange, PoolLoad, PoolTraits, Sla, VolumeView};
use std::collections::BTreeMap;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Pools with so many places each; chunks of volume 0, by index.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    pub(crate) places: Vec<u64>,
    pub(crate) at: BTreeMap<u32, u16>,
    /// Other sides of mirrored chunks.
    pub(crate) mirrors: BTreeMap<u32, u16>,
    /// Chunks that have further copies.
    pub(crate) replicated: Vec<u32>,
    /// Chunks that an administrator pinned.
    pub(crate) pinned: Vec<u32>,
    pub(crate) traits: Vec<PoolTraits>,
    pub(crate) loads: Vec<PoolLoad>,
    pub(crate) epoch: Nanos,
    /// Reads of the epoch.
    pub(crate) accesses: BTreeMap<u32, u64>,
    /// Writes of the epoch.
    pub(crate) writes: BTreeMap<u32, u64>,
    /// SLA of volume 0.
    pub(crate) sla: Option<Sla>,
}

pub(crate) fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(0), index }
}

impl Pools {
    /// Epochs of a second; pools are what is assumed, and idle.
    pub(crate) fn new(places: &[u64], at: &[(u32, u16)]) -> Pools {
        let count = places.len() as u16;
        Pools {
            places: places.to_vec(),
            at: at.iter().copied().collect(),
            mirrors: BTreeMap::new(),
            replicated: Vec::new(),
            pinned: Vec::new(),
            traits: (0..count).map(|pool| PoolTraits::assumed(PoolId(pool), count)).collect(),
            loads: vec![PoolLoad::default(); places.len()],
            epoch: Nanos::from_secs(1),
            accesses: BTreeMap::new(),
            writes: BTreeMap::new(),
            sla: None,
        }
    }

    /// A pool with so many places joins, or one that nothing is on goes.
    pub(crate) fn change(&mut self, change: PoolChange, places: u64) {
        change.shift(&mut self.places, places);
        if let PoolChange::Joined(at) = change
            && usize::from(at.0) == self.places.len()
        {
            self.places.push(places);
        }
        let count = self.places.len() as u16;
        self.traits = (0..count).map(|pool| PoolTraits::assumed(PoolId(pool), count)).collect();
        self.loads = vec![PoolLoad::default(); self.places.len()];
        for at in self.at.values_mut().chain(self.mirrors.values_mut()) {
            *at = change.place_of(PoolId(*at)).expect("nothing is on a pool that goes").0;
        }
    }

    /// Carries all of `moves` out; each must do something and fit.
    pub(crate) fn carry_out(&mut self, moves: &[Move]) {
        for (i, step) in moves.iter().enumerate() {
            let index = step.chunk.index;
            let before = match step.how {
                How::Mirror => self.mirrors.insert(index, step.to.0),
                // One of two sides goes.
                How::Move if self.mirrors.remove(&index).is_some() => {
                    self.at.insert(index, step.to.0);
                    None
                }
                How::Move => self.at.insert(index, step.to.0),
            };
            assert_ne!(before, Some(step.to.0), "move {i} goes where the chunk is");
            let (used, places) = (self.used_chunks(step.to), self.capacity_chunks(step.to));
            assert!(used <= places, "move {i} overfills pool {}", step.to.0);
        }
    }
}

impl VolumeView for Pools {
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }

    fn epoch(&self) -> Nanos {
        self.epoch
    }

    fn lends_lines(&self) -> bool {
        true
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        self.traits[usize::from(pool.0)]
    }

    fn load(&self, pool: PoolId) -> PoolLoad {
        self.loads[usize::from(pool.0)]
    }

    fn volume_count(&self) -> u32 {
        1
    }

    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        self.sla.filter(|_| volume.0 == 0)
    }

    fn pool_count(&self) -> u16 {
        self.places.len() as u16
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        self.places[usize::from(pool.0)]
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        PoolId(self.at.get(&chunk.index).copied().unwrap_or(self.pool_count() - 1))
    }

    fn holds(&self, chunk: ChunkId) -> bool {
        self.at.contains_key(&chunk.index)
    }

    fn accesses(&self, chunk: ChunkId) -> Accesses {
        let of = |all: &BTreeMap<u32, u64>| all.get(&chunk.index).copied().unwrap_or(0);
        Accesses { reads: of(&self.accesses), writes: of(&self.writes) }
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        self.at.values().chain(self.mirrors.values()).filter(|&&at| at == pool.0).count() as u64
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        let there = self.at.iter().filter(|(_, at)| **at == pool.0);
        there.for_each(|(&index, _)| visit(chunk(index)));
    }

    fn visit_mirrors(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        self.mirrors.iter().for_each(|(&index, &other)| visit(chunk(index), PoolId(other)));
    }

    fn is_replicated(&self, chunk: ChunkId) -> bool {
        self.replicated.contains(&chunk.index)
    }

    fn is_pinned(&self, chunk: ChunkId) -> bool {
        self.pinned.contains(&chunk.index)
    }

    fn has_pins(&self) -> bool {
        !self.pinned.is_empty()
    }
}
