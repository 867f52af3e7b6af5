//! The scratch device against its contract, against a vector of bytes, and against what lies below.

use super::ScratchDevice;
use crate::faulty::{Background, Faults, SimDisk};
use crate::model::{ModelDevice, Profile};
use crate::{Completion, Device, Geometry, Io, Payload, Ticket, contract};
use thermocline_units::{Bytes, Nanos, Rng};

const SIZE: usize = 1 << 20;

/// Full of garbage, and read-only: a write that gets through panics.
struct ReadOnly(SimDisk);

impl ReadOnly {
    fn new() -> ReadOnly {
        let geometry = Geometry { size: Bytes(SIZE as u64), discard_zeroes: false, far: false };
        let faults = Faults { background: Background::Garbage, ..Faults::NONE };
        ReadOnly(SimDisk::new(geometry, 9, faults))
    }
}

impl Device for ReadOnly {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        assert!(matches!(io, Io::Read { .. }), "{io:?} got through");
        self.0.submit(now, ticket, io);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.0.poll(now, done);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
}

/// Runs one request to its end.
fn run(device: &mut impl Device, now: &mut Nanos, io: Io) -> Vec<u8> {
    device.submit(*now, Ticket(0), io);
    let mut done = Vec::new();
    while done.is_empty() {
        *now = device.next_event().expect("a request is in flight");
        device.poll(*now, &mut done);
    }
    done.remove(0).result.expect("nothing fails").to_vec()
}

#[test]
fn a_scratch_device_keeps_the_contract_over_disks_and_models() {
    for seed in 0..10 {
        contract::check(|| ScratchDevice::new(ReadOnly::new()), seed, 400);
        let profile = Profile::built_in("ssd-sata").expect("it is built in");
        contract::check(|| ScratchDevice::new(ModelDevice::new(&profile, 1)), seed, 400);
    }
}

#[test]
fn reads_see_what_was_written_over_what_is_there() {
    for seed in 0..20 {
        let mut now = Nanos(0);
        let all = Io::Read { offset: Bytes(0), length: SIZE as u32 };
        let mut plain = run(&mut ReadOnly::new(), &mut now, all.clone());
        assert!(plain.iter().any(|&byte| byte != 0), "there is something to be seen through");
        let mut scratch = ScratchDevice::new(ReadOnly::new());
        let mut rng = Rng::seeded(seed);
        for _ in 0..300 {
            let first = rng.below(SIZE as u64 / 512 - 1);
            let count = 1 + rng.below((SIZE as u64 / 512 - first).min(64));
            let (offset, length) = (Bytes(first * 512), Bytes(count * 512));
            let range = offset.0 as usize..(offset.0 + length.0) as usize;
            match rng.below(4) {
                0 => {
                    plain[range].fill(0);
                    run(&mut scratch, &mut now, Io::WriteZeroes { offset, length });
                }
                1 => {
                    let bytes: Vec<u8> = (0..length.0).map(|_| rng.below(256) as u8).collect();
                    plain[range].copy_from_slice(&bytes);
                    let data = Payload::from(bytes);
                    run(&mut scratch, &mut now, Io::Write { offset, data, fua: true });
                }
                2 => {
                    plain[range].fill(0);
                    run(&mut scratch, &mut now, Io::Discard { offset, length });
                }
                _ => {
                    let read = Io::Read { offset, length: length.0 as u32 };
                    assert!(run(&mut scratch, &mut now, read) == plain[range], "seed {seed}");
                }
            }
        }
        assert!(run(&mut scratch, &mut now, all) == plain, "seed {seed}");
    }
}
