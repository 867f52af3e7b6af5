//! The models against what is published, against closed forms, and against their own contracts.

mod disk;
mod flash;
mod ftl;
mod keys;
mod link;
mod object;
mod parallel;
mod published;
mod shingles;
mod text;

use super::{ModelDevice, Profile};
use crate::pattern::{Order, Pattern};
use crate::{Device, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

const RANDOM_READ: Pattern =
    Pattern { order: Order::Random, block: 4096, reads: 1.0, depth: 1, range: Bytes(1 << 60) };

/// A pattern over all of a profile.
fn over(profile: &Profile, pattern: Pattern) -> Pattern {
    Pattern { range: pattern.range.min(profile.size), ..pattern }
}

fn built_in(name: &str) -> Profile {
    Profile::built_in(name).expect("it is built in")
}

fn read(offset: u64, length: u32) -> Io {
    Io::Read { offset: Bytes(offset), length }
}

fn write(offset: u64, length: u32) -> Io {
    Io::Write { offset: Bytes(offset), data: Payload::Zeroes(length), fua: false }
}

/// Submits at `now` and returns the time of completion; nothing else may be in flight.
fn run(device: &mut ModelDevice, now: Nanos, io: Io) -> Nanos {
    device.submit(now, Ticket(0), io);
    let end = device.next_event().expect("one request is in flight");
    let mut done = Vec::new();
    device.poll(end, &mut done);
    assert_eq!(done.len(), 1);
    end
}

/// `hdd-15k` served in the order of arrival from 32 requests on, because all of a full queue were
/// older than its `age-max`: 388 a second at depth 16, 202 at depth 32.
#[test]
fn no_device_is_slower_with_a_longer_queue() {
    for name in Profile::names() {
        let profile = built_in(name);
        for reads in [1.0, 0.7] {
            let rate_at = |depth| {
                let mut device = ModelDevice::new(&profile, 1);
                let pattern = over(&profile, Pattern { depth, reads, ..RANDOM_READ });
                crate::pattern::run(&mut device, &pattern, Nanos(0), 10_000, 1).iops()
            };
            let rates = [1, 2, 4, 8, 16, 32, 64, 128, 256].map(rate_at);
            let mut best: f64 = 0.0;
            for rate in rates {
                let told = format!("{name}, {reads} reads: {rate} IOPS of {rates:.0?}");
                assert!(rate > 0.95 * best, "{told}");
                best = best.max(rate);
            }
        }
    }
}
