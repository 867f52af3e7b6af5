//! The pool of a chunk that is written for the first time.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry};
use std::cmp::Reverse;
use std::sync::Arc;
use thermocline_units::PoolId;

/// Room of a pool, in chunks; 0 where it takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Free chunks.
    pub free: u32,
    /// Those of them that are not kept for moves.
    pub beside_reserve: u32,
    /// True if requests to the pool leave the machine: it comes last.
    pub far: bool,
}

/// Choice of the pool for a new chunk.
pub trait Allocation: Send + Sync {
    /// Brings pools into the order in which they are tried; they come fastest first.
    fn order(&self, pools: &mut [PoolId], room: &dyn Fn(PoolId) -> Room);

    /// The pool for a new chunk: a `hinted` one, if there is one with room, or else the first in
    /// order of those `by_speed` (fastest first). Near pools come before far ones, and what is kept
    /// for moves is given away only when there is nothing else. `None`: no pool has room.
    fn pool(
        &self,
        hinted: &[PoolId],
        by_speed: &[PoolId],
        room: &dyn Fn(PoolId) -> Room,
    ) -> Option<PoolId> {
        let mut order: Vec<PoolId> = hinted.iter().chain(by_speed).copied().collect();
        self.order(&mut order[hinted.len()..], room);
        order.sort_by_key(|&pool| room(pool).far);
        let with = |free: fn(Room) -> u32| order.iter().copied().find(|&pool| free(room(pool)) > 0);
        with(|room| room.beside_reserve).or_else(|| with(|room| room.free))
    }
}

struct FastestFirst;

impl Allocation for FastestFirst {
    fn order(&self, _pools: &mut [PoolId], _room: &dyn Fn(PoolId) -> Room) {}
}

struct SlowestFirst;

impl Allocation for SlowestFirst {
    fn order(&self, pools: &mut [PoolId], _room: &dyn Fn(PoolId) -> Room) {
        pools.reverse();
    }
}

struct MostFree;

impl Allocation for MostFree {
    fn order(&self, pools: &mut [PoolId], room: &dyn Fn(PoolId) -> Room) {
        pools.sort_by_key(|&pool| Reverse(room(pool).beside_reserve));
    }
}

pub(super) const FASTEST_FIRST: Entry = Entry {
    name: "fastest-first",
    summary: "a new chunk goes to the fastest pool with room",
    source: "linear fill",
    settings: &[],
    build: Build::Tactic(Kind::Allocation, |_| Ok(Tactic::Allocation(Arc::new(FastestFirst)))),
};

pub(super) const SLOWEST_FIRST: Entry = Entry {
    name: "slowest-first",
    summary: "a new chunk goes to the slowest pool with room; moves bring up what is hot",
    source: "linear fill",
    settings: &[],
    build: Build::Tactic(Kind::Allocation, |_| Ok(Tactic::Allocation(Arc::new(SlowestFirst)))),
};

pub(super) const MOST_FREE: Entry = Entry {
    name: "most-free",
    summary: "a new chunk goes to the pool with most free chunks; of equals the fastest",
    source: "worst fit",
    settings: &[],
    build: Build::Tactic(Kind::Allocation, |_| Ok(Tactic::Allocation(Arc::new(MostFree)))),
};
