//! Colloid against hand-worked quanta, and in a loop with pools that slow down under load.

use super::Bracket;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to, touch};
use crate::placement::{PoolLoad, VolumeView};
use thermocline_units::{Nanos, PoolId};

fn load(reads: u64, latency_us: u64) -> PoolLoad {
    PoolLoad { reads, read_latency: Nanos(latency_us * 1000), ..PoolLoad::default() }
}

#[test]
fn bounds_close_in_and_open_again_when_the_load_changes() {
    let mut bracket = Bracket { low: 0.0, high: 1.0 };
    assert_eq!(bracket.learn(0.2, true, 0.01), 0.6);
    assert_eq!(bracket.learn(0.6, false, 0.01), 0.4);
    assert_eq!(bracket.learn(0.4, true, 0.01), 0.5);
    // Slower below the lower bound: the load has grown.
    assert_eq!(bracket.learn(0.3, false, 0.01), 0.15);
    // Too near to the upper bound: it is opened.
    assert_eq!(bracket.learn(0.295, true, 0.01), f64::midpoint(0.295, 1.0));
}

#[test]
fn a_faster_default_tier_takes_chunks_up_to_half_of_the_way() {
    let mut colloid = build("colloid");
    let mut view = Pools::new(&[9, 9], &[(0, 0), (1, 1), (2, 1), (3, 1), (4, 1)]);
    for (index, times) in [(0, 2), (1, 8), (2, 3), (3, 4), (4, 1)] {
        touch(colloid.as_mut(), chunk(index), times);
    }
    // p = 2/18; the middle between that and 1 is 8 accesses away: chunk 1, and nothing else fits.
    view.loads = vec![load(2, 100), load(16, 9000)];
    assert_eq!(propose_to(colloid.as_mut(), &view), [(1, 0)]);
}

#[test]
fn a_full_default_tier_exchanges_pairs_and_counts_their_difference() {
    let mut colloid = build("colloid");
    let mut view = Pools::new(&[2, 9], &[(0, 0), (1, 0), (2, 1), (3, 1)]);
    for (index, times) in [(0, 5), (1, 3), (2, 8), (3, 4)] {
        touch(colloid.as_mut(), chunk(index), times);
    }
    // p = 8/20; 6 accesses to the middle: chunk 2 for 1 gains 5; chunk 3 for 0 would gain nothing.
    view.loads = vec![load(8, 100), load(12, 9000)];
    assert_eq!(propose_to(colloid.as_mut(), &view), [(1, 1), (2, 0)]);
}

#[test]
fn a_slower_default_tier_gives_its_hottest_away_and_equal_ones_rest() {
    let at: Vec<_> = (0..4).map(|index| (index, 0)).collect();
    for (fast_us, expected) in [(500, vec![(2, 1)]), (205, vec![]), (195, vec![])] {
        let mut colloid = build("colloid");
        let mut view = Pools::new(&[9, 9], &at);
        for (index, times) in [(0, 1), (1, 2), (2, 4), (3, 1)] {
            touch(colloid.as_mut(), chunk(index), times);
        }
        view.loads = vec![load(8, fast_us), load(1, 200)];
        assert_eq!(propose_to(colloid.as_mut(), &view), expected, "{fast_us} µs against 200");
    }
}

#[test]
fn no_more_moves_than_the_limit_lets_through() {
    let mut colloid = build("colloid:limit=3MiB"); // an epoch of a second, chunks of 1 MiB
    let at: Vec<_> = (0..32).map(|index| (index, 1)).collect();
    let view = Pools::new(&[32, 32], &at);
    (0..32).for_each(|index| touch(colloid.as_mut(), chunk(index), 1));
    assert_eq!(propose_to(colloid.as_mut(), &view).len(), 3);
}

#[test]
fn latencies_that_grow_with_the_load_end_up_equal() {
    // Two pools, 1 / (rate − load): the fast one serves 150 requests a second, the slow one 100.
    let mut colloid = build("colloid:smoothing=1:delta=0.1");
    let mut view = Pools::new(&[200, 200], &(0..200).map(|index| (index, 0)).collect::<Vec<_>>());
    let mut latencies = Vec::new();
    for _ in 0..40 {
        (0..200).for_each(|index| touch(colloid.as_mut(), chunk(index), 1));
        let load = |pool: u16, rate: u64| {
            let here = view.used_chunks(PoolId(pool)).min(rate - 1);
            PoolLoad {
                reads: here,
                read_latency: Nanos(1_000_000_000 / (rate - here)),
                ..PoolLoad::default()
            }
        };
        view.loads = vec![load(0, 150), load(1, 100)];
        latencies = view.loads.iter().map(|load| load.read_latency.0).collect();
        view.at.extend(propose_to(colloid.as_mut(), &view));
    }
    let (fast, slow) = (latencies[0], latencies[1]);
    assert!(fast.abs_diff(slow) * 10 <= fast, "{fast} ns and {slow} ns");
    assert!((120..=130).contains(&view.used_chunks(PoolId(0))), "125 and 75 are equally slow");
}
