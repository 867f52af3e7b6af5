//! Copies that moves to faster pools left behind.
//!
//! 1. A placement's move to a faster pool ends, and its source has more free slots than it needs;
//!    the tactic [`Retention`](thermocline_policy::tactics::Retention) says how many. The slow copy
//!    stays, as a prefetched one. The journal calls the two different from the start, so the first
//!    write drops the slow copy without waiting for anything.
//! 2. A move back makes it the chunk's copy again: nothing is copied.
//! 3. Where a pool has fewer free slots beside its reserve for prefetched copies than its headroom,
//!    the oldest are dropped. They never keep a chunk out: whoever finds no slot at all drops
//!    prefetched copies, too (`first_slot`).
//!
//! A crash takes them: recovery trusts the first of copies that may differ. Does not hold copies
//! that hints asked for: those lie on faster pools.

use crate::group_state::GroupState;
use crate::map::block_checksums::BlockChecksums;
use crate::map::copies::drop_copy;
use crate::map::place::{Place, Role};
use crate::moves::active::ActiveOperation;
use crate::moves::operation::OperationKind;
use crate::pools::pool::Pool;
use std::collections::BTreeMap;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, PoolId};

/// Copies dropped in one round of housekeeping, on one pool.
const DROPPED_PER_ROUND: u32 = 256;

/// Time from one such round to the next: slots are free when a commit has made it durable that they
/// were left, and are counted only then.
const BETWEEN_ROUNDS: Nanos = Nanos(1_000_000_000);

/// Entries beside those of copies that are there, below which none is looked for.
const GONE_MAX: usize = 1024;

/// Kept copies in the order in which they were left, some of which have gone since.
#[derive(Debug, Default)]
pub(crate) struct KeptCopies {
    /// Copies by the order in which they were left.
    order: BTreeMap<u64, (ChunkId, PoolId)>,
    /// Place of each in that order.
    known: BTreeMap<(ChunkId, PoolId), u64>,
    /// Copies that were ever left.
    left: u64,
    /// Moment from which on copies may be dropped again.
    next: Nanos,
}

impl KeptCopies {
    /// Number of entries, those of copies that have gone among them.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// A move has left a copy on `pool`.
    pub(crate) fn add(&mut self, group: &GroupState, chunk: ChunkId, pool: PoolId) {
        let there: usize = group.pools.iter().map(|pool| pool.kept as usize).sum();
        if self.order.len() >= 2 * there + GONE_MAX {
            self.order.retain(|_, (chunk, pool)| is_on(group, *chunk, *pool));
            self.known.retain(|(chunk, pool), _| is_on(group, *chunk, *pool));
        }
        self.left += 1;
        if let Some(before) = self.known.insert((chunk, pool), self.left) {
            self.order.remove(&before);
        }
        self.order.insert(self.left, (chunk, pool));
        assert_eq!(self.order.len(), self.known.len(), "each copy has one place in the order");
    }

    /// True if some pool lacks free slots that kept copies have.
    pub(crate) fn are_in_the_way(&self, group: &GroupState) -> bool {
        group.pools.iter().any(|pool| wanted(group, pool) > 0)
    }

    /// Drops the oldest copies on pools that have fewer free slots than they need: as many as are
    /// wanted.
    pub(crate) fn make_room(&mut self, group: &mut GroupState, checksums: &mut BlockChecksums) {
        if group.now < self.next || !self.are_in_the_way(group) {
            return;
        }
        self.next = Nanos(group.now.0 + BETWEEN_ROUNDS.0);
        let mut wanted: Vec<u32> = group.pools.iter().map(|pool| wanted(group, pool)).collect();
        let before = self.order.len();
        let mut gone = Vec::new();
        for (&at, &(chunk, pool)) in &self.order {
            if wanted.iter().all(|&slots| slots == 0) {
                break;
            }
            let slots = &mut wanted[usize::from(pool.0)];
            if !is_on(group, chunk, pool) {
                gone.push((at, chunk, pool));
            } else if *slots > 0 && group.operation_on(chunk).is_none() {
                drop_copy(group, checksums, chunk, pool, true);
                met("kept copy gave up its room");
                *slots -= 1;
                gone.push((at, chunk, pool));
            }
        }
        for (at, chunk, pool) in &gone {
            self.order.remove(at);
            self.known.remove(&(*chunk, *pool));
        }
        group.journal.want_commit();
        assert_eq!(self.order.len() + gone.len(), before, "what has gone is listed no more");
    }
}

/// Slots that a pool keeps free rather than copies.
fn headroom(group: &GroupState, pool: &Pool) -> u32 {
    group.settings.tactics.retention.ask(|tactic| tactic.headroom(pool.slots.total()))
}

/// Free slots of a pool that moves may take: those beside the reserve for prefetched copies.
fn free(pool: &Pool) -> u32 {
    pool.free_beside_reserve().min(pool.slots.free())
}

/// Slots that the pool wants free and kept copies have; no more than go in one round.
fn wanted(group: &GroupState, pool: &Pool) -> u32 {
    if pool.kept == 0 {
        return 0;
    }
    headroom(group, pool).saturating_sub(free(pool)).min(pool.kept).min(DROPPED_PER_ROUND)
}

/// True if a chunk has a kept copy on `pool`.
fn is_on(group: &GroupState, chunk: ChunkId, pool: PoolId) -> bool {
    group.map.has(chunk) && group.map.kept_copy(chunk).is_some_and(|place| place.pool == pool)
}

/// True if the copy that an operation leaves may stay: a placement has moved the chunk to a faster
/// pool, and the old one has room enough.
pub(crate) fn may_stay(group: &GroupState, copy: &ActiveOperation) -> bool {
    let source = &group.pools[copy.source.pool];
    let rises = group.pools.ranks().compare_speed(copy.destination.pool, copy.source.pool).is_lt();
    group.settings.copying.keeps
        && copy.proposed
        && copy.what.kind == OperationKind::Migrate
        && copy.goal.is_none()
        && rises
        && !source.is_far()
        && source.takes_chunks()
        && free(source) > headroom(group, source)
}

/// An operation that the kept copy of its chunk is of no use to begins: it goes.
pub(crate) fn drop_for_operation(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    chunk: ChunkId,
) {
    let Some(place) = group.map.kept_copy(chunk) else { return };
    drop_copy(group, checksums, chunk, place.pool, true);
    assert!(group.map.kept_copy(chunk).is_none(), "the kept copy is gone");
}

/// Places of all copies that a write to a chunk goes to. Its kept copy goes, so that it need not be
/// written. Nothing has to be waited for, because the journal calls the copies different; one that
/// counts as equal is written like others.
pub(crate) fn places_to_write(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    chunk: ChunkId,
) -> Vec<Place> {
    let misses = mutant("kept_copy_misses_writes");
    let is_dirty = group.map.is_called_differing(chunk);
    met_if(is_dirty && group.map.kept_copy(chunk).is_some(), "kept copy dropped for a write");
    if is_dirty && !misses {
        drop_for_operation(group, checksums, chunk);
    }
    let copies = group.map.copies(chunk).filter(|copy| !misses || copy.role != Role::Kept);
    let places: Vec<Place> = copies.map(|copy| copy.place).collect();
    assert!(!places.is_empty(), "the copy that a chunk is wanted at stays");
    places
}

#[cfg(test)]
mod tests;
