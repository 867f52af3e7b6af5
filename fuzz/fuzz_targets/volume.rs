//! Opening a volume group whose disks were forged: it is refused, or it works.
//!
//! A small group is made for real; then the input changes bytes of its metadata: repeatedly a pool
//! (1 byte), an offset (3), a length (1), and as many bytes. Checksums are not looked at under a
//! fuzzer, so that the decoders behind them are reached.
#![no_main]

use std::sync::OnceLock;
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_ports::{Device, Geometry, Io, Payload, Ticket};
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

/// The two disks of a real group.
fn image() -> &'static [Vec<u8>; 2] {
    static IMAGE: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    IMAGE.get_or_init(|| {
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
        let size = GEOMETRY.size.0 as u32;
        disks.map(|disk| disk.peek(Bytes(0), size).expect("readable").to_vec())
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut forged = image().clone();
    let mut rest = data;
    while let [pool, a, b, c, length, tail @ ..] = rest {
        let at = u64::from(u32::from_le_bytes([*a, *b, *c, 0])) % METADATA;
        let length = usize::from(*length).min(tail.len());
        let target = &mut forged[usize::from(pool % 2)][at as usize..at as usize + length];
        target.copy_from_slice(&tail[..length]);
        rest = &tail[length..];
    }
    let (mut disks, mut now) = (disks(), Nanos(0));
    for (disk, bytes) in disks.iter_mut().zip(forged) {
        disk.submit(
            now,
            Ticket(0),
            Io::Write { offset: Bytes(0), data: Payload::from(bytes), fua: true },
        );
        now = disk.next_event().expect("the write ends");
        disk.poll(now, &mut Vec::new());
    }
    now = Nanos(1 << 40);
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
