//! Copies that moves to faster pools left behind.
//!
//! 1. A placement's move to a faster pool ends, and its source has more free slots than it needs
//!    ([`headroom`]): the slow copy stays, as a prefetched one. The journal calls the two different
//!    from the start, so the first write drops the slow copy without waiting for anything.
//! 2. A move back makes it the chunk's copy again: nothing is copied.
//! 3. Where a pool has fewer free slots than its headroom, the oldest are dropped. They never keep
//!    a chunk out: whoever finds no slot at all drops prefetched copies, too (`first_slot`).
//!
//! A crash takes them: recovery trusts the first of copies that may differ. Does not hold copies
//! that hints asked for: those lie on faster pools.

use crate::block_checksums::BlockChecksums;
use crate::copies::drop_copy;
use crate::group_state::GroupState;
use crate::group_state::active::ActiveOperation;
use crate::map::{Place, Role};
use crate::operation::OperationKind;
use crate::pools::pool::Pool;
use std::collections::VecDeque;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{ChunkId, PoolId};

/// Copies dropped in one round of housekeeping.
const DROPPED_PER_ROUND: usize = 256;

/// Length of the list below which it is not looked through for copies that have gone.
const LIST_MIN: usize = 1024;

/// Kept copies in the order in which they were left, some of which have gone since.
#[derive(Debug, Default)]
pub(crate) struct KeptCopies {
    list: VecDeque<(ChunkId, PoolId)>,
    /// Length at which those that have gone are taken out.
    limit: usize,
}

impl KeptCopies {
    /// A move has left a copy on `pool`.
    pub(crate) fn add(&mut self, group: &GroupState, chunk: ChunkId, pool: PoolId) {
        if self.list.len() >= self.limit.max(LIST_MIN) {
            self.list.retain(|&(chunk, pool)| is_on(group, chunk, pool));
            self.limit = 2 * self.list.len();
        }
        self.list.push_back((chunk, pool));
        assert!(self.list.len() <= self.limit.max(LIST_MIN), "the list is bounded");
    }

    /// True if some pool lacks free slots that kept copies have.
    pub(crate) fn are_in_the_way(&self, group: &GroupState) -> bool {
        !self.list.is_empty() && group.pools.iter().any(is_short)
    }

    /// Drops the oldest copies on pools that have fewer free slots than they need.
    pub(crate) fn make_room(&mut self, group: &mut GroupState, checksums: &mut BlockChecksums) {
        if !self.are_in_the_way(group) {
            return;
        }
        let (before, mut dropped) = (self.list.len(), 0);
        let list = std::mem::take(&mut self.list);
        for (chunk, pool) in list {
            if !is_on(group, chunk, pool) {
                continue;
            }
            let may_go = dropped < DROPPED_PER_ROUND && !group.records_pile_up();
            let wanted = may_go && is_short(&group.pools[pool]);
            if wanted && group.operation_on(chunk).is_none() {
                drop_copy(group, checksums, chunk, pool, true);
                met("kept copy gave up its room");
                dropped += 1;
            } else {
                self.list.push_back((chunk, pool));
            }
        }
        assert!(self.list.len() + dropped <= before, "what is dropped is listed no more");
    }
}

/// Slots that a pool keeps free rather than copies: a thirty-second of all, and at least one.
fn headroom(pool: &Pool) -> u32 {
    (pool.slots.total() / 32).max(1)
}

/// True if copies that may go take slots which the pool wants free.
fn is_short(pool: &Pool) -> bool {
    pool.kept > 0 && pool.slots.free() < headroom(pool)
}

/// True if a chunk has a kept copy on `pool`.
fn is_on(group: &GroupState, chunk: ChunkId, pool: PoolId) -> bool {
    group.map.has(chunk) && copy_of(group, chunk).is_some_and(|place| place.pool == pool)
}

/// The kept copy of a chunk, where it has one.
pub(crate) fn copy_of(group: &GroupState, chunk: ChunkId) -> Option<Place> {
    if group.map.is_simple(chunk) {
        return None;
    }
    let kept = group.map.copies(chunk).find(|copy| copy.role == Role::Kept);
    kept.map(|copy| copy.place)
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
        && source.takes_chunks()
        && source.slots.free() > headroom(source)
}

/// An operation that the kept copy of its chunk is of no use to begins: it goes.
pub(crate) fn drop_for_operation(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    chunk: ChunkId,
) {
    let Some(place) = copy_of(group, chunk) else { return };
    drop_copy(group, checksums, chunk, place.pool, true);
    assert!(copy_of(group, chunk).is_none(), "the kept copy is gone");
}

/// A write comes to a chunk: its kept copy goes, so that it need not be written. Nothing has to be
/// waited for, because the journal calls the copies different.
pub(crate) fn drop_for_write(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    chunk: ChunkId,
) {
    let Some(place) = copy_of(group, chunk) else { return };
    let is_dirty = group.map.extra(chunk).is_some_and(|extra| extra.dirty);
    if !is_dirty || mutant("kept_copy_misses_writes") {
        return; // One that counts as equal is written like others.
    }
    let copies = group.map.copies(chunk).count();
    drop_copy(group, checksums, chunk, place.pool, true);
    assert_eq!(group.map.copies(chunk).count(), copies - 1, "the kept copy is gone");
    met("kept copy dropped for a write");
}
