//! The rate that a link is taken to have.

use super::*;

/// A link that takes 1,000 bytes a millisecond through a buffer of 100,000, and ends that say
/// `part` bytes at once as soon as the last ones were taken.
fn told(part: usize) -> f64 {
    const BUFFER: usize = 100_000;
    let (mut now, mut meter, mut filled) = (Instant::now(), Meter::default(), 0);
    let ends = now + 2 * SECOND;
    while now < ends {
        let mut left = part;
        while left > 0 {
            let taken = left.min(BUFFER - filled);
            if taken > 0 {
                meter.wrote(taken);
                (filled, left) = (filled + taken, left - taken);
            }
            if left > 0 {
                meter.blocked(now);
                now += Duration::from_millis(10);
                filled -= 10_000;
            }
        }
        meter.idle(now);
    }
    meter.end_second(now).unwrap()
}

#[test]
fn a_busy_link_is_told_as_fast_as_it_is_whatever_is_said_at_once() {
    for part in [105_000, 150_000, 256_000, 1_000_000] {
        let rate = told(part);
        assert!((0.9..1.1).contains(&(rate / 1e6)), "{part} at once: {rate}");
    }
}

#[test]
fn a_link_that_takes_everything_tells_nothing() {
    let (mut now, mut meter) = (Instant::now(), Meter::default());
    for _ in 0..100 {
        meter.wrote(1000);
        meter.idle(now);
        now += Duration::from_millis(20);
    }
    assert_eq!(meter.end_second(now), None);
}
