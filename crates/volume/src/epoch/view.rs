//! View of a group for a placement.

use crate::epoch::slas::Slas;
use crate::group_state::GroupState;
use crate::moves::Proposed;
use crate::pools::pool::Pool;
use thermocline_policy::placement::{Accesses, Move, PoolLoad, PoolTraits, Sla, VolumeView};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// A group, read-only. Its pools are ranks: pool 0 is the fastest one ([`crate::pools::ranks`]).
pub(crate) struct View<'a> {
    pub(crate) group: &'a GroupState,
    pub(crate) slas: &'a Slas,
    /// Number of the epoch.
    pub(crate) number: u16,
    /// Length of the epoch that ended.
    pub(crate) length: Nanos,
}

impl View<'_> {
    /// Chunks that a proposal moves, by origin and destination; none: it is empty.
    pub(crate) fn flows_of(&self, moves: &[Move]) -> Option<Proposed> {
        let mut proposed = Proposed::default();
        for planned in moves {
            // A mirror that is brought together where it is moves nothing.
            let from = self.group.pool_of(planned.chunk).filter(|from| *from != planned.to);
            let Some(from) = from else { continue };
            let flow = proposed.flows.entry((from, planned.to)).or_default();
            flow.chunks += 1;
            flow.requests += self.accesses(planned.chunk).all();
        }
        (!moves.is_empty()).then_some(proposed)
    }

    /// The pool of a rank.
    fn pool(&self, rank: PoolId) -> &Pool {
        &self.group.pools[self.group.pools.ranks().at_rank(rank)]
    }
}

impl VolumeView for View<'_> {
    fn chunk_size(&self) -> Bytes {
        self.group.chunk_size()
    }

    fn epoch(&self) -> Nanos {
        self.length
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        let traits = self.pool(pool).traits;
        // Pools that were removed count, so that nobody is taken for another device when one goes.
        traits.unwrap_or_else(|| {
            let (place, count) = self.group.pools.ranks().place_among_all(pool);
            PoolTraits::assumed(place, count)
        })
    }

    fn load(&self, pool: PoolId) -> PoolLoad {
        self.pool(pool).load
    }

    fn volume_count(&self) -> u32 {
        self.group.map.volume_count()
    }

    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        self.slas.of(volume).map(|record| record.sla)
    }

    fn pool_count(&self) -> u16 {
        self.group.pools.ranks().there().len() as u16
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
        if !self.group.map.has(chunk) {
            return slowest;
        }
        let first = self.group.map.entry(chunk).first();
        first.map_or(slowest, |place| self.group.pools.ranks().rank_of(place.pool))
    }

    fn holds(&self, chunk: ChunkId) -> bool {
        self.group.pool_of(chunk).is_some()
    }

    fn accesses(&self, chunk: ChunkId) -> Accesses {
        if !self.group.map.has(chunk) {
            return Accesses::default();
        }
        let ended = self.number.wrapping_sub(1);
        let (reads, writes) = self.group.map.entry(chunk).heat_in(ended);
        Accesses { reads: reads.into(), writes: writes.into() }
    }

    fn visit_mirrors(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        for chunk in self.group.map.not_simple() {
            if let Some(side) = self.group.map.mirror(chunk) {
                visit(chunk, self.group.pools.ranks().rank_of(side.place.pool));
            }
        }
    }

    fn lends_lines(&self) -> bool {
        true
    }

    fn visit_kept(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        for chunk in self.group.map.not_simple() {
            if let Some(place) = self.group.map.kept_copy(chunk) {
                visit(chunk, self.group.pools.ranks().rank_of(place.pool));
            }
        }
    }

    fn is_replicated(&self, chunk: ChunkId) -> bool {
        self.group.map.has(chunk)
            && self.group.map.copies(chunk).filter(|copy| !copy.gives_way()).count() > 1
    }

    fn is_pinned(&self, chunk: ChunkId) -> bool {
        self.group.map.has(chunk) && self.group.map.entry(chunk).is_pinned()
    }

    fn has_pins(&self) -> bool {
        self.group.map.has_pins()
    }

    /// Without prefetched and kept copies: they give up their room.
    fn used_chunks(&self, pool: PoolId) -> u64 {
        let pool = self.pool(pool);
        u64::from(pool.slots_used() - pool.kept - pool.prefetched.min(pool.reserve))
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        let pool = self.group.pools.ranks().at_rank(pool);
        for chunk in self.group.map.chunks() {
            if self.group.map.entry(chunk).first().is_some_and(|place| place.pool == pool) {
                visit(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests;
