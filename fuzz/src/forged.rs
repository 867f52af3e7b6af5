//! A small store of de-duplicated blocks, made for real, with clones, sealed segments and a
//! journal, and opened again after somebody changed its metadata: it is refused, or it works. The
//! test `forged` of the crate does the same with bytes that it draws.
//!
//! The input changes bytes of the metadata: repeatedly an offset into the metadata blocks (3
//! bytes), a length (1), and as many bytes.

use std::sync::OnceLock;
use thermocline_content::{
    Action, Answer, BLOCK, Completed, Domain, Quotas, Request, RequestId, Service, Settings, Store,
};
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_ports::{Device, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, VolumeId};

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

/// Bytes that a real store leaves on its device, and the addresses of its metadata.
pub fn image() -> &'static (Vec<u8>, Vec<usize>) {
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

/// Opens the store after bytes of its metadata were changed, and mended by `mend`; true if it could
/// be opened.
///
/// # Panics
/// When a store that could be opened does not work.
pub fn open_forged(data: &[u8], mend: impl Fn(&mut [u8], &[usize])) -> bool {
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
