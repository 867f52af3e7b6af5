//! The device of a cache's second tier, and what goes wrong with it.

use std::collections::VecDeque;
use thermocline_tunnel::{DiskDone, DiskJob, End};
use thermocline_units::situations::met;
use thermocline_units::{Nanos, Rng};

/// Bytes of a device; no tier is larger.
pub(crate) const DEVICE_BYTES: usize = 256 << 10;

/// A device with the jobs that it has not done, in their order.
pub(crate) struct Device {
    bytes: Vec<u8>,
    jobs: VecDeque<DiskJob>,
}

impl Device {
    pub(crate) fn new() -> Device {
        Device { bytes: vec![0; DEVICE_BYTES], jobs: VecDeque::new() }
    }

    /// Takes the end's jobs and does up to `count` of the oldest ones.
    pub(crate) fn work(&mut self, rng: &mut Rng, now: Nanos, end: &mut End, count: u64) {
        for _ in 0..count {
            while let Some(job) = end.next_disk_job() {
                self.jobs.push_back(job);
            }
            let Some(job) = self.jobs.pop_front() else { return };
            let done = self.done(rng, job);
            end.disk_done(now, done).expect("both ends keep the rules");
        }
    }

    fn done(&mut self, rng: &mut Rng, job: DiskJob) -> DiskDone {
        match job {
            DiskJob::Write { place, bytes } => {
                self.bytes[place as usize..][..bytes.len()].copy_from_slice(&bytes);
                DiskDone::Written { is_written: rng.below(50) > 0 }
            }
            DiskJob::Read { ticket, place, length } => {
                let mut bytes = self.bytes[place as usize..][..length].to_vec();
                match rng.below(12) {
                    0 => {
                        met("the device returned other bytes");
                        bytes[rng.below(length as u64) as usize] ^= 0x40;
                    }
                    1 => return DiskDone::Read { ticket, bytes: None },
                    _ => {}
                }
                DiskDone::Read { ticket, bytes: Some(bytes) }
            }
        }
    }
}
