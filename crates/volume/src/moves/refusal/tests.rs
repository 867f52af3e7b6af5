//! Operations that make no sense, each for its reason, and their like that do.

use super::refuse;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::group_state::tests::{
    FAR, FAST, SLOW, add_copy, chunk, fill, group, mirror, put, take_slot,
};
use crate::map::place::Role;
use crate::moves::Moves;
use crate::moves::operation::{Operation, OperationKind, Refusal};
use crate::pools::pool::PoolState;
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

use OperationKind::{Migrate, Mirror, Prefetch, Redirect, Replicate};

/// A group whose first chunk is on the slow pool.
fn at_home() -> GroupState {
    let mut group = group();
    put(&mut group, chunk(0), SLOW);
    group
}

/// Reason why an operation on the first chunk is refused, if it is.
fn reason(group: &GroupState, kind: OperationKind, to: PoolId) -> Option<Refusal> {
    refuse(&Moves::default(), group, &Operation { kind, chunk: chunk(0), to }).err()
}

#[test]
fn a_chunk_that_holds_nothing_is_not_operated_on() {
    let mut group = at_home();
    let no_volume = ChunkId { volume: VolumeId(4), index: 0 };
    for chunk in [chunk(1), chunk(99), no_volume] {
        let operation = Operation { kind: Migrate, chunk, to: FAST };
        assert_eq!(refuse(&Moves::default(), &group, &operation), Err(Refusal::Unmapped));
    }
    assert_eq!(reason(&group, Migrate, FAST), None);
    group.map.begin_deletion(VolumeId(0));
    assert_eq!(reason(&group, Migrate, FAST), Some(Refusal::Unmapped));
    group.service = Service::Closing;
    assert_eq!(reason(&group, Migrate, FAST), Some(Refusal::NotReady));
}

#[test]
fn a_pool_that_takes_no_chunks_gets_none() {
    let mut group = at_home();
    assert_eq!(reason(&group, Migrate, PoolId(9)), Some(Refusal::NoPool));
    assert_eq!(reason(&group, Migrate, SLOW), Some(Refusal::AlreadyThere));
    for state in [PoolState::Draining, PoolState::Dead, PoolState::Joining] {
        group.pools[FAST].state = state;
        assert_eq!(reason(&group, Replicate, FAST), Some(Refusal::NoPool), "{state:?}");
    }
}

#[test]
fn the_reserve_is_for_prefetched_copies_and_they_have_no_more() {
    let mut group = at_home();
    assert_eq!(reason(&group, Prefetch, FAST), None);
    let first = take_slot(&mut group, FAST);
    while group.pools[FAST].slots.free() > 2 {
        group.pools[FAST].slots.take();
    }
    for kind in [Migrate, Replicate, Redirect, Mirror] {
        assert_eq!(reason(&group, kind, FAST), Some(Refusal::NoRoom), "{kind:?}");
    }
    assert_eq!(reason(&group, Prefetch, FAST), None);
    put(&mut group, chunk(1), SLOW);
    put(&mut group, chunk(2), SLOW);
    add_copy(&mut group, chunk(1), FAST, Role::Prefetched);
    add_copy(&mut group, chunk(2), FAST, Role::Prefetched);
    group.pools[FAST].slots.give_back(first.slot, false);
    assert_eq!(reason(&group, Migrate, FAST), None, "the reserve is used");
    assert_eq!(reason(&group, Prefetch, FAST), Some(Refusal::NoRoom));
}

#[test]
fn a_device_without_room_gets_no_copy() {
    let mut group = at_home();
    group.pools[FAST].probe = Some((Nanos(9), 0));
    assert_eq!(reason(&group, Migrate, FAST), Some(Refusal::NoRoom));
    group.pools[FAST].probe = None;
    assert_eq!(reason(&group, Migrate, FAST), None);
}

#[test]
fn blocks_are_not_written_one_by_one_across_a_network() {
    let mut group = at_home();
    for kind in [Redirect, Mirror] {
        assert_eq!(reason(&group, kind, FAR), Some(Refusal::Far), "{kind:?}");
    }
    assert_eq!([Migrate, Replicate].map(|kind| reason(&group, kind, FAR)), [None; 2]);
    put(&mut group, chunk(0), FAR);
    assert_eq!(reason(&group, Mirror, FAST), Some(Refusal::Far));
    assert_eq!(reason(&group, Redirect, FAST), None, "a chunk may come back so");
}

#[test]
fn a_chunk_in_two_parts_is_brought_together_where_one_of_them_is() {
    let mut group = at_home();
    mirror(&mut group, chunk(0), FAST, 0..4);
    assert_eq!(reason(&group, Migrate, FAR), Some(Refusal::InTwoParts));
    assert_eq!(reason(&group, Replicate, FAST), Some(Refusal::InTwoParts));
    assert_eq!([SLOW, FAST].map(|to| reason(&group, Migrate, to)), [None; 2]);
    fill(&mut group, FAST);
    group.pools[FAST].state = PoolState::Draining;
    assert_eq!(reason(&group, Mirror, FAST), None, "it needs no slot");
    group.map.blocks_copied(chunk(0), &(0..64 << 10));
    assert_eq!(reason(&group, Mirror, FAST), Some(Refusal::AlreadyThere));
}

#[test]
fn a_chunk_in_several_copies_is_not_written_by_blocks() {
    let mut group = at_home();
    add_copy(&mut group, chunk(0), FAR, Role::Wanted);
    for kind in [Redirect, Mirror] {
        assert_eq!(reason(&group, kind, FAST), Some(Refusal::TooManyCopies), "{kind:?}");
    }
    assert_eq!(reason(&group, Replicate, FAST), None);
}

#[test]
fn the_way_back_to_a_kept_copy_needs_no_slot() {
    let mut group = group();
    put(&mut group, chunk(0), FAST);
    add_copy(&mut group, chunk(0), SLOW, Role::Kept);
    fill(&mut group, SLOW);
    assert_eq!(reason(&group, Migrate, SLOW), None);
    assert_eq!(reason(&group, Redirect, SLOW), Some(Refusal::NoRoom), "it would go before");
}
