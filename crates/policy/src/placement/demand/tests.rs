//! Shares of a pool's time, worked out by hand.

use super::{Costs, Demand};
use crate::placement::PoolTraits;
use thermocline_units::PoolId;

#[test]
fn a_disk_is_as_busy_as_its_random_requests_and_its_streams_together() {
    let disk = Costs::of(&PoolTraits::assumed(PoolId(1), 2));
    let idle = Demand::default();
    let near = |one: f64, other: f64| (one - other).abs() < 1e-12;
    assert_eq!(idle.time(&disk), 0.0);
    // 20 of 80 requests a second, and 7,000 of 35,000 units.
    let random = Demand { random_reads: 20.0, random_read_bytes: 81_920.0, ..idle };
    assert!(near(random.time(&disk), 0.25));
    let stream = Demand { sequential_written_bytes: 7000.0 * 4096.0, ..idle };
    assert!(near(stream.time(&disk), 0.2));
    // 10 requests of 64 KiB: each of them 15 units beyond the first.
    let large = Demand { random_writes: 10.0, random_written_bytes: 655_360.0, ..idle };
    assert!(near(large.time(&disk), 0.125 + 150.0 / 35_000.0));
}

#[test]
fn half_of_before_and_half_of_now() {
    let now = Demand { random_reads: 10.0, sequential_read_bytes: 4.0, ..Demand::default() };
    let before = Demand { random_reads: 2.0, random_writes: 8.0, ..Demand::default() };
    let blended = now.blend(before, 0.5);
    let expected = Demand {
        random_reads: 6.0,
        random_writes: 4.0,
        sequential_read_bytes: 2.0,
        ..Demand::default()
    };
    assert_eq!(blended, expected);
}
