//! Cost of the machine itself: processor time a request on devices that answer at once, and memory
//! of the map of a large volume.
//!
//! `cargo run --release -p thermocline-volume --example machine_cost`. One thread, requests one at
//! a time; the devices keep nothing and give the same bytes to every read, so that checksums have
//! something to work on. Wall time; the median of five rounds, with the least and the most.

// A program for a terminal.
#![allow(clippy::disallowed_macros, clippy::disallowed_types, clippy::print_stdout)]

use std::time::Instant;
use thermocline_ports::{Completion, Geometry, Io, Payload};
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};
use thermocline_volume::{
    Action, ChecksumStatus, Group, PoolSpec, Priority, Request, RequestId, Service, Settings,
};

const REQUESTS: u64 = 400_000;
const CHUNKS: u64 = 1024;

/// A group on two devices that answer at once, and its clock.
struct Bench {
    group: Group,
    now: Nanos,
    block: Payload,
    tables: std::collections::BTreeMap<(u16, u64), Payload>,
    ids: u64,
}

impl Bench {
    fn new(checksums: bool, volume: Bytes) -> Bench {
        let geometry = Geometry { size: Bytes::from_gib(8), discard_zeroes: true, far: false };
        let pool = |name: &str| PoolSpec {
            name: name.to_string(),
            geometry,
            zeroed: true,
            reserve_chunks: 0,
        };
        let settings = Settings { checksums, ..Settings::default() };
        let group = Group::create(settings, &[pool("a"), pool("b")], 1).expect("large enough");
        let block = Payload::from(vec![0xA5; 1 << 20]);
        let tables = std::collections::BTreeMap::new();
        let mut bench = Bench { group, now: Nanos(1), block, tables, ids: 0 };
        bench.settle();
        bench.group.create_volume(bench.now, volume).expect("a volume");
        bench
    }

    /// Answers every device request until there is none.
    fn settle(&mut self) {
        let mut out = Vec::new();
        loop {
            self.group.take_io(&mut out);
            if out.is_empty() {
                return;
            }
            for (pool, ticket, io) in out.drain(..) {
                let contents = match &io {
                    Io::Read { offset, length } => match self.tables.get(&(pool.0, offset.0)) {
                        Some(table) => table.clone(),
                        None => self.block.slice(0..*length),
                    },
                    _ => Payload::EMPTY,
                };
                // Tables of checksums are the only writes that are not whole blocks.
                if let Io::Write { offset, data, .. } = io
                    && data.len() % 4096 != 0
                {
                    self.tables.insert((pool.0, offset.0), data);
                }
                self.group.complete(self.now, pool, Completion { ticket, result: Ok(contents) });
            }
        }
    }

    fn ask(&mut self, action: Action) {
        self.ids += 1;
        self.now.0 += 1000;
        let request = Request {
            id: RequestId(self.ids),
            volume: VolumeId(0),
            action,
            priority: Priority::Foreground,
        };
        self.group.submit(self.now, request).expect("one at a time");
        self.settle();
        let mut replies = Vec::new();
        self.group.take_replies(&mut replies);
        assert!(replies.iter().all(|reply| reply.result.is_ok()), "{replies:?}");
    }

    fn fill(&mut self) {
        for chunk in 0..CHUNKS {
            let payload = self.block.clone();
            self.ask(Action::Write { offset: Bytes(chunk << 20), payload, fua: false });
        }
        self.ask(Action::Flush);
    }

    /// Lets a virtual minute pass, in which quiet chunks get checksums.
    fn rest(&mut self) {
        for _ in 0..3000 {
            self.now.0 += 20_000_000;
            self.group.tick(self.now);
            self.settle();
        }
        self.ask(Action::Flush);
    }
}

fn measure(what: &str, mut ask: impl FnMut(&mut Rng)) {
    let mut rng = Rng::seeded(7);
    let mut rounds: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..REQUESTS / 5).for_each(|_| ask(&mut rng));
            start.elapsed().as_nanos() as f64 / (REQUESTS / 5) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{what:42} {:7.0} [{:.0}-{:.0}] ns", rounds[2], rounds[0], rounds[4]);
}

fn main() {
    for checksums in [false, true] {
        let mut bench = Bench::new(checksums, Bytes(CHUNKS << 20));
        assert_eq!(*bench.group.service(), Service::Ready);
        bench.fill();
        bench.rest();
        let ChecksumStatus { checksummed, unread, .. } = bench.group.checksum_status();
        println!(
            "checksums {checksums}, {checksummed} of {CHUNKS} chunks have tables, {unread} unread"
        );
        let offset = |rng: &mut Rng| Bytes(rng.below(CHUNKS << 8) << 12);
        measure("  4 KiB random read", |rng| {
            bench.ask(Action::Read { offset: offset(rng), length: 4096 });
        });
        measure("  64 KiB random read", |rng| {
            let offset = Bytes(offset(rng).0 & !0xffff);
            bench.ask(Action::Read { offset, length: 65_536 });
        });
        measure("  4 KiB random write", |rng| {
            let payload = bench.block.slice(0..4096);
            bench.ask(Action::Write { offset: offset(rng), payload, fua: false });
        });
        measure("  4 KiB random write, in written chunks", |rng| {
            let payload = bench.block.slice(0..4096);
            bench.ask(Action::Write { offset: offset(rng), payload, fua: false });
        });
        measure("  1 MiB random write, in written chunks", |rng| {
            let (offset, payload) = (Bytes(offset(rng).0 & !0xf_ffff), bench.block.clone());
            bench.ask(Action::Write { offset, payload, fua: false });
        });
        println!("  tables that the writes made wrong: {}", bench.group.checksum_status().broken);
    }
    let bench = Bench::new(false, Bytes(1 << 40));
    println!("map of 1 TiB in chunks of 1 MiB: {}", bench.group.map_memory());
}
