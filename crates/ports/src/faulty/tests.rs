//! Guarantees of the faulty ports, and those that they must be seen to break.

mod crash;
mod fate;
mod image;
mod link;

use super::{Faults, SimDisk};
use crate::{Completion, Device, DeviceError, Geometry, Io, Payload, SECTOR, Ticket};
use thermocline_units::{Bytes, Nanos};

const GEOMETRY: Geometry = Geometry { size: Bytes::from_mib(1), discard_zeroes: true, far: false };

fn disk(seed: u64) -> SimDisk {
    SimDisk::new(GEOMETRY, seed, Faults::NONE)
}

/// Sectors filled with `fill`.
fn filled(fill: u8, sectors: usize) -> Payload {
    Payload::from(vec![fill; sectors * SECTOR as usize])
}

fn write(sector: u64, fill: u8, sectors: usize) -> Io {
    Io::Write { offset: at(sector), data: filled(fill, sectors), fua: false }
}

fn forced(sector: u64, fill: u8, sectors: usize) -> Io {
    Io::Write { offset: at(sector), data: filled(fill, sectors), fua: true }
}

fn read(sector: u64, sectors: u32) -> Io {
    Io::Read { offset: at(sector), length: sectors * SECTOR }
}

fn at(sector: u64) -> Bytes {
    Bytes(sector * u64::from(SECTOR))
}

/// Polls until nothing is in flight; returns completions with their times.
fn drain(device: &mut impl Device) -> Vec<(Nanos, Completion)> {
    let mut all = Vec::new();
    let mut done = Vec::new();
    while let Some(now) = device.next_event() {
        device.poll(now, &mut done);
        all.extend(done.drain(..).map(|completion| (now, completion)));
    }
    all
}

/// Submits one request after everything before it, and waits for it.
fn run(device: &mut SimDisk, io: Io) -> Result<Payload, DeviceError> {
    let now = device.now();
    device.submit(now, Ticket(u64::MAX), io);
    let mut done = drain(device);
    assert_eq!(done.len(), 1, "only one request was in flight");
    done.remove(0).1.result
}

/// The first byte of each sector of a range.
fn fills(contents: &Payload) -> Vec<u8> {
    contents.to_vec().chunks(SECTOR as usize).map(|sector| sector[0]).collect()
}
