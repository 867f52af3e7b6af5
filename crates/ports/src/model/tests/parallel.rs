//! Little's law, and the anchor of the P4800X.

use super::super::{Medium, ModelDevice};
use super::{Pattern, RANDOM_READ, built_in, over};
use crate::pattern::{self, Outcome};
use thermocline_units::Nanos;

#[test]
fn sixteen_in_flight_wait_between_the_measured_and_the_predicted_time() {
    let profile = built_in("scm");
    let mut device = ModelDevice::new(&profile, 1);
    let pattern = over(&profile, Pattern { depth: 16, ..RANDOM_READ });
    let mean = pattern::run(&mut device, &pattern, Nanos(0), 50_000, 1).mean();
    assert!((25_000..28_500).contains(&mean.0), "{mean}");
}

#[test]
fn the_tail_is_the_published_one() {
    let profile = built_in("scm");
    let mut device = ModelDevice::new(&profile, 1);
    let pattern = over(&profile, RANDOM_READ);
    let outcome = pattern::run(&mut device, &pattern, Nanos(0), 1_000_000, 1);
    let tail = Outcome::quantile(&outcome.reads, 0.99999);
    assert!((33_000..41_000).contains(&tail.0), "p99.999 {tail}, published 37 µs");
}

#[test]
fn more_servers_than_the_bandwidth_feeds_do_not_help() {
    let rate = |servers| {
        let mut profile = built_in("scm");
        if let Medium::Parallel(parallel) = &mut profile.medium {
            parallel.servers = servers;
        }
        let mut device = ModelDevice::new(&profile, 1);
        let pattern = over(&profile, Pattern { depth: 64, ..RANDOM_READ });
        pattern::run(&mut device, &pattern, Nanos(0), 50_000, 1).iops()
    };
    assert!(rate(2) < 0.5 * rate(5));
    assert!((rate(50) / (2.4e9 / 4096.0) - 1.0).abs() < 0.01);
}
