//! What a placement sees of a group.

use crate::group::Group;
use crate::pools::pool::Pool;
use thermocline_policy::placement::{PoolLoad, PoolTraits, Sla, VolumeView};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// A group, read-only. Its pools are ranks: pool 0 is the fastest one ([`crate::pools::ranks`]).
pub(crate) struct View<'a>(&'a Group);

impl View<'_> {
    /// The pool of a rank.
    fn pool(&self, rank: PoolId) -> &Pool {
        &self.0.core.pools[self.0.core.pools.ranks().at_rank(rank)]
    }
}

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
        let traits = self.pool(pool).traits;
        traits.unwrap_or_else(|| PoolTraits::assumed(pool, self.pool_count()))
    }

    fn load(&self, pool: PoolId) -> PoolLoad {
        self.pool(pool).load
    }

    fn volume_count(&self) -> u32 {
        self.0.core.map.volume_count()
    }

    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        self.0.requests.slas.of(volume).map(|record| record.sla)
    }

    fn pool_count(&self) -> u16 {
        self.0.core.pools.count() as u16
    }

    /// Chunks that the pool can hold beside the reserve for prefetched copies; 0 when it takes no
    /// chunks.
    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        let pool = self.pool(pool);
        if !pool.takes_chunks() {
            return 0;
        }
        u64::from(pool.slots_for_chunks().saturating_sub(pool.reserve))
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        let slowest = PoolId(self.pool_count() - 1);
        if !self.0.core.map.has(chunk) {
            return slowest;
        }
        let first = self.0.core.map.entry(chunk).first();
        first.map_or(slowest, |place| self.0.core.pools.ranks().rank_of(place.pool))
    }

    fn accesses(&self, chunk: ChunkId) -> u64 {
        if !self.0.core.map.has(chunk) {
            return 0;
        }
        let ended = self.0.epochs.number.wrapping_sub(1);
        let (reads, writes) = self.0.core.map.entry(chunk).heat_in(ended);
        u64::from(reads) + u64::from(writes)
    }

    fn visit_mirrors(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        let several = self.0.core.map.chunks().filter(|&chunk| !self.0.core.map.is_simple(chunk));
        for chunk in several {
            if let Some(side) = self.0.core.map.mirror(chunk) {
                visit(chunk, self.0.core.pools.ranks().rank_of(side.place.pool));
            }
        }
    }

    fn is_replicated(&self, chunk: ChunkId) -> bool {
        self.0.core.map.has(chunk)
            && self.0.core.map.copies(chunk).filter(|copy| !copy.prefetched).count() > 1
    }

    /// Without prefetched copies in the reserve: the capacity is without them, too.
    fn used_chunks(&self, pool: PoolId) -> u64 {
        let pool = self.pool(pool);
        u64::from(pool.slots_used() - pool.prefetched.min(pool.reserve))
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        let pool = self.0.core.pools.ranks().at_rank(pool);
        for chunk in self.0.core.map.chunks() {
            if self.0.core.map.entry(chunk).first().is_some_and(|place| place.pool == pool) {
                visit(chunk);
            }
        }
    }
}
