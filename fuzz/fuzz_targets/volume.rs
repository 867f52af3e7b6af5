//! Opening a volume group whose disks were forged: it is refused, or it works.
//!
//! A small group is made for real; then the input changes bytes of its metadata: repeatedly a pool
//! (1 byte), an offset (3), a length (1), and as many bytes. Checksums are not looked at under a
//! fuzzer, so that the decoders behind them are reached.
#![no_main]

use std::collections::BTreeSet;
use std::sync::OnceLock;
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_ports::{Device, Geometry, Io, Payload, SECTOR, Ticket};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{
    Action, Group, Operation, OperationKind, PoolSpec, Priority, Request, RequestId, Service,
    Settings,
};

const CHUNK: Bytes = Bytes::from_kib(64);
const GEOMETRY: Geometry = Geometry { size: Bytes::from_mib(2), discard_zeroes: true, far: false };
/// Bytes of each disk that hold metadata, about; changes stay inside.
const METADATA: u64 = 1 << 20;

fn settings() -> Settings {
    Settings { chunk_size: CHUNK, journal_blocks: 64, checksums: true, ..Settings::default() }
}

fn disks() -> [SimDisk; 2] {
    [0, 1].map(|seed| SimDisk::new(GEOMETRY, seed, Faults::NONE))
}

/// Drives the group until nothing is in flight and the clock has nothing to do soon.
fn run(group: &mut Group, disks: &mut [SimDisk; 2], now: &mut Nanos) {
    let (mut out, mut done) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        group.take_io(&mut out);
        for (pool, ticket, io) in out.drain(..) {
            disks[usize::from(pool.0)].submit(*now, ticket, io);
        }
        let next = disks.iter().filter_map(|disk| disk.next_event()).min();
        let Some(at) = next.or_else(|| group.next_tick().filter(|at| at.0 < now.0 + 200_000_000))
        else {
            return;
        };
        *now = Nanos(now.0.max(at.0));
        for (index, disk) in disks.iter_mut().enumerate() {
            disk.poll(*now, &mut done);
            for completion in done.drain(..) {
                group.complete(*now, PoolId(index as u16), completion);
            }
        }
        group.tick(*now);
    }
}

fn ask(group: &mut Group, now: Nanos, id: u64, action: Action) {
    let request =
        Request { id: RequestId(id), volume: VolumeId(0), action, priority: Priority::Foreground };
    let _ = group.submit(now, request);
}

/// The two disks of a real group, with its metadata beside them. Each input gets copies of the
/// disks, on which only what it changes is written: writing all of them anew took most of its time.
fn original() -> &'static ([SimDisk; 2], [Vec<u8>; 2]) {
    static ORIGINAL: OnceLock<([SimDisk; 2], [Vec<u8>; 2])> = OnceLock::new();
    ORIGINAL.get_or_init(|| {
        let pool = |name: &str| PoolSpec {
            name: name.to_string(),
            geometry: GEOMETRY,
            zeroed: true,
            reserve_chunks: 1,
        };
        let mut group =
            Group::create(settings(), &[pool("a"), pool("b")], 1).expect("large enough");
        let (mut disks, mut now) = (disks(), Nanos(0));
        run(&mut group, &mut disks, &mut now);
        group.create_volume(now, Bytes::from_mib(4)).expect("a volume");
        for chunk in 0..4 {
            let payload = Payload::from(vec![chunk as u8; 4096]);
            ask(
                &mut group,
                now,
                chunk,
                Action::Write { offset: Bytes(chunk * CHUNK.0), payload, fua: false },
            );
        }
        run(&mut group, &mut disks, &mut now);
        for (index, kind) in
            [OperationKind::Replicate, OperationKind::Redirect].into_iter().enumerate()
        {
            let chunk = ChunkId { volume: VolumeId(0), index: index as u32 };
            group.start(now, Operation { kind, chunk, to: PoolId(1) }).expect("there is room");
        }
        ask(&mut group, now, 9, Action::Flush);
        run(&mut group, &mut disks, &mut now);
        let metadata = disks
            .each_ref()
            .map(|disk| disk.peek(Bytes(0), METADATA as u32).expect("readable").to_vec());
        (disks, metadata)
    })
}

/// The disks of the group with the metadata that the input makes of theirs.
fn forged(data: &[u8], now: Nanos) -> [SimDisk; 2] {
    let (disks, metadata) = original();
    let mut forged = metadata.clone();
    let mut changed: [BTreeSet<usize>; 2] = Default::default();
    let mut rest = data;
    while let [pool, a, b, c, length, tail @ ..] = rest {
        let at = (u64::from(u32::from_le_bytes([*a, *b, *c, 0])) % METADATA) as usize;
        let length = usize::from(*length).min(tail.len()).min(METADATA as usize - at);
        let pool = usize::from(pool % 2);
        forged[pool][at..at + length].copy_from_slice(&tail[..length]);
        changed[pool].extend(at / SECTOR as usize..(at + length).div_ceil(SECTOR as usize));
        rest = &tail[length..];
    }
    let mut disks = disks.clone();
    for ((disk, bytes), changed) in disks.iter_mut().zip(forged).zip(changed) {
        for sector in changed {
            let at = sector * SECTOR as usize;
            let data = Payload::from(bytes[at..at + SECTOR as usize].to_vec());
            let write = Io::Write { offset: Bytes(at as u64), data, fua: true };
            disk.submit(now, Ticket(sector as u64), write);
        }
        while let Some(at) = disk.next_event() {
            disk.poll(at, &mut Vec::new());
        }
    }
    disks
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut now = Nanos(1 << 40);
    let mut disks = forged(data, now);
    now = Nanos(1 << 41);
    let mut group = Group::open(settings(), &[Some(GEOMETRY), Some(GEOMETRY)]);
    run(&mut group, &mut disks, &mut now);
    assert_ne!(*group.service(), Service::Opening, "opening ends");
    if *group.service() == Service::Ready {
        assert_eq!(group.fsck(), []);
        let length = CHUNK.0 as u32 * 2;
        ask(&mut group, now, 1, Action::Read { offset: Bytes(0), length });
        let payload = Payload::from(vec![7; 8192]);
        ask(
            &mut group,
            now,
            2,
            Action::Write { offset: Bytes(CHUNK.0 - 4096), payload, fua: true },
        );
        ask(&mut group, now, 3, Action::Flush);
        run(&mut group, &mut disks, &mut now);
        assert_eq!(group.fsck(), []);
    }
});
