//! The group as placements see it: ranks for pools, rooms, and what a proposal would move.

use super::View;
use crate::epoch::slas::Slas;
use crate::group_state::GroupState;
use crate::group_state::tests::{FAR, FAST, SLOW, add_copy, chunk, group, mirror, put};
use crate::map::place::Role;
use crate::moves::Flow;
use crate::pools::pool::PoolState;
use thermocline_policy::placement::{Move, VolumeView};
use thermocline_units::Nanos;

/// The group in its fourth epoch.
fn view<'a>(group: &'a GroupState, slas: &'a Slas) -> View<'a> {
    View { group, slas, number: 4, length: Nanos(9) }
}

#[test]
fn room_is_what_chunks_may_have_beside_the_reserve_and_only_where_they_are_taken() {
    let (mut group, slas) = (group(), Slas::default());
    let slots = group.pools[FAST].slots_for_chunks();
    assert_eq!(view(&group, &slas).capacity_chunks(FAST), u64::from(slots - 2));
    put(&mut group, chunk(0), FAST);
    put(&mut group, chunk(1), SLOW);
    add_copy(&mut group, chunk(1), FAST, Role::Prefetched);
    assert_eq!(view(&group, &slas).used_chunks(FAST), 1, "prefetched copies give up their room");
    group.pools[FAST].state = PoolState::Draining;
    assert_eq!(view(&group, &slas).capacity_chunks(FAST), 0);
}

#[test]
fn a_chunk_that_holds_nothing_counts_as_on_the_slowest_pool() {
    let (mut group, slas) = (group(), Slas::default());
    put(&mut group, chunk(0), FAST);
    let view = view(&group, &slas);
    assert_eq!([0, 1, 999].map(|index| view.pool_of(chunk(index))), [FAST, FAR, FAR]);
    let mut on_fast = Vec::new();
    view.visit_pool(FAST, &mut |chunk| on_fast.push(chunk));
    assert_eq!(on_fast, [chunk(0)]);
}

#[test]
fn only_copies_that_are_wanted_make_a_chunk_replicated_and_kept_ones_are_shown() {
    let (mut group, slas) = (group(), Slas::default());
    (0..3).for_each(|index| _ = put(&mut group, chunk(index), SLOW));
    add_copy(&mut group, chunk(0), FAST, Role::Wanted);
    add_copy(&mut group, chunk(1), FAST, Role::Kept);
    mirror(&mut group, chunk(2), FAST, 0..1);
    let view = view(&group, &slas);
    assert_eq!([0, 1, 2].map(|index| view.is_replicated(chunk(index))), [true, false, false]);
    let mut mirrors = Vec::new();
    view.visit_mirrors(&mut |chunk, side| mirrors.push((chunk, side)));
    assert_eq!(mirrors, [(chunk(2), FAST)]);
    let mut kept = Vec::new();
    view.visit_kept(&mut |chunk, pool| kept.push((chunk, pool)));
    assert_eq!(kept, [(chunk(1), FAST)]);
}

#[test]
fn flows_sum_up_chunks_and_their_requests_in_the_epoch_that_ended() {
    let (mut group, slas) = (group(), Slas::default());
    (0..3).for_each(|index| _ = put(&mut group, chunk(index), SLOW));
    for (index, epoch) in [(0, 3), (0, 3), (1, 3), (1, 4), (2, 3)] {
        group.map.count_access(chunk(index), epoch, false);
    }
    let view = view(&group, &slas);
    assert_eq!(view.flows_of(&[]), None);
    let moves = [Move::to(chunk(0), FAST), Move::to(chunk(1), FAST), Move::to(chunk(2), SLOW)];
    let flows = view.flows_of(&moves).expect("something moves").flows;
    let flow = Flow { chunks: 2, requests: 2 };
    assert_eq!(flows.into_iter().collect::<Vec<_>>(), [((SLOW, FAST), flow)]);
}
