//! Buffer, cleaning and what they do to latencies.

use super::super::{Medium, ModelDevice, Profile};
use super::{Pattern, RANDOM_READ, built_in, over, run, write};
use crate::pattern::{self, Order, Outcome};
use crate::{Device, Io, Ticket};
use thermocline_units::{Bytes, Nanos};

/// A profile that reaches its steady state soon.
fn small(name: &str) -> Profile {
    Profile { size: Bytes::from_mib(512), ..built_in(name) }
}

fn writes(depth: u32) -> Pattern {
    Pattern { reads: 0.0, depth, ..RANDOM_READ }
}

#[test]
fn cleaning_amplifies_random_writes_and_leaves_sequential_ones_alone() {
    let profile = small("nvme");
    let amplification = |order| {
        let mut device = ModelDevice::new(&profile, 1);
        let pattern = over(&profile, Pattern { order, ..writes(32) });
        pattern::run(&mut device, &pattern, Nanos(0), 400_000, 1);
        device.counters().flash.write_amplification()
    };
    assert!(amplification(Order::Random) > 2.5);
    assert!(amplification(Order::Sequential) < 1.001);
}

#[test]
fn discarding_makes_room_for_cleaning() {
    let profile = small("nvme");
    let amplification = |discarded: Bytes| {
        let mut device = ModelDevice::new(&profile, 1);
        let offset = Bytes(profile.size.0 - discarded.0);
        let mut now = Nanos(0);
        if discarded.0 > 0 {
            now = run(&mut device, now, Io::Discard { offset, length: discarded });
        }
        let pattern = Pattern { range: Bytes::from_mib(256), ..writes(32) };
        pattern::run(&mut device, &pattern, now, 300_000, 1);
        device.counters().flash.write_amplification()
    };
    let (none, half) = (amplification(Bytes(0)), amplification(Bytes::from_mib(256)));
    assert!(half < 0.8 * none, "{none} without, {half} with half of the device discarded");
}

#[test]
fn reads_beside_cleaning_have_a_tail_that_suspension_bounds() {
    let profile = small("nvme");
    let slowest = |reads: f64, suspend: Nanos| {
        let mut profile = profile.clone();
        if let Medium::Flash(flash) = &mut profile.medium {
            flash.suspend = suspend;
        }
        let mut device = ModelDevice::new(&profile, 1);
        pattern::run(&mut device, &over(&profile, writes(32)), Nanos(0), 300_000, 1);
        let start = Nanos(3_600_000_000_000);
        let pattern = over(&profile, Pattern { reads, depth: 8, ..RANDOM_READ });
        let outcome = pattern::run(&mut device, &pattern, start, 50_000, 2);
        Outcome::quantile(&outcome.reads, 0.99)
    };
    let suspend = Nanos::from_micros(100);
    let (alone, mixed) = (slowest(1.0, suspend), slowest(0.7, suspend));
    let unsuspended = slowest(0.7, Nanos::from_secs(1));
    assert!(mixed > Nanos(alone.0 + 50_000), "p99 {alone} alone, {mixed} beside writes");
    assert!(mixed < Nanos(alone.0 + 300_000), "p99 {alone} alone, {mixed} beside writes");
    assert!(unsuspended > Nanos(3 * mixed.0), "p99 {mixed}, {unsuspended} without suspension");
}

#[test]
fn a_burst_fits_the_buffer_and_what_follows_waits_for_the_dies() {
    let mut profile = small("ssd-sata");
    if let Medium::Flash(flash) = &mut profile.medium {
        flash.buffer = Bytes::from_mib(16);
    }
    let mut device = ModelDevice::new(&profile, 1);
    let pattern = over(&profile, writes(32));
    let cleaning = pattern::run(&mut device, &pattern, Nanos(0), 300_000, 1);
    let rested = Nanos(cleaning.span.0 + 1_000_000_000);
    let burst = pattern::run(&mut device, &pattern, rested, 4_000, 2);
    let rest = pattern::run(&mut device, &pattern, Nanos(rested.0 + burst.span.0), 50_000, 3);
    assert!(burst.iops() > 80_000.0, "{} while the buffer has room", burst.iops());
    assert!(rest.iops() < 0.5 * burst.iops(), "{} then {}", burst.iops(), rest.iops());
}

#[test]
fn a_flush_costs_a_program_without_power_loss_protection_and_nothing_with_it() {
    let flush = |name| {
        let mut device = ModelDevice::new(&built_in(name), 1);
        let now = run(&mut device, Nanos(0), write(0, 4096));
        run(&mut device, now, Io::Flush).0 - now.0
    };
    assert!(flush("ssd-sata") > 1_000_000);
    assert!(flush("nvme") < 10_000);
    let mut device = ModelDevice::new(&built_in("ssd-sata"), 1);
    let now = run(&mut device, Nanos(0), write(0, 4096));
    let first = run(&mut device, now, Io::Flush);
    assert!(run(&mut device, first, Io::Flush).0 - first.0 < 10_000, "nothing is buffered");
}

#[test]
fn counters_add_up() {
    let profile = small("nvme");
    let mut device = ModelDevice::new(&profile, 1);
    let pattern = over(&profile, Pattern { reads: 0.5, depth: 16, ..RANDOM_READ });
    let outcome = pattern::run(&mut device, &pattern, Nanos(0), 100_000, 1);
    device.submit(outcome.span, Ticket(1), Io::Flush);
    let counters = *device.counters();
    assert_eq!(counters.reads.requests, outcome.reads.len() as u64);
    assert_eq!(counters.writes.bytes, Bytes(4096 * outcome.writes.len() as u64));
    assert_eq!(counters.flash.host, counters.writes.bytes);
    let mean = counters.in_device().as_secs_f64() / outcome.span.as_secs_f64();
    assert!((mean - 16.0).abs() < 0.1, "{mean} requests were in the device");
    assert!(counters.busy <= Nanos(outcome.span.0 + 1_000_000));
    assert!(counters.busy.0 as f64 > 0.99 * outcome.span.0 as f64);
    assert!(counters.flash.erases > 0 && counters.flash.cleaning > Nanos(0));
}
