//! Choice of places: the copy that a read uses, the pool of a new chunk, the queue to wait in.

use crate::group_state::GroupState;
use crate::io::busy_chunk::{Verb, bit};
use crate::io::scheduler::Lane;
use crate::lines::are_few;
use crate::map::place::Place;
use crate::moves::switching::arriving_copy;
use std::ops::Range;
use thermocline_policy::tactics::{Room, Waiting};
use thermocline_units::{ChunkId, PoolId};

/// The copy to read `range` from, among those on pools that live that have not failed.
pub(crate) fn best_copy(
    group: &GroupState,
    chunk: ChunkId,
    range: &Range<u32>,
    failed: impl Fn(Place) -> bool,
) -> Option<Place> {
    let arriving = arriving_copy(group, chunk, range);
    let copies = group.map.copies(chunk).map(|copy| copy.place).chain(arriving);
    let copies = copies.filter(|&place| group.pools[place.pool].is_alive() && !failed(place));
    choose(group, copies)
}

/// The copy that the tactic prefers; `None`: there is none.
fn choose(group: &GroupState, mut copies: impl Iterator<Item = Place>) -> Option<Place> {
    let first = copies.next()?;
    // Most chunks have one copy: nothing is asked, and nothing allocated.
    let Some(second) = copies.next() else { return Some(first) };
    let copies: Vec<Place> = [first, second].into_iter().chain(copies).collect();
    let waiting = |place: &Place| group.pools.waiting(place.pool, group.now);
    let waiting: Vec<Waiting> = copies.iter().map(waiting).collect();
    Some(copies[group.settings.tactics.replica.ask(|tactic| tactic.choose(&waiting))])
}

/// The pool that a sub-request is expected to use: a write waits for the slowest copy of its chunk,
/// and for the pool that a new chunk would go to.
pub(crate) fn lane_for(
    group: &GroupState,
    chunk: ChunkId,
    range: &Range<u32>,
    verb: &Verb,
) -> Lane {
    let writes = !matches!(verb, Verb::Read);
    if !writes && let Some(pool) = lines_for(group, chunk, range) {
        return Lane::of(pool);
    }
    // A kept copy goes before the write.
    let kept = group.map.kept_copy(chunk);
    let copies = group.map.copies(chunk).map(|copy| copy.place);
    let copies = copies.filter(|&place| Some(place) != kept).map(|place| place.pool);
    let pool = match group.map.entry(chunk).first() {
        // Which side of a chunk in two parts it goes to is not known yet.
        Some(first) if !writes || group.map.overlay(chunk).is_some() => Some(first.pool),
        Some(_) => copies.max_by_key(|&pool| group.pools.ranks().rank_of(pool)),
        None if matches!(verb, Verb::Write(_)) => pool_for_chunk(group, 0, &[]),
        None => None,
    };
    pool.map_or(Lane::NONE, Lane::of)
}

/// The pool whose lines answer a read; `None`: the chunk does.
pub(crate) fn lines_for(group: &GroupState, chunk: ChunkId, range: &Range<u32>) -> Option<PoolId> {
    group.lines.answer(chunk, range).filter(|_| may_have_lines(group, chunk))
}

/// True if blocks of a chunk are worth a line: all its copies are slower.
pub(crate) fn may_have_lines(group: &GroupState, chunk: ChunkId) -> bool {
    let Some(lent) = group.lines.pool() else { return false };
    let ranks = group.pools.ranks();
    let mut copies = group.map.copies(chunk).map(|copy| copy.place.pool);
    group.map.overlay(chunk).is_none()
        && group.map.entry(chunk).first().is_some()
        && copies.all(|pool| ranks.compare_speed(lent, pool).is_lt())
}

/// True if what is read of these bytes may become lines.
pub(crate) fn may_keep(group: &GroupState, chunk: ChunkId, range: &Range<u32>) -> bool {
    may_have_lines(group, chunk) && are_few(range)
}

/// A free slot for a new chunk, on one of the pools of its `hint` if that can be, and on a far
/// pool only if nothing else can be: (place, whether it reads as zeroes).
pub(crate) fn allocate(
    group: &mut GroupState,
    unfit: u64,
    hint: &[PoolId],
) -> Option<(Place, bool)> {
    let id = pool_for_chunk(group, unfit, hint)?;
    group.lines.make_room(&mut group.pools, id);
    assert!(group.pools[id].slots.free() > 0, "a pool with room has a slot, or gets one");
    let (slot, clean) = group.pools[id].slots.take().expect("a slot is free");
    Some((Place { pool: id, slot }, clean))
}

/// The pool that has a free slot for a new chunk, as [`allocate`] chooses it.
pub(crate) fn pool_for_chunk(group: &GroupState, unfit: u64, hint: &[PoolId]) -> Option<PoolId> {
    let by_speed = group.pools.ranks().there();
    let room = |id: PoolId| room(group, unfit, id);
    group.settings.tactics.allocation.ask(|tactic| tactic.pool(hint, by_speed, &room))
}

/// The pool that a new chunk would get without a hint. Shadows of the tactic are not asked: nothing
/// follows from the answer.
pub(crate) fn pool_without_hint(group: &GroupState, unfit: u64) -> Option<PoolId> {
    let room = |id: PoolId| room(group, unfit, id);
    group.settings.tactics.allocation.tactic().pool(&[], group.pools.ranks().there(), &room)
}

/// Room of a pool for new chunks.
fn room(group: &GroupState, unfit: u64, id: PoolId) -> Room {
    let pool = &group.pools[id];
    let takes = pool.has_space() && unfit & bit(id) == 0;
    Room {
        free: if takes { pool.room() } else { 0 },
        beside_reserve: if takes { pool.free_beside_reserve() } else { 0 },
        far: pool.is_far(),
    }
}

#[cfg(test)]
mod tests;
