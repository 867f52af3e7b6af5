//! The fast loop and the slow one, on a machine of two pools.

use crate::placement::mirrors::SECOND;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose, touch};
use crate::placement::{FLASH, Move, Placement, PoolLoad, Route};
use thermocline_units::Nanos;

fn load(reads: u64, micros: u64) -> PoolLoad {
    PoolLoad { reads, read_latency: Nanos::from_micros(micros), ..PoolLoad::default() }
}

/// Asks the router `times` with the same loads; the last route.
fn route(placement: &mut dyn Placement, loads: &[PoolLoad], times: u32) -> Route {
    let router = placement.router().expect("it routes");
    (0..times).map(|_| router.route(loads)).last().expect("asked at least once")
}

/// Four chunks on a fast pool of 4, room for 8 on the second.
fn full() -> Pools {
    Pools::new(&[4, 8], &[(0, 0), (1, 0), (2, 0), (3, 0)])
}

const OVERLOADED: [(u64, u64); 2] = [(10_000, 5_000), (10, 100)];
const IDLE: [(u64, u64); 2] = [(10, 60), (10, 100)];

fn loads(of: [(u64, u64); 2]) -> [PoolLoad; 2] {
    of.map(|(reads, micros)| load(reads, micros))
}

#[test]
fn requests_go_to_the_slower_side_step_by_step_while_the_fast_pool_is_the_slower_one() {
    let (mut most, pools) = (build("most"), full());
    propose(most.as_mut(), &pools);
    let shares: Vec<u32> =
        (0..3).map(|_| route(most.as_mut(), &loads(OVERLOADED), 1).reads).collect();
    assert_eq!(shares, [20_000, 40_000, 60_000]);
    assert_eq!(route(most.as_mut(), &loads(OVERLOADED), 100).reads, 1_000_000);
    // The smoothed latency comes down first, then the share.
    assert_eq!(route(most.as_mut(), &loads(IDLE), 200), Route::default());
}

#[test]
fn only_when_all_is_diverted_more_is_mirrored_and_the_hottest_first() {
    let (mut most, mut pools) = (build("most:mirrors=0.2"), full());
    for (index, times) in [(0, 1), (1, 9), (2, 5), (3, 0)] {
        touch(most.as_mut(), chunk(index), times);
    }
    propose(most.as_mut(), &pools);
    route(most.as_mut(), &loads(OVERLOADED), 10);
    assert_eq!(propose(most.as_mut(), &pools), [], "mirrors that there are could take more");
    route(most.as_mut(), &loads(OVERLOADED), 60);
    let moves = propose(most.as_mut(), &pools);
    // A fifth of twelve slots.
    assert_eq!(moves, [Move::mirror(chunk(1), SECOND), Move::mirror(chunk(2), SECOND)]);
    pools.carry_out(&moves);
    touch(most.as_mut(), chunk(0), 50);
    let moves = propose(most.as_mut(), &pools);
    assert_eq!(moves, [Move::to(chunk(2), FLASH), Move::mirror(chunk(0), SECOND)]);
    pools.carry_out(&moves);
}

#[test]
fn an_idle_fast_pool_gets_the_hottest_from_below_but_no_mirrored_chunk_leaves_it() {
    let (mut most, mut pools) = (build("most"), full());
    pools.at.insert(9, 1);
    pools.mirrors.insert(3, 1);
    for (index, times) in [(0, 2), (1, 2), (2, 1), (9, 7)] {
        touch(most.as_mut(), chunk(index), times);
    }
    let moves = propose(most.as_mut(), &pools);
    // Chunk 3 is the coldest, but mirrored.
    assert_eq!(moves, [Move::to(chunk(2), SECOND), Move::to(chunk(9), FLASH)]);
    pools.carry_out(&moves);
}

#[test]
fn the_coldest_mirrors_go_when_the_second_pool_runs_short() {
    let (mut most, mut pools) = (build("most:reserve=0.25"), full());
    (10..16).for_each(|index| _ = pools.at.insert(index, 1));
    pools.mirrors.extend([(0, 1), (1, 1)]);
    touch(most.as_mut(), chunk(0), 3);
    touch(most.as_mut(), chunk(1), 1);
    let moves = propose(most.as_mut(), &pools);
    assert_eq!(moves, [Move::to(chunk(1), FLASH), Move::to(chunk(0), FLASH)]);
    pools.carry_out(&moves);
}

#[test]
fn marginal_costs_divert_before_latencies_are_equal() {
    // The fast pool at 95 % of its 366,000 requests a second is still faster than the other.
    let busy = [load(34_770, 150), load(500, 300)];
    for (settings, diverted) in [("most", false), ("most:balance=marginal", true)] {
        let (mut most, mut pools) = (build(settings), full());
        pools.traits[1] = pools.traits[0];
        propose(most.as_mut(), &pools);
        assert_eq!(route(most.as_mut(), &busy, 30).reads > 0, diverted, "{settings}");
    }
}
