//! Copies of a chunk that go: those that failed, those of dead pools, and prefetched ones that give
//! up their room; and copies that count as equal again.

use crate::format::Record;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::map::block_checksums::BlockChecksums;
use crate::map::overlay::Side;
use crate::map::place::{ChunkCopy, Role};
use crate::moves::operation::{Operation, OperationKind};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos, PoolId};

/// Copies count as equal again when they were not written for so long.
const QUIET: Nanos = Nanos(1_000_000_000);

/// Drops the copy on `pool`, unless it is the only one; another will be made.
pub(crate) fn copy_failed(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    chunk: ChunkId,
    pool: PoolId,
) {
    // Nobody wanted a kept copy where it is: from there the chunk goes back.
    let kind = match group.map.kept_copy(chunk) {
        Some(_) => OperationKind::Migrate,
        None => OperationKind::Replicate,
    };
    let before = group.map.copies(chunk).count();
    if drop_copy(group, checksums, chunk, pool, false) {
        group.emit(Effect::Wish(Operation { kind, chunk, to: pool }));
    }
    let after = group.map.copies(chunk).count();
    assert!(after + 1 >= before && (after > 0 || before == 0), "one copy goes, and never the last");
}

/// Drops the copy on `pool`, unless it is the only one; whether an ordinary copy was dropped.
pub(crate) fn drop_copy(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    chunk: ChunkId,
    pool: PoolId,
    only_prefetched: bool,
) -> bool {
    let mut state = group.map.state(chunk);
    let found = state.copies.iter().position(|copy| copy.place.pool == pool);
    let Some(index) = found.filter(|_| state.copies.len() > 1) else { return false };
    if only_prefetched && !state.copies[index].gives_way() {
        return false;
    }
    met_if(!state.dirty, "copy dropped that the journal calls equal");
    let copy = state.copies.remove(index);
    group.await_drop(chunk, state.dirty);
    uncount(group, copy);
    uncount(group, state.copies[0]);
    state.copies[0].role = Role::Wanted;
    state.dirty &= state.may_differ();
    checksums.drop_orphaned_table(group, chunk, &mut state);
    group.map.set_state(chunk, &state);
    let durable = group.durable_state(chunk);
    let stays = |other: &ChunkCopy| other.place == copy.place;
    assert!(!durable.copies.iter().any(stays), "the record names the slot no more");
    assert!(group.pools[pool].slots.is_taken(copy.place.slot), "it is free when that is durable");
    group.journal.change(&Record::Chunk(chunk, durable), chunk, &[copy.place]);
    !copy.gives_way()
}

/// Makes an ordinary copy of the prefetched one on `pool`. On request the chunk moves there: it
/// is the first copy, and the one that was first is dropped.
pub(crate) fn keep_prefetched(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    chunk: ChunkId,
    pool: PoolId,
    moves: bool,
) {
    let mut state = group.map.state(chunk);
    let home = state.copies[0].place.pool;
    let found = state.copies.iter().position(|copy| copy.place.pool == pool);
    let index = found.expect("the caller found it");
    debug_assert!(state.copies[index].gives_way(), "one that is asked for is kept already");
    uncount(group, state.copies[index]);
    if !mutant("kept_copy_still_prefetched") {
        state.copies[index].role = Role::Wanted;
    }
    if moves {
        let copy = state.copies.remove(index);
        state.copies.insert(0, copy);
    }
    group.map.set_state(chunk, &state);
    assert!(!moves || group.pool_of(chunk) == Some(pool), "what moves there is first there");
    if moves {
        // One record says both: after a crash the old copy shall not count as asked for.
        drop_copy(group, checksums, chunk, home, false);
    } else {
        if state.dirty && !group.map.follows_differing(chunk) {
            // A kept copy was left to differ; this one comes to count as equal.
            group.map.follow_differing(chunk);
            group.map.touch_copies(group.now, chunk);
        }
        let durable = group.durable_state(chunk);
        group.journal.change(&Record::Chunk(chunk, durable), chunk, &[]);
    }
}

fn uncount(group: &mut GroupState, copy: ChunkCopy) {
    group.pools[copy.place.pool].uncount_copy(copy.role);
}

/// Tells the journal that copies which were not written for a while are equal: its next commit
/// flushes them first.
pub(crate) fn settle_quiet_copies(group: &mut GroupState, now: Nanos) {
    let mut dirty = group.map.take_differing();
    let before = dirty.len();
    dirty.retain(|&chunk| {
        if !group.map.has(chunk) || group.records_pile_up() {
            return group.map.has(chunk);
        }
        if !group.map.is_called_differing(chunk) {
            return false;
        }
        let rested = now.saturating_sub(group.map.last_write(chunk));
        let quiet = rested >= QUIET || mutant("copies_equal_without_rest");
        let busy = group.map.is_busy(chunk);
        if !quiet || busy && !mutant("copies_equal_under_a_write") {
            return true;
        }
        group.map.call_equal(chunk);
        let state = group.durable_state(chunk);
        group.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        false
    });
    assert!(dirty.len() <= before, "settling makes no copies different");
    group.map.put_back_differing(dirty);
}

/// True if a chunk has a copy on the pool beside others.
pub(crate) fn has_spare_copy_on(group: &GroupState, pool: PoolId) -> bool {
    group.map.chunks().filter(|&chunk| !group.map.is_simple(chunk)).any(|chunk| {
        group.map.copies(chunk).count() > 1
            && group.map.copies(chunk).any(|copy| copy.place.pool == pool)
    })
}

/// The pool is dead: chunks with copies elsewhere lose theirs on it. One record says it for
/// all.
pub(crate) fn forget_copies_on(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    pool: PoolId,
) {
    assert!(!group.pools[pool].is_alive(), "copies on a pool that lives are dropped one by one");
    let several: Vec<ChunkId> =
        group.map.chunks().filter(|&chunk| !group.map.is_simple(chunk)).collect();
    for chunk in several {
        wish_on_the_living_side(group, chunk, pool);
        let mut state = group.map.state(chunk);
        let announced = state.dirty;
        let lost = state.lose_pool(pool);
        if !lost.is_empty() {
            group.await_drop(chunk, announced);
        }
        for copy in lost {
            uncount(group, copy);
            group.pools[pool].slots.give_back(copy.place.slot, false);
        }
        if let Some(first) = state.copies.first_mut() {
            let copy = std::mem::replace(first, ChunkCopy::wanted(first.place));
            uncount(group, copy);
        }
        checksums.drop_orphaned_table(group, chunk, &mut state);
        group.map.set_state(chunk, &state);
    }
    if !mutant("death_not_recorded") {
        group.journal.record_death(pool);
    }
}

/// A pool died: a mirrored chunk that is on it shall be whole on its other side.
fn wish_on_the_living_side(group: &mut GroupState, chunk: ChunkId, dead: PoolId) {
    if group.map.mirror(chunk).is_none() {
        return;
    }
    let [base, above] = [Side::Base, Side::Above].map(|side| group.map.place_on(chunk, side).pool);
    assert!(!group.pools[dead].is_alive(), "a side on a pool that lives is read");
    if base == dead || above == dead {
        let to = if base == dead { above } else { base };
        group.emit(Effect::Wish(Operation { kind: OperationKind::Migrate, chunk, to }));
    }
}

#[cfg(test)]
mod tests;
