//! Traits and loads survive a recording, and nothing is assumed that contradicts the order of
//! pools.

use super::{Pattern, PoolLoad, PoolTraits};
use thermocline_units::{Bytes, Nanos, PoolId};

#[test]
fn what_is_written_down_as_figures_comes_back() {
    let assumed = PoolTraits::assumed(PoolId(1), 3);
    let known =
        PoolTraits { price_per_gib: Some(0), milliwatts: Some(7), overwrites: None, ..assumed };
    let load = PoolLoad {
        reads: 1,
        writes: 2,
        read_bytes: Bytes(3),
        written_bytes: Bytes(4),
        read_latency: Nanos(5),
        write_latency: Nanos(6),
    };
    for traits in [assumed, known] {
        let mut figures: Vec<u64> = load.figures().into_iter().chain(traits.figures()).collect();
        figures.push(99); // A later program may say more.
        let (found, rest) = PoolLoad::from_figures(&figures).unwrap();
        assert_eq!((found, PoolTraits::from_figures(rest)), (load, Some(traits)));
        assert_eq!(PoolTraits::from_figures(&rest[..10]), None);
        assert_eq!(PoolLoad::from_figures(&figures[..5]), None);
    }
}

#[test]
fn an_assumed_pool_is_not_slower_than_the_one_below_it() {
    for pools in 1..6 {
        for pool in 1..pools {
            let [above, here] = [pool - 1, pool].map(|p| PoolTraits::assumed(PoolId(p), pools));
            for pattern in Pattern::ALL {
                assert!(above.of(pattern).per_second >= here.of(pattern).per_second);
            }
            assert!(above.of(Pattern::RandomRead).latency <= here.of(Pattern::RandomRead).latency);
        }
    }
}

#[test]
fn the_mean_latency_weighs_reads_and_writes_by_their_number() {
    let load = PoolLoad {
        reads: 3,
        writes: 1,
        read_latency: Nanos(100),
        write_latency: Nanos(500),
        ..PoolLoad::default()
    };
    assert_eq!(load.latency(), Some(Nanos(200)));
    assert_eq!(PoolLoad::default().latency(), None);
    let (absurd, _) = PoolLoad::from_figures(&[u64::MAX; 6]).unwrap();
    assert_eq!(absurd.requests(), u64::MAX);
    assert!(absurd.latency().is_some(), "a recording may say anything");
}

#[test]
fn a_disk_serves_one_at_a_time_and_flash_as_many_as_its_latency_and_rate_come_to() {
    let at_once = [0, 1, 2].map(|pool| PoolTraits::assumed(PoolId(pool), 3).at_once());
    // 66 µs × 366,000/s = 24.2; 100 µs × 100,000/s = 10; 12.46 ms × 80/s = 0.997.
    assert_eq!(at_once, [24, 10, 1]);
}
