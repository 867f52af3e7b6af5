//! Choices of places: a copy to read, a queue to wait in, a pool for a new chunk.

use super::{allocate, best_copy, lane_for, may_have_lines, pool_for_chunk};
use crate::group_state::GroupState;
use crate::group_state::tests::{
    FAR, FAST, SLOW, add_copy, chunk, fill, group, group_with, mirror, put, settings,
};
use crate::io::busy_chunk::tests::write;
use crate::io::busy_chunk::{Verb, bit};
use crate::map::place::Role;
use crate::settings::Settings;
use crate::tests::tactics;
use thermocline_units::{Nanos, PoolId};

const ALL: std::ops::Range<u32> = 0..4096;

fn lane(group: &GroupState, verb: &Verb) -> Option<PoolId> {
    lane_for(group, chunk(0), &ALL, verb).pool()
}

/// A group whose new chunks go to the fastest pool, and whose reads go to the fastest copy.
fn by_speed() -> GroupState {
    let tactics = tactics(&["fastest-first", "fastest-copy"]);
    group_with(Settings { tactics, ..settings() })
}

#[test]
fn a_read_uses_a_copy_that_has_not_failed_on_a_pool_that_lives() {
    let mut group = by_speed();
    let slow = put(&mut group, chunk(0), SLOW);
    let fast = add_copy(&mut group, chunk(0), FAST, Role::Wanted);
    let best = |group: &GroupState, failed: &[_]| {
        best_copy(group, chunk(0), &ALL, |place| failed.contains(&place))
    };
    assert_eq!(best(&group, &[]), Some(fast));
    assert_eq!(best(&group, &[fast]), Some(slow));
    group.pools.bury(SLOW);
    assert_eq!((best(&group, &[]), best(&group, &[fast])), (Some(fast), None));
}

#[test]
fn a_read_uses_the_copy_that_answers_soonest() {
    let mut group = group();
    let slow = put(&mut group, chunk(0), SLOW);
    add_copy(&mut group, chunk(0), FAST, Role::Wanted);
    group.pools[FAST].note_latency(Nanos(0), false, Nanos(90_000_000), 1);
    group.pools[SLOW].note_latency(Nanos(0), false, Nanos(8_000_000), 1);
    assert_eq!(best_copy(&group, chunk(0), &ALL, |_| false), Some(slow));
}

#[test]
fn a_write_waits_for_the_slowest_copy_that_it_writes_and_a_read_for_the_first() {
    let mut group = by_speed();
    assert_eq!(lane(&group, &Verb::Read), None, "zeroes come from nowhere");
    assert_eq!(lane(&group, &Verb::Zero), None);
    assert_eq!(lane(&group, &write(&ALL)), Some(FAST), "a new chunk goes there");
    put(&mut group, chunk(0), FAST);
    add_copy(&mut group, chunk(0), FAR, Role::Kept);
    assert_eq!(lane(&group, &write(&ALL)), Some(FAST), "the kept copy goes before the write");
    add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
    assert_eq!(lane(&group, &write(&ALL)), Some(SLOW));
    assert_eq!(lane(&group, &Verb::Read), Some(FAST));
}

#[test]
fn new_chunks_go_where_a_hint_says_then_by_speed_and_across_a_network_last() {
    let mut group = by_speed();
    assert_eq!(pool_for_chunk(&group, 0, &[]), Some(FAST));
    assert_eq!(pool_for_chunk(&group, 0, &[SLOW]), Some(SLOW));
    assert_eq!(pool_for_chunk(&group, 0, &[FAR]), Some(FAST), "a far pool comes last");
    fill(&mut group, SLOW);
    assert_eq!(pool_for_chunk(&group, 0, &[SLOW]), Some(FAST));
}

#[test]
fn what_is_reserved_for_prefetched_copies_goes_when_nothing_else_is_left() {
    let mut group = by_speed();
    while group.pools[FAST].slots.free() > 2 {
        group.pools[FAST].slots.take();
    }
    assert_eq!(pool_for_chunk(&group, 0, &[]), Some(SLOW));
    fill(&mut group, SLOW);
    assert_eq!(pool_for_chunk(&group, 0, &[]), Some(FAR));
    fill(&mut group, FAR);
    assert!(allocate(&mut group, 0, &[]).is_some_and(|(place, clean)| place.pool == FAST && clean));
    assert!(allocate(&mut group, 0, &[]).is_some() && allocate(&mut group, 0, &[]).is_none());
}

#[test]
fn a_pool_that_is_full_drained_or_failed_the_chunk_gets_no_new_one() {
    let mut group = by_speed();
    assert_eq!(pool_for_chunk(&group, bit(FAST), &[FAST]), Some(SLOW));
    group.pools[FAST].probe = Some((Nanos(5), 0));
    assert_eq!(pool_for_chunk(&group, 0, &[FAST]), Some(SLOW));
    group.pools[SLOW].state = crate::PoolState::Draining;
    assert_eq!(pool_for_chunk(&group, 0, &[]), Some(FAR));
    assert_eq!(pool_for_chunk(&group, bit(FAR), &[]), None);
    assert_eq!(lane(&group, &write(&ALL)), Some(FAR));
}

#[test]
fn only_chunks_that_are_slower_everywhere_and_in_one_part_have_lines() {
    let mut group = group();
    put(&mut group, chunk(0), SLOW);
    assert!(!may_have_lines(&group, chunk(0)), "no slot is lent");
    group.lines.want(1, false);
    assert!(group.lines.lend(&mut group.pools, FAST));
    assert!(may_have_lines(&group, chunk(0)) && !may_have_lines(&group, chunk(1)));
    put(&mut group, chunk(2), SLOW);
    add_copy(&mut group, chunk(2), FAST, Role::Wanted);
    put(&mut group, chunk(3), SLOW);
    mirror(&mut group, chunk(3), FAR, 0..0);
    assert!(!may_have_lines(&group, chunk(2)) && !may_have_lines(&group, chunk(3)));
}
