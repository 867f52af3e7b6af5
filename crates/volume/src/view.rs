//! What a placement sees of a group.

use crate::group::Group;
use thermocline_policy::placement::{PoolLoad, PoolTraits, Sla, VolumeView};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// A group, read-only.
pub(crate) struct View<'a>(&'a Group);

impl Group {
    pub(crate) fn view(&self) -> View<'_> {
        View(self)
    }
}

impl VolumeView for View<'_> {
    fn chunk_size(&self) -> Bytes {
        self.0.chunk_size()
    }

    fn epoch(&self) -> Nanos {
        self.0.housekeeping.epoch_length
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        self.0.pool(pool).traits.unwrap_or_else(|| PoolTraits::assumed(pool, self.pool_count()))
    }

    fn load(&self, pool: PoolId) -> PoolLoad {
        self.0.pool(pool).load
    }

    fn volume_count(&self) -> u32 {
        self.0.map.volume_count()
    }

    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        self.0.promises.of(volume).map(|promise| promise.sla)
    }

    fn pool_count(&self) -> u16 {
        self.0.pools.len() as u16
    }

    /// What the pool can hold beside the reserve for prefetched copies; nothing when it takes no
    /// chunks.
    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        let pool = self.0.pool(pool);
        if !pool.takes_chunks() {
            return 0;
        }
        u64::from(pool.slots_for_chunks().saturating_sub(pool.reserve))
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        let slowest = PoolId(self.pool_count() - 1);
        if !self.0.map.has(chunk) {
            return slowest;
        }
        self.0.map.entry(chunk).first().map_or(slowest, |place| place.pool)
    }

    fn accesses(&self, chunk: ChunkId) -> u64 {
        if !self.0.map.has(chunk) {
            return 0;
        }
        let ended = self.0.epoch.wrapping_sub(1);
        let (reads, writes) = self.0.map.entry(chunk).heat_in(ended);
        u64::from(reads) + u64::from(writes)
    }

    fn visit_mirrors(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        let several = self.0.map.chunks().filter(|&chunk| !self.0.map.is_simple(chunk));
        for chunk in several {
            self.0.map.mirror(chunk).into_iter().for_each(|side| visit(chunk, side.place.pool));
        }
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        u64::from(self.0.pool(pool).slots_used())
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        for chunk in self.0.map.chunks() {
            if self.0.map.entry(chunk).first().is_some_and(|place| place.pool == pool) {
                visit(chunk);
            }
        }
    }
}
