//! Opening a block cache whose devices were forged: it is refused, or it works.
//!
//! A small cache is made for real, with dirty lines; then the input changes bytes of its labels and
//! its table: repeatedly a device (1 byte), an offset (2), a length (1), and as many bytes.
//! Checksums are mended afterwards, so that what is forged is believed as far as it makes sense; a
//! first byte that is odd leaves them as they are.
#![no_main]

use std::sync::OnceLock;
use thermocline_blockcache::{BlockCache, Settings};
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_ports::{Completion, Device, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

const CACHE: Bytes = Bytes::from_kib(1_200);
const ORIGIN: Bytes = Bytes::from_mib(4);
/// Bytes of each device that hold metadata.
const METADATA: u64 = 64 << 10;

type Cache = BlockCache<SimDisk, SimDisk>;

fn disk(size: Bytes) -> SimDisk {
    SimDisk::new(Geometry { size, discard_zeroes: true, far: false }, 1, Faults::NONE)
}

/// Serves the cache until nothing is in flight.
fn run(cache: &mut Cache, now: &mut Nanos) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(next) = cache.next_event() {
        *now = next.max(*now);
        cache.poll(*now, &mut done);
    }
    done
}

/// The two devices of a real cache.
fn image() -> &'static [Vec<u8>; 2] {
    static IMAGE: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let mut now = Nanos(0);
        let made = BlockCache::format(now, disk(CACHE), disk(ORIGIN), 7, Settings::default());
        let mut cache = made.expect("large enough");
        run(&mut cache, &mut now);
        for line in 0..20u64 {
            let data = Payload::from(vec![line as u8; 4096]);
            let offset = Bytes(line * 37 % 1000 * 4096);
            cache.submit(now, Ticket(line), Io::Write { offset, data, fua: false });
        }
        run(&mut cache, &mut now);
        cache.submit(now, Ticket(20), Io::Flush);
        run(&mut cache, &mut now);
        let read = |disk: &SimDisk| {
            let size = disk.geometry().size.0 as u32;
            disk.peek(Bytes(0), size).expect("readable").to_vec()
        };
        [read(cache.cache()), read(cache.origin())]
    })
}

/// Gives the labels and all sectors of the table the checksums of what they hold.
fn mend([fast, slow]: &mut [Vec<u8>; 2]) {
    for label in [&mut fast[..512], &mut slow[..512]] {
        let crc = crc32c::crc32c(&label[12..]);
        label[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    for (number, sector) in (0u32..).zip(fast[4096..METADATA as usize].chunks_mut(512)) {
        let crc = crc32c::crc32c(&number.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &sector[8..]);
        sector[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

fn forged(bytes: Vec<u8>, now: &mut Nanos) -> SimDisk {
    let mut disk = disk(Bytes(bytes.len() as u64));
    let write = Io::Write { offset: Bytes(0), data: Payload::from(bytes), fua: true };
    disk.submit(*now, Ticket(0), write);
    *now = disk.next_event().expect("the write ends");
    disk.poll(*now, &mut Vec::new());
    disk
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut images = image().clone();
    let [how, rest @ ..] = data else { return };
    let mut rest = rest;
    while let [device, a, b, length, tail @ ..] = rest {
        let at = u64::from(u16::from_le_bytes([*a, *b])) % METADATA;
        let length = usize::from(*length).min(tail.len());
        let target = &mut images[usize::from(device % 2)][at as usize..at as usize + length];
        target.copy_from_slice(&tail[..length]);
        rest = &tail[length..];
    }
    if how % 2 == 0 {
        mend(&mut images);
    }
    let mut now = Nanos(0);
    let [fast, slow] = images.map(|bytes| forged(bytes, &mut now));
    let mut cache =
        BlockCache::open(now, fast, slow, Settings::default()).expect("sizes are right");
    assert!(run(&mut cache, &mut now).is_empty(), "opening answers nobody");
    if cache.is_open() != Ok(true) {
        return;
    }
    let size = cache.geometry().size;
    let (mut ticket, mut answers) = (0, 0);
    for line in 0..64u64 {
        let offset = Bytes(line * 613 % (size.0 / 4096) * 4096);
        for io in [
            Io::Read { offset, length: 4096 },
            Io::Write { offset, data: Payload::from(vec![1; 4096]), fua: line % 4 == 0 },
        ] {
            ticket += 1;
            cache.submit(now, Ticket(ticket), io);
        }
        answers += run(&mut cache, &mut now).len();
    }
    cache.submit(now, Ticket(0), Io::Flush);
    answers += run(&mut cache, &mut now).len();
    assert_eq!(answers as u64, ticket + 1, "everybody is answered once");
});
