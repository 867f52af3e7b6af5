//! Pools that are drained: which chunks leave, where they may go, and when it is over.

use super::{end_drains, is_under_way, may_begin, next_to_leave, ways_out};
use crate::group_state::GroupState;
use crate::group_state::tests::{CHUNKS, FAR, FAST, SLOW, chunk, group, mirror, put, take_slot};
use crate::map::ChunkState;
use crate::moves::Moves;
use crate::moves::operation::{Operation, OperationKind};
use crate::pools::pool::{Evacuation, PoolState};
use thermocline_units::{ChunkId, PoolId};

fn draining(pool: PoolId) -> GroupState {
    let mut group = group();
    assert!(!is_under_way(&group));
    group.pools[pool].state = PoolState::Draining;
    group
}

fn destinations(group: &GroupState, from: PoolId) -> Vec<PoolId> {
    ways_out(group, chunk(0), from).iter().map(|way| way.to).collect()
}

#[test]
fn a_chunk_leaves_with_any_of_its_parts_unless_it_has_an_operation() {
    let mut group = draining(FAST);
    for (index, pool) in [(0, FAST), (1, SLOW), (2, SLOW), (3, FAST)] {
        put(&mut group, chunk(index), pool);
    }
    mirror(&mut group, chunk(2), FAST, 0..1);
    let mut moves = Moves::default();
    let away = Operation { kind: OperationKind::Migrate, chunk: chunk(3), to: SLOW };
    moves.enqueue(&group, away).expect("nothing speaks against it");
    let leaving = next_to_leave(&group, &moves, None, 9);
    assert_eq!(leaving, [(chunk(0), FAST), (chunk(2), FAST)]);
    assert!(is_under_way(&group));
}

#[test]
fn no_more_chunks_leave_at_once_than_are_copied_at_once() {
    let mut group = draining(FAST);
    (0..CHUNKS).for_each(|index| _ = put(&mut group, chunk(index), FAST));
    group.settings.copying.concurrent = 3;
    let mut moves = Moves::default();
    assert_eq!(may_begin(&group, &moves), 3);
    let away = Operation { kind: OperationKind::Migrate, chunk: chunk(3), to: SLOW };
    moves.enqueue(&group, away).expect("nothing speaks against it");
    assert_eq!(may_begin(&group, &moves), 2);
}

/// The first chunks of a failing disk could not be read, were tried again and again, and no other
/// chunk left the disk.
#[test]
fn chunks_that_cannot_leave_keep_no_others_waiting() {
    let mut group = draining(FAST);
    (0..CHUNKS).for_each(|index| _ = put(&mut group, chunk(index), FAST));
    let (mut met, mut last) = (Vec::new(), None);
    for _ in 0..CHUNKS {
        let two = next_to_leave(&group, &Moves::default(), last, 2);
        last = two.last().map(|(chunk, _)| *chunk);
        met.extend(two.into_iter().map(|(chunk, _)| chunk.index));
    }
    let expected: Vec<u32> = (0..CHUNKS).cycle().take(2 * CHUNKS as usize).collect();
    assert_eq!(met, expected);
    let beyond = ChunkId { index: CHUNKS + 7, ..chunk(0) };
    assert_eq!(next_to_leave(&group, &Moves::default(), Some(beyond), 1), [(chunk(0), FAST)]);
}

#[test]
fn chunks_that_are_here_stay_here_unless_they_may_go_anywhere() {
    let mut group = draining(FAST);
    put(&mut group, chunk(0), FAST);
    assert_eq!(destinations(&group, FAST), [SLOW, FAST], "in its own place, if nothing else");
    group.pools[FAST].evacuation = Evacuation::Anywhere;
    assert_eq!(destinations(&group, FAST), [SLOW, FAR, FAST]);
    assert_eq!(destinations(&group, FAR).len(), 3, "what is far may go to what is far");
}

#[test]
fn a_pool_is_drained_when_nothing_is_on_it_any_more() {
    let mut group = draining(FAST);
    let place = put(&mut group, chunk(0), FAST);
    end_drains(&mut group);
    assert_eq!(group.pools[FAST].state, PoolState::Draining);
    group.map.set_state(chunk(0), &ChunkState::default());
    end_drains(&mut group);
    assert_eq!(group.pools[FAST].state, PoolState::Draining, "its slot is not free yet");
    group.pools[FAST].slots.give_back(place.slot, false);
    let other = take_slot(&mut group, SLOW);
    end_drains(&mut group);
    assert_eq!((group.pools[FAST].state, other.pool), (PoolState::Drained, SLOW));
    assert!(!group.journal.is_current(), "a superblock is to say so");
    assert_eq!(group.pools[SLOW].state, PoolState::Active);
}
