//! Memory that a volume of 1 TiB in chunks of 1 MiB takes, every chunk of it written.
//!
//! ```text
//! cargo run --release -p thermocline-sim --example volume_memory
//! ```
//!
//! The devices here complete everything at once and hold nothing, so that the process grows by what
//! the machine takes. Prints the map's own figure and the growth of the process.

#![allow(clippy::print_stdout)]

use thermocline_ports::{Completion, Geometry, Io, Payload};
use thermocline_units::{Bytes, Nanos, VolumeId};
use thermocline_volume::{
    Action, Group, PoolSpec, Priority, Request, RequestId, Service, Settings,
};

const VOLUME: Bytes = Bytes(1 << 40);
const CHUNK: u64 = 1 << 20;

/// Memory of this process in use, KiB.
fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("it is always there");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of KiB")
}

/// Completes everything that is asked, until nothing more is.
fn settle(group: &mut Group, now: Nanos) {
    let mut io = Vec::new();
    loop {
        group.take_io(&mut io);
        if io.is_empty() {
            return;
        }
        for (pool, ticket, io) in io.drain(..) {
            let data = match io {
                Io::Read { length, .. } => Payload::Zeroes(length),
                _ => Payload::EMPTY,
            };
            group.complete(now, pool, Completion { ticket, result: Ok(data) });
        }
    }
}

fn main() {
    let pool = |name: &str, gib| PoolSpec {
        name: name.to_string(),
        geometry: Geometry { size: Bytes::from_gib(gib), discard_zeroes: true, far: false },
        zeroed: true,
        reserve_chunks: 0,
    };
    let pools = [pool("scm", 32), pool("ssd", 256), pool("hdd", 800)];
    let before = resident_kib();
    let mut group = Group::create(Settings::default(), &pools, 1).expect("the pools are large");
    settle(&mut group, Nanos(0));
    assert_eq!(*group.service(), Service::Ready);
    let volume = group.create_volume(Nanos(0), VOLUME).expect("the group is ready");
    assert_eq!(volume, VolumeId(0));
    let mut replies = Vec::new();
    for index in 0..VOLUME.0 / CHUNK {
        let now = Nanos(index * 1_000_000);
        let offset = Bytes(index * CHUNK);
        let action = Action::Write { offset, payload: Payload::Zeroes(4096), fua: false };
        let priority = Priority::Foreground;
        let request = Request { id: RequestId(index), volume, action, priority };
        group.submit(now, request).expect("few requests are under way");
        while group.next_tick().is_some_and(|at| at <= now) {
            group.tick(now);
            settle(&mut group, now);
        }
        settle(&mut group, now);
        group.take_replies(&mut replies);
        replies.clear();
    }
    let used: u32 = (0..3)
        .map(|p| group.pool_status(thermocline_units::PoolId(p)))
        .map(|status| status.expect("there are three").slots_used)
        .sum();
    println!("{used} chunks written");
    println!("chunk map: {}", group.map_memory());
    println!("process grew by {}", Bytes::from_kib(resident_kib() - before));
}
