//! Time that a group takes to open, and bytes that it reads, by the number of chunks it holds.
//!
//! `cargo run --release -p thermocline-volume --example recovery_cost [MAX_CHUNKS]`. Groups of 1
//! MiB chunks on two disks in memory; every chunk is written once, the journal ring is as full as
//! it gets, and the power fails. Wall time on one thread: processor time alone, the disks answer at
//! once.

// A program for a terminal.
#![allow(clippy::disallowed_macros, clippy::disallowed_types, clippy::print_stdout)]

use std::time::Instant;
use thermocline_ports::faulty::{Faults, SimDisk, Survival};
use thermocline_ports::{Completion, Device, Geometry, Payload};
use thermocline_units::{Bytes, Nanos, PoolId, Rng, VolumeId};
use thermocline_volume::{
    Action, Group, PoolSpec, Priority, Request, RequestId, Service, Settings,
};

/// Drives the group until no device request is in flight; gives the bytes read.
fn settle(group: &mut Group, disks: &mut [SimDisk], now: &mut Nanos) -> u64 {
    let (mut out, mut done) = (Vec::new(), Vec::new());
    let mut read = 0;
    loop {
        group.take_io(&mut out);
        for (pool, ticket, io) in out.drain(..) {
            disks[usize::from(pool.0)].submit(*now, ticket, io);
        }
        let Some(at) = disks.iter().filter_map(|disk| disk.next_event()).min() else { return read };
        *now = Nanos(now.0.max(at.0));
        for (index, disk) in disks.iter_mut().enumerate() {
            disk.poll(*now, &mut done);
            for completion in done.drain(..) {
                let Completion { result, .. } = &completion;
                read += result.as_ref().map_or(0, |payload| u64::from(payload.len()));
                group.complete(*now, PoolId(index as u16), completion);
            }
        }
    }
}

fn ask(group: &mut Group, now: Nanos, action: Action) {
    let request =
        Request { id: RequestId(0), volume: VolumeId(0), action, priority: Priority::Foreground };
    group.submit(now, request).expect("one at a time");
}

fn measure(chunks: u64) {
    let size = Bytes((chunks + 4096) << 20);
    let geometry = Geometry { size, discard_zeroes: true, far: false };
    let pool =
        |name: &str| PoolSpec { name: name.to_string(), geometry, zeroed: true, reserve_chunks: 0 };
    let settings = Settings::default();
    let mut disks = [1, 2].map(|seed| SimDisk::new(geometry, seed, Faults::NONE));
    let mut now = Nanos(0);
    let mut group =
        Group::create(settings.clone(), &[pool("a"), pool("b")], 1).expect("large enough");
    settle(&mut group, &mut disks, &mut now);
    group.create_volume(now, Bytes(chunks << 20)).expect("a volume");
    for chunk in 0..chunks {
        let payload = Payload::Zeroes(4096);
        ask(&mut group, now, Action::Write { offset: Bytes(chunk << 20), payload, fua: false });
        settle(&mut group, &mut disks, &mut now);
    }
    // One commit after the other, up to the checkpoint that the half-full ring starts.
    for round in 0..u64::from(settings.journal_blocks / 2 - 8) {
        let offset = Bytes((round % chunks) << 20);
        ask(&mut group, now, Action::Discard { offset, length: Bytes::from_mib(1) });
        ask(&mut group, now, Action::Flush);
        settle(&mut group, &mut disks, &mut now);
    }
    for disk in &mut disks {
        disk.crash(&mut Rng::seeded(1), Survival::Lost);
    }
    let start = Instant::now();
    let mut group = Group::open(settings, &[Some(geometry), Some(geometry)]);
    let read = settle(&mut group, &mut disks, &mut now);
    assert_eq!(*group.service(), Service::Ready);
    let took = start.elapsed().as_secs_f64() * 1e3;
    println!(
        "{chunks:9} chunks: {took:8.1} ms, {:>10} read, map {}",
        Bytes(read).to_string(),
        group.map_memory()
    );
}

fn main() {
    let most = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1 << 18);
    let mut chunks = 1 << 10;
    while chunks <= most {
        measure(chunks);
        chunks <<= 4;
    }
}
