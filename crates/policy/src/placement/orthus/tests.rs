//! The cache and its tuning, on a machine of two pools.

use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose, touch};
use crate::placement::{FLASH, Move, Placement, PoolLoad};
use thermocline_units::{Nanos, PoolId};

const BELOW: PoolId = PoolId(1);

/// Loads of both pools when the cache serves `hits` of 1,000 requests: each is slower by the square
/// of its load, the cache from less on.
fn loads(hits: u64) -> [PoolLoad; 2] {
    let load = |reads: u64, alone: f64, most: f64| {
        let busy = reads as f64 / most;
        let latency = Nanos((alone * (1.0 + 9.0 * busy * busy) * 1e3) as u64);
        PoolLoad { reads, read_latency: latency, ..PoolLoad::default() }
    };
    [load(hits, 50.0, 800.0), load(1_000 - hits, 100.0, 800.0)]
}

/// A cache of 2 with what is hottest in it, over 8 chunks below.
fn cached() -> (Box<dyn Placement>, Pools) {
    let mut orthus = build("orthus");
    let mut pools = Pools::new(&[2, 9], &[]);
    pools.at.extend((0..8).map(|index| (index, BELOW.0)));
    touch(orthus.as_mut(), chunk(3), 5);
    touch(orthus.as_mut(), chunk(5), 4);
    touch(orthus.as_mut(), chunk(6), 1);
    let moves = propose(orthus.as_mut(), &pools);
    assert_eq!(moves, [Move::mirror(chunk(3), FLASH), Move::mirror(chunk(5), FLASH)]);
    pools.carry_out(&moves);
    assert_eq!(propose(orthus.as_mut(), &pools), []);
    (orthus, pools)
}

#[test]
fn hotter_chunks_take_the_place_of_colder_ones_which_stay_at_home() {
    let (mut orthus, mut pools) = cached();
    touch(orthus.as_mut(), chunk(7), 20);
    let moves = propose(orthus.as_mut(), &pools);
    assert_eq!(moves, [Move::to(chunk(5), BELOW), Move::mirror(chunk(7), FLASH)]);
    pools.carry_out(&moves);
    assert_eq!(pools.at[&5], BELOW.0);
}

#[test]
fn reads_are_diverted_until_more_would_cost_more_and_nothing_is_admitted_meanwhile() {
    let (mut orthus, pools) = cached();
    let mut share = 0;
    let mut shares = Vec::new();
    for _ in 0..120 {
        touch(orthus.as_mut(), chunk(3), 100);
        let hits = 1_000 - u64::from(share) / 1_000;
        let route = orthus.router().expect("it routes").route(&loads(hits));
        assert_eq!(route.writes, 0, "writes go to the cache");
        share = route.reads;
        shares.push(share);
    }
    // Mean latency over the share d below: least where the marginal ones are equal, near 0.46.
    let settled = &shares[100..];
    assert!(settled.iter().all(|share| (380_000..540_000).contains(share)), "{settled:?}");
    touch(orthus.as_mut(), chunk(7), 500);
    assert_eq!(propose(orthus.as_mut(), &pools), []);
}

#[test]
fn a_high_miss_ratio_is_not_tuned_with_and_a_rising_one_ends_tuning() {
    let (mut orthus, pools) = cached();
    for _ in 0..10 {
        touch(orthus.as_mut(), chunk(0), 100);
        let route = orthus.router().expect("it routes").route(&loads(0));
        assert_eq!(route.reads, 0, "all is missed");
    }
    for _ in 0..10 {
        touch(orthus.as_mut(), chunk(3), 100);
        orthus.router().expect("it routes").route(&loads(1_000));
    }
    touch(orthus.as_mut(), chunk(0), 100);
    orthus.router().expect("it routes").route(&loads(0));
    assert_ne!(propose(orthus.as_mut(), &pools), [], "it admits again");
}
