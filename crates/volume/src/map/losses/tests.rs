//! Chunks that lose something with a pool, and those that are whole without it.

use super::{has_lost_part, is_needed};
use crate::group_state::GroupState;
use crate::group_state::tests::{FAST, SLOW, add_copy, chunk, group, mirror, put, take_slot};
use crate::map::overlay::Blocks;
use crate::map::place::Role;
use std::collections::BTreeSet;
use thermocline_units::PoolId;

/// True if the first chunk has lost something with this pool, which dies.
fn loses(group: &mut GroupState, pool: PoolId) -> bool {
    group.pools.bury(pool);
    has_lost_part(group, chunk(0), &BTreeSet::from([pool]))
}

#[test]
fn a_chunk_is_lost_with_the_pool_of_its_last_copy() {
    let mut group = group();
    put(&mut group, chunk(0), SLOW);
    add_copy(&mut group, chunk(0), FAST, Role::Wanted);
    assert!(!is_needed(&group, SLOW) && !loses(&mut group, SLOW));
    assert!(is_needed(&group, FAST) && loses(&mut group, FAST));
}

#[test]
fn what_died_before_was_told_before() {
    let mut group = group();
    put(&mut group, chunk(0), SLOW);
    assert!(loses(&mut group, SLOW));
    assert!(!has_lost_part(&group, chunk(0), &BTreeSet::new()));
    assert!(!has_lost_part(&group, chunk(0), &BTreeSet::from([FAST])), "nothing was there");
    assert!(!has_lost_part(&group, chunk(1), &BTreeSet::from([SLOW])), "it holds nothing");
}

#[test]
fn a_mirrored_chunk_needs_a_side_as_long_as_that_alone_has_a_block() {
    let sides = |blocks| {
        let mut group = group();
        put(&mut group, chunk(0), SLOW);
        mirror(&mut group, chunk(0), FAST, blocks);
        [FAST, SLOW].map(|pool| is_needed(&group, pool))
    };
    assert_eq!(sides(0..15), [false, true]);
    assert_eq!(sides(0..16), [false, false]);
}

#[test]
fn a_redirected_chunk_is_whole_on_neither_side() {
    let mut group = group();
    put(&mut group, chunk(0), SLOW);
    let above = take_slot(&mut group, FAST);
    group.map.add_overlay(chunk(0), above, Blocks::redirected(64 << 10));
    group.map.blocks_written(chunk(0), &[(0..4096, above)], 64 << 10);
    assert!(is_needed(&group, FAST) && is_needed(&group, SLOW) && loses(&mut group, FAST));
}
