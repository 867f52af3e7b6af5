//! Pools for new chunks, sides of mirrored ones, the soonest of several copies.

use super::{Fill, Room, Split, pool_for_chunk, soonest};
use crate::placement::Route;
use thermocline_units::PoolId;

const POOLS: [PoolId; 3] = [PoolId(0), PoolId(1), PoolId(2)];

fn taken(fill: Fill, hinted: &[PoolId], rooms: [Room; 3]) -> Option<u16> {
    pool_for_chunk(fill, hinted, &POOLS, |pool| rooms[usize::from(pool.0)]).map(|pool| pool.0)
}

#[test]
fn chunks_go_by_hint_then_by_speed_and_far_pools_come_last() {
    let room = Room { free: 4, beside_reserve: 2, far: false };
    let full = Room { free: 0, beside_reserve: 0, ..room };
    let far = Room { far: true, ..room };
    assert_eq!(taken(Fill::FastestFirst, &[], [room; 3]), Some(0));
    assert_eq!(taken(Fill::SlowestFirst, &[], [room; 3]), Some(2));
    assert_eq!(taken(Fill::SlowestFirst, &[PoolId(1)], [room; 3]), Some(1), "hints come first");
    assert_eq!(taken(Fill::SlowestFirst, &[], [full, room, far]), Some(1), "near before far");
    assert_eq!(taken(Fill::FastestFirst, &[PoolId(0)], [full, room, room]), Some(1));
    assert_eq!(taken(Fill::FastestFirst, &[], [full; 3]), None);
}

#[test]
fn what_is_kept_for_moves_is_given_when_nothing_else_is_left() {
    let kept = Room { free: 1, beside_reserve: 0, far: false };
    let far = Room { free: 1, beside_reserve: 1, far: true };
    assert_eq!(taken(Fill::FastestFirst, &[], [kept, kept, far]), Some(2), "even a far one");
    assert_eq!(taken(Fill::FastestFirst, &[], [kept; 3]), Some(0));
}

#[test]
fn shares_are_spread_evenly_and_nobody_says_without_a_router() {
    assert_eq!(Split::default().goes_to_slower(false), None);
    let mut split = Split::by(Some(Route { reads: 250_000, writes: 0 }));
    let slow: Vec<bool> = (0..8).map(|_| split.goes_to_slower(false).unwrap()).collect();
    assert_eq!(slow, [false, false, false, true, false, false, false, true]);
    assert!(
        (0..8).all(|_| split.goes_to_slower(true) == Some(false)),
        "writes have a share of their own"
    );
}

#[test]
fn of_equal_waits_the_first_is_taken() {
    assert_eq!(soonest([3, 1, 2].into_iter(), |_| 0.5), Some(3));
    assert_eq!(soonest([3, 1, 2].into_iter(), |&n| f64::from(n)), Some(1));
}
