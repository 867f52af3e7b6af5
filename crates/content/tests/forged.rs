//! Opening a store whose device was forged, with checksums that are right: it is refused, or it
//! works. The fuzz target `content` does the same with bytes that somebody thought about.

#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;
use thermocline_content::{
    Action, Answer, BLOCK, Completed, Domain, Quotas, Request, RequestId, Service, Settings, Store,
};
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_ports::{Device, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};

const SIZE: Bytes = Bytes::from_mib(2);

fn settings() -> Settings {
    Settings {
        segment: Bytes::from_kib(64),
        journal_blocks: 16,
        fanout: 8,
        known_blocks: 16,
        ..Settings::default()
    }
}

fn disk() -> SimDisk {
    SimDisk::new(Geometry { size: SIZE, discard_zeroes: true, far: false }, 1, Faults::NONE)
}

/// Serves the store until nothing is in flight, or for a while.
fn run(store: &mut Store<SimDisk>, now: &mut Nanos) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..20_000 {
        let Some(next) = store.next_event() else { break };
        *now = (*now).max(next);
        store.poll(*now, &mut answers);
    }
    answers
}

fn ask(store: &mut Store<SimDisk>, now: &mut Nanos, action: Action) -> Vec<Answer> {
    store.submit(*now, Request { id: RequestId(1), action });
    run(store, now)
}

/// What a real store leaves on its device, and the addresses of its metadata.
fn image() -> &'static (Vec<u8>, Vec<usize>) {
    static IMAGE: OnceLock<(Vec<u8>, Vec<usize>)> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let mut now = Nanos(0);
        let mut store = Store::format(now, disk(), settings(), 7).expect("large enough");
        run(&mut store, &mut now);
        let (name, size) = ("v".to_string(), Bytes::from_kib(800));
        let quotas = Quotas::default();
        ask(&mut store, &mut now, Action::Create { name, size, domain: Domain(0), quotas });
        let volume = VolumeId(1);
        for round in 0..6u64 {
            let data: Vec<u8> = (0..12u64)
                .flat_map(|block| (1 + round * 7 + block).to_le_bytes().repeat(512))
                .collect();
            let offset = Bytes(round * 9 * u64::from(BLOCK));
            let action = Action::Write { volume, offset, data: Payload::from(data), fua: true };
            ask(&mut store, &mut now, action);
            if round == 3 {
                let (name, read_only) = ("clone".to_string(), false);
                ask(&mut store, &mut now, Action::Clone { from: volume, name, read_only });
            }
        }
        let bytes = store.into_device().peek(Bytes(0), SIZE.0 as u32).expect("readable").to_vec();
        let blocks = bytes.chunks(BLOCK as usize).enumerate();
        let is_metadata = |block: &[u8]| block.starts_with(b"TCC") || block.starts_with(b"THERM");
        let found = blocks.filter(|(_, block)| is_metadata(block)).map(|(at, _)| at).collect();
        (bytes, found)
    })
}

/// Gives all metadata the checksums of what it holds.
fn mend(bytes: &mut [u8], metadata: &[usize]) {
    for &at in metadata {
        let block = &mut bytes[at * BLOCK as usize..][..BLOCK as usize];
        let (from, crc) = if block.starts_with(b"THERM") { (12, 8) } else { (8, 4) };
        let sum = crc32c::crc32c(&block[from..]);
        block[crc..crc + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Opens the store after bytes of its metadata were changed; true if it could be opened.
fn open_forged(data: &[u8]) -> bool {
    let (bytes, metadata) = image();
    let mut bytes = bytes.clone();
    let mut rest = data;
    while let [a, b, c, length, tail @ ..] = rest {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        let block = metadata[at / BLOCK as usize % metadata.len()] * BLOCK as usize;
        let at = block + at % BLOCK as usize;
        let length = usize::from(*length).min(tail.len()).min(bytes.len() - at);
        bytes[at..at + length].copy_from_slice(&tail[..length]);
        rest = &tail[length..];
    }
    mend(&mut bytes, metadata);
    let (mut now, mut disk) = (Nanos(0), disk());
    let write = Io::Write { offset: Bytes(0), data: Payload::from(bytes), fua: true };
    disk.submit(now, Ticket(0), write);
    now = disk.next_event().expect("the write ends");
    disk.poll(now, &mut Vec::new());
    let mut store = Store::open(now, disk, settings()).expect("the settings are right");
    run(&mut store, &mut now);
    assert_ne!(*store.service(), Service::Opening, "opening ends");
    if *store.service() != Service::Ready {
        return false;
    }
    for volume in store.volumes() {
        let (id, offset) = (volume.id, Bytes(0));
        let length = volume.size.0.min(1 << 16) as u32;
        ask(&mut store, &mut now, Action::Read { volume: id, offset, length });
        let data = Payload::from(vec![9; length.min(8192) as usize]);
        ask(&mut store, &mut now, Action::Write { volume: id, offset, data, fua: true });
    }
    store.sweep();
    let answers = ask(&mut store, &mut now, Action::Flush);
    let is_fine = |answer: &Answer| matches!(answer.result, Ok(Completed::Done) | Err(_));
    assert!(answers.iter().all(is_fine), "{answers:?}");
    true
}

#[test]
fn forged_metadata_is_refused_or_works() {
    let (bytes, metadata) = image();
    assert!(open_forged(&[]), "what nobody changed can be opened");
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..1500 {
        let mut rng = Rng::seeded(seed);
        let mut input = Vec::new();
        for _ in 0..1 + rng.below(3) {
            let block = rng.below(metadata.len() as u64) as usize;
            let used = &bytes[metadata[block] * BLOCK as usize..][..BLOCK as usize];
            let end = used.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1;
            let at = block as u32 * BLOCK + (4 + rng.below(end - 4)) as u32;
            input.extend_from_slice(&at.to_le_bytes()[..3]);
            let length = 1 + rng.below(4);
            input.push(length as u8);
            for index in 0..length {
                let old = used.get((at % BLOCK) as usize + index as usize).copied().unwrap_or(0);
                let bytes = [0, 1, 255, old.wrapping_add(1), old ^ 0x80, rng.below(256) as u8];
                input.push(bytes[rng.below(6) as usize]);
            }
        }
        match open_forged(&input) {
            true => opened += 1,
            false => refused += 1,
        }
    }
    assert!(opened > 100 && refused > 100, "{opened} opened, {refused} refused");
}
