//! The order of pools by speed.
//!
//! A pool keeps its [`PoolId`] for good: the map on disk names it. Its *rank* is its place in the
//! order of speed of the pools that there are, and changes when a pool is added before it or one
//! before it is removed. Placements know ranks only: their pool 0 is the fastest, whatever its id.
//! The view and the router's loads are put in order of rank for them, and what they propose is
//! translated back before anybody else sees it.
//!
//! The superblock has the order of all pools that there ever were. Those that are removed keep
//! their place in it, and have no rank.

use crate::settings::POOLS_MAX;
use std::cmp::Ordering;
use thermocline_policy::placement::{Move, PoolChange};
use thermocline_units::PoolId;

/// An id that no pool has.
const NO_POOL: PoolId = PoolId(u16::MAX);

const _: () = assert!(POOLS_MAX < NO_POOL.0 as usize);

/// Order of the pools by speed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ranks {
    /// Ids of all that there ever were, fastest first.
    order: Vec<PoolId>,
    /// Ids of those that were not removed, fastest first.
    there: Vec<PoolId>,
    /// Ranks by id; of a removed pool the number of those that are there.
    ranks: Vec<u16>,
}

impl Ranks {
    /// Ranks of this many pools, in the order of their ids.
    pub(crate) fn by_id(count: usize) -> Ranks {
        let ids = (0..count as u16).map(PoolId).collect();
        Ranks::of_order(ids).expect("every id is there once")
    }

    /// Pools in this order, fastest first; `None` when an id is missing or there twice.
    pub(crate) fn of_order(order: Vec<PoolId>) -> Option<Ranks> {
        if order.len() > POOLS_MAX {
            return None;
        }
        let mut ranks = vec![None; order.len()];
        for (rank, id) in order.iter().enumerate() {
            let place = ranks.get_mut(usize::from(id.0))?;
            if place.replace(rank as u16).is_some() {
                return None;
            }
        }
        let ranks = ranks.into_iter().collect::<Option<_>>()?;
        Some(Ranks { there: order.clone(), order, ranks })
    }

    /// The same order of the pools of which `is_there` is true.
    pub(crate) fn of_those(mut self, is_there: impl Fn(PoolId) -> bool) -> Ranks {
        self.there = self.order.iter().copied().filter(|&id| is_there(id)).collect();
        self.ranks = vec![self.there.len() as u16; self.order.len()];
        for (rank, id) in (0..).zip(&self.there) {
            self.ranks[usize::from(id.0)] = rank;
        }
        self
    }

    /// Ids of all pools that there ever were, fastest first.
    pub(crate) fn order(&self) -> &[PoolId] {
        &self.order
    }

    /// Ids of the pools that were not removed, fastest first.
    pub(crate) fn there(&self) -> &[PoolId] {
        &self.there
    }

    /// The same pools and one more, with the next id: before another one, or last.
    pub(crate) fn with_next(&self, before: Option<PoolId>) -> Ranks {
        let next = PoolId(self.order.len() as u16);
        let mut order = self.order.clone();
        let at = before.and_then(|before| order.iter().position(|&id| id == before));
        order.insert(at.unwrap_or(order.len()), next);
        let ranks = Ranks::of_order(order).expect("the next id is there once");
        ranks.of_those(|id| id == next || self.there.contains(&id))
    }

    /// The pool as placements know it; an id that no pool has stays what it is, and a removed pool
    /// is behind all others.
    pub(crate) fn rank_of(&self, id: PoolId) -> PoolId {
        self.ranks.get(usize::from(id.0)).map_or(id, |&rank| PoolId(rank))
    }

    /// The same pools but the one with the highest id.
    pub(crate) fn without_last(&self) -> Ranks {
        let last = PoolId(self.order.len().saturating_sub(1) as u16);
        let order = self.order.iter().copied().filter(|&id| id != last).collect();
        let ranks = Ranks::of_order(order).expect("every other id is there once");
        ranks.of_those(|id| self.there.contains(&id))
    }

    /// Place of the pool of this rank among all that there ever were, and their number.
    pub(crate) fn place_among_all(&self, rank: PoolId) -> (PoolId, u16) {
        let id = self.at_rank(rank);
        let place = self.order.iter().position(|&other| other == id).unwrap_or(0);
        (PoolId(place as u16), self.order.len() as u16)
    }

    /// The pool that a placement means; of a rank that there is not, an id that no pool has.
    pub(crate) fn at_rank(&self, rank: PoolId) -> PoolId {
        self.there.get(usize::from(rank.0)).copied().unwrap_or(NO_POOL)
    }

    /// Changes that make of these pools, fastest first, those that are there, one after the other;
    /// `None`: the order of those that are in both is another, or there are more than can be.
    pub(crate) fn changes_since(&self, before: &[PoolId]) -> Option<Vec<PoolChange>> {
        if before.len() > POOLS_MAX {
            return None;
        }
        let mut order = before.to_vec();
        let mut changes = Vec::new();
        for place in (0..order.len()).rev() {
            if !self.there.contains(&order[place]) {
                order.remove(place);
                changes.push(PoolChange::Left(PoolId(place as u16)));
            }
        }
        for (place, id) in self.there.iter().enumerate() {
            if !before.contains(id) {
                order.insert(place.min(order.len()), *id);
                changes.push(PoolChange::Joined(PoolId(place as u16)));
            }
        }
        (order == self.there).then_some(changes)
    }

    /// Compares two pools by speed: less is faster.
    pub(crate) fn compare_speed(&self, one: PoolId, other: PoolId) -> Ordering {
        self.rank_of(one).cmp(&self.rank_of(other))
    }

    /// Pools that are faster than `pool`, fastest first.
    pub(crate) fn faster_than(&self, pool: PoolId) -> impl DoubleEndedIterator<Item = PoolId> {
        self.there.iter().take(usize::from(self.rank_of(pool).0)).copied()
    }

    /// All pools that are there, those first whose ranks are nearest to that of `pool`; of two that
    /// are as near, the faster one.
    pub(crate) fn by_likeness(&self, pool: PoolId) -> Vec<PoolId> {
        let rank = |id: PoolId| self.rank_of(id).0;
        let mut pools = self.there.clone();
        pools.sort_by_key(|&other| rank(other).abs_diff(rank(pool)));
        pools
    }

    /// Puts the pools of a proposal in the place of the ranks that a placement knows.
    pub(crate) fn translate_moves(&self, moves: &mut [Move]) {
        for step in moves {
            step.to = self.at_rank(step.to);
        }
    }
}

#[cfg(test)]
mod tests;
