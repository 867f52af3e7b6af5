//! Formatting that is cut off, again and again: at every step, with every kind of survival.

use crate::world::Disk;
use thermocline_blockcache::{BlockCache, Settings, is_unfinished};
use thermocline_ports::faulty::{Background, Faults, Recorded, SimDisk, Survival};
use thermocline_ports::{Device, DeviceError, Geometry};
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Digest, Nanos, Rng};

fn blank(size: Bytes, seed: u64, digest: &Digest) -> Disk {
    let faults = Faults { background: Background::Zeroes, ..Faults::NONE };
    let geometry = Geometry { size, discard_zeroes: true, far: false };
    Recorded::new(SimDisk::new(geometry, seed, faults), digest)
}

fn unfinished(fast: &SimDisk, slow: &SimDisk) -> bool {
    let bytes = |disk: &SimDisk, offset, length| {
        disk.peek(offset, length).expect("nothing is spoilt").to_vec()
    };
    let read = |offset: Bytes, into: &mut [u8]| {
        into.copy_from_slice(&bytes(fast, offset, into.len() as u32));
        Ok::<(), DeviceError>(())
    };
    is_unfinished(fast.geometry().size, &bytes(slow, Bytes(0), 128 << 10), read).expect("readable")
}

/// Formats until the two are a pair; whatever is left in between may be formatted again. Returns
/// the digest of what passed.
pub(crate) fn run(seed: u64) -> u64 {
    let digest = Digest::default();
    let mut rng = Rng::seeded(seed);
    let mut fast = blank(Bytes::from_mib(2), seed, &digest);
    let mut slow = blank(Bytes::from_mib(4), seed + 1, &digest);
    let mut now = Nanos(0);
    for attempt in 1.. {
        let settings = Settings::default();
        let made = BlockCache::format(now, fast, slow, seed + attempt, settings);
        let mut cache = made.expect("sizes fit");
        for _ in 0..rng.below(7) {
            let Some(next) = cache.next_event() else { break };
            now = next.max(now);
            cache.poll(now, &mut Vec::new());
        }
        let survival = Survival::draw(&mut rng);
        let (one, other) = cache.devices_mut();
        one.crash(&mut rng, survival);
        other.crash(&mut rng, survival);
        fast = std::mem::replace(one, blank(Bytes(512), 0, &digest));
        slow = std::mem::replace(other, blank(Bytes(512), 0, &digest));
        if !unfinished(&fast, &slow) {
            break;
        }
        met("a formatting was cut off");
    }
    let opened = BlockCache::open(now, fast, slow, Settings::default());
    let mut cache = opened.expect("sizes fit");
    while let Some(next) = cache.next_event() {
        now = next.max(now);
        cache.poll(now, &mut Vec::new());
    }
    assert_eq!(cache.is_open(), Ok(true), "seed {seed}: neither a pair nor to be formatted again");
    digest.value()
}
