//! Seek, rotation, choice among the queued.

use super::super::disk::DiskModel;
use super::super::{Disk, Medium, ModelDevice};
use super::{Pattern, RANDOM_READ, built_in, over, read, run, write};
use crate::pattern;
use crate::{Device, Io, Ticket};
use std::collections::BTreeMap;
use thermocline_units::{Bytes, Nanos, Rng};

const TURN: u64 = 60_000_000_000 / 7200;

fn disk_profile() -> (Disk, Bytes) {
    let profile = built_in("hdd-7200");
    match profile.medium {
        Medium::Disk(disk) => (disk, profile.size),
        other => panic!("a disk is not {other:?}"),
    }
}

#[test]
fn the_mean_seek_over_random_pairs_is_8_2_ms() {
    let (disk, size) = disk_profile();
    let model = DiskModel::new(&disk, size);
    let mut rng = Rng::seeded(1);
    let pairs = 100_000;
    let total: f64 =
        (0..pairs).map(|_| model.seek(rng.below(size.0).abs_diff(rng.below(size.0)))).sum();
    let mean_ms = total / f64::from(pairs) / 1e6;
    assert!((mean_ms - 8.2).abs() < 0.05, "{mean_ms} ms");
    let stroke_ms = model.seek(size.0) / 1e6;
    assert!((stroke_ms - 14.7).abs() < 0.01, "{stroke_ms} ms");
}

#[test]
fn choosing_among_queued_requests_pays_and_starves_nobody() {
    let profile = built_in("hdd-7200");
    let at_depth = |depth| {
        let mut device = ModelDevice::new(&profile, 1);
        let pattern = over(&profile, Pattern { depth, ..RANDOM_READ });
        pattern::run(&mut device, &pattern, Nanos(0), 5_000, 1)
    };
    let (alone, queued) = (at_depth(1), at_depth(32));
    assert!(queued.iops() > 2.0 * alone.iops(), "{} and {}", alone.iops(), queued.iops());
    let (disk, _) = disk_profile();
    let worst = *queued.reads.last().expect("there were reads");
    let bound = Nanos(disk.age_max.0 + 33 * 30_000_000);
    assert!(worst < bound, "{worst} waited at most {bound}");
}

/// Ages were counted from submission, with the time in front of the disk's queue: under a long
/// backlog all requests came too old, and 128 of them in flight got 1,242 a second, 512 got 189.
#[test]
fn a_backlog_in_front_of_the_queue_does_not_change_how_fast_a_disk_is() {
    let profile = built_in("hdd-7200");
    let at_depth = |depth| {
        let mut device = ModelDevice::new(&profile, 1);
        let pattern = Pattern { depth, range: Bytes::from_mib(1000), ..RANDOM_READ };
        pattern::run(&mut device, &pattern, Nanos(0), 10_000, 1).iops()
    };
    let full = at_depth(32);
    for depth in [64, 128, 512, 2048] {
        let deep = at_depth(depth);
        assert!((deep / full - 1.0).abs() < 0.05, "{deep} IOPS at depth {depth}, {full} at 32");
    }
}

#[test]
fn a_far_request_is_served_within_the_age_bound_of_a_near_stream() {
    let (disk, size) = disk_profile();
    let mut device = ModelDevice::new(&built_in("hdd-7200"), 1);
    let mut rng = Rng::seeded(1);
    device.submit(Nanos(0), Ticket(0), read(0, 4096));
    device.submit(Nanos(0), Ticket(1), read(size.0 - 4096, 4096));
    let near = |rng: &mut Rng| read(rng.below(2000) * 4096, 4096);
    for ticket in 2..10 {
        device.submit(Nanos(0), Ticket(ticket), near(&mut rng));
    }
    let mut done = Vec::new();
    loop {
        let now = device.next_event().expect("the far request is in flight");
        device.poll(now, &mut done);
        for completion in done.drain(..) {
            if completion.ticket == Ticket(1) {
                assert!(now > disk.age_max, "near requests went first");
                assert!(now.0 < disk.age_max.0 + 60_000_000, "{now}");
                return;
            }
            device.submit(now, completion.ticket, near(&mut rng));
        }
    }
}

#[test]
fn a_write_that_comes_a_moment_late_waits_a_turn_and_a_read_does_not() {
    let mut device = ModelDevice::new(&built_in("hdd-7200"), 1);
    let first = run(&mut device, Nanos(0), write(1 << 30, 65536));
    let second = run(&mut device, first, write((1 << 30) + 65536, 65536));
    let took = second.0 - first.0;
    assert!((TURN..TURN + 600_000).contains(&took), "{took} ns for a sequential write");
    let third = run(&mut device, second, read(1 << 31, 65536));
    let fourth = run(&mut device, third, read((1 << 31) + 65536, 65536));
    assert!(fourth.0 - third.0 < 600_000, "{} ns for a sequential read", fourth.0 - third.0);
    let late = Nanos(fourth.0 + 10_000_000);
    let fifth = run(&mut device, late, read((1 << 31) + 2 * 65536, 65536));
    assert!(fifth.0 - late.0 < 200_000, "it was read ahead: {} ns", fifth.0 - late.0);
}

#[test]
fn rates_fall_from_the_outer_to_the_inner_edge() {
    let profile = built_in("hdd-15k");
    let rate_at = |start: u64| {
        let mut device = ModelDevice::new(&profile, 1);
        let mut now = Nanos(0);
        let mut begin = Nanos(0);
        for block in 0..200 {
            now = run(&mut device, now, read(start + block * 1_048_576, 1_048_576));
            if block == 0 {
                begin = now;
            }
        }
        199.0 * 1_048_576.0 / (now.0 - begin.0) as f64 * 1e3
    };
    let (outer, inner) = (rate_at(0), rate_at(profile.size.0 - (200 << 20)));
    assert!((outer / 233.0 - 1.0).abs() < 0.02, "{outer} MB/s");
    assert!((inner / 160.0 - 1.0).abs() < 0.02, "{inner} MB/s");
}

#[test]
fn more_requests_than_the_queue_takes_wait_in_order_and_are_all_answered() {
    let (disk, size) = disk_profile();
    let mut device = ModelDevice::new(&built_in("hdd-7200"), 1);
    let mut rng = Rng::seeded(3);
    let requests = 10 * u64::from(disk.queue_depth);
    for ticket in 0..requests {
        let offset = rng.below(size.0 / 4096) * 4096;
        device.submit(Nanos(ticket), Ticket(ticket), read(offset, 4096));
    }
    device.submit(Nanos(requests), Ticket(requests), Io::Flush);
    let mut times = BTreeMap::new();
    let mut done = Vec::new();
    while let Some(now) = device.next_event() {
        device.poll(now, &mut done);
        for completion in done.drain(..) {
            assert_eq!(times.insert(completion.ticket, now), None);
        }
    }
    assert_eq!(times.len() as u64, requests + 1);
    let of = |tickets: std::ops::Range<u64>| -> u64 {
        tickets.map(|ticket| times[&Ticket(ticket)].0).sum()
    };
    assert!(of(0..requests / 2) < of(requests / 2..requests));
}

#[test]
fn a_disk_writes_zeroes_and_ignores_discards() {
    let mut device = ModelDevice::new(&built_in("hdd-7200"), 1);
    let (offset, length) = (Bytes::from_gib(1), Bytes::from_mib(143));
    let ignored = run(&mut device, Nanos(0), Io::Discard { offset, length });
    assert!(ignored < Nanos::from_micros(100));
    let written = run(&mut device, ignored, Io::WriteZeroes { offset, length });
    assert!(written.0 - ignored.0 > 1_000_000_000, "{written}");
    assert_eq!(device.counters().discards.requests, 2);
}
