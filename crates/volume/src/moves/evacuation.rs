//! Chunks that leave pools which are being drained, and their ways out.

use crate::group_state::GroupState;
use crate::moves::Moves;
use crate::moves::operation::{Operation, OperationKind};
use crate::pools::pool::{Evacuation, Pool, PoolState};
use thermocline_units::{ChunkId, PoolId};

/// True if a pool is being drained.
pub(crate) fn is_under_way(group: &GroupState) -> bool {
    group.pools.iter().any(is_draining)
}

fn is_draining(pool: &Pool) -> bool {
    pool.state == PoolState::Draining
}

/// The next `most` chunks behind `last` that leave, each with the draining pool that it is on; none
/// that has an operation. After the last chunk of all comes the first one: those that cannot leave
/// keep no others waiting.
pub(crate) fn next_to_leave(
    group: &GroupState,
    moves: &Moves,
    last: Option<ChunkId>,
    most: usize,
) -> Vec<(ChunkId, PoolId)> {
    let next = |last: ChunkId| ChunkId { index: last.index.saturating_add(1), ..last };
    let behind = group.map.chunks_from(last.map_or(ChunkId::default(), next));
    let before = group.map.chunks().take_while(|chunk| last.is_some_and(|last| *chunk <= last));
    let free = behind.chain(before).filter(|chunk| !moves.chunks.contains_key(chunk));
    let leaving = free.filter_map(|chunk| Some((chunk, leaves(group, chunk)?)));
    leaving.take(most).collect()
}

/// The draining pool that a chunk is on; `None`: it may stay.
fn leaves(group: &GroupState, chunk: ChunkId) -> Option<PoolId> {
    let copies = group.map.copies(chunk).map(|copy| copy.place);
    let above = group.map.overlay(chunk).map(|overlay| overlay.place);
    let mut pools = copies.chain(above).map(|place| place.pool);
    pools.find(|pool| is_draining(&group.pools[*pool]))
}

/// Number of chunks that may begin to leave beside those of a draining pool that have an operation
/// already: as many in all as are copied at once, whatever others are doing.
pub(crate) fn may_begin(group: &GroupState, moves: &Moves) -> usize {
    let on_it = |chunk: &&ChunkId| group.map.has(**chunk) && leaves(group, **chunk).is_some();
    let own = moves.chunks.keys().filter(on_it).count();
    (group.settings.copying.concurrent as usize).saturating_sub(own)
}

/// Moves that take a chunk off `from`, the best first. What lies over a copy elsewhere may have to
/// be brought together on `from` before it can leave.
pub(crate) fn ways_out(group: &GroupState, chunk: ChunkId, from: PoolId) -> Vec<Operation> {
    let others = group.pools.ranks().by_likeness(from).into_iter();
    let others = others.filter(|&to| to != from && may_go(group, from, to));
    let to = others.chain([from]);
    to.map(|to| Operation { kind: OperationKind::Migrate, chunk, to }).collect()
}

/// True if a drain of `from` may send chunks to `to`.
fn may_go(group: &GroupState, from: PoolId, to: PoolId) -> bool {
    let (from, to) = (&group.pools[from], &group.pools[to]);
    !to.geometry.far || from.geometry.far || from.evacuation == Evacuation::Anywhere
}

/// Pools that nothing is on any more are drained.
pub(crate) fn end_drains(group: &mut GroupState) {
    for pool in group.pools.iter_mut() {
        if is_draining(pool) && pool.slots_used() == 0 && pool.lent == 0 {
            assert_eq!(pool.prefetched, 0, "prefetched copies are on slots");
            pool.state = PoolState::Drained;
            group.journal.want_checkpoint();
        }
    }
}

#[cfg(test)]
mod tests;
