//! The part of `Device`'s contract that any implementation in virtual time can be held to, as a
//! check that runs against any of them.
//!
//! 1. A seeded load of all operations is submitted, with as many requests in flight as asked for.
//! 2. Every ticket is answered exactly once; completions do not precede their submission; time
//!    never runs backwards; `next_event` is `None` exactly when nothing is in flight, and names a
//!    moment at which `poll` has something, and before which it has nothing.
//! 3. The same seed gives the same history.
//!
//! Contents are not checked: models have none. Failures panic with the seed.

mod accelerators;
mod packets;

pub use accelerators::check_accelerator;
pub use packets::check_packets;

use crate::{Completion, Device, Io, Payload, SECTOR, Ticket};
use std::collections::BTreeMap;
use thermocline_units::{Bytes, Nanos, Rng};

/// Most requests that one check keeps in flight.
const IN_FLIGHT_MAX: u64 = 64;

/// Longest request, in sectors.
const SECTORS_MAX: u64 = 512;

/// Holds the devices that `make` builds to the contract, with `requests` requests of load `seed`.
///
/// # Panics
/// When a device breaks it; that is the point.
pub fn check<D: Device>(mut make: impl FnMut() -> D, seed: u64, requests: u64) {
    let first = history(&mut make(), seed, requests);
    let second = history(&mut make(), seed, requests);
    assert_eq!(first, second, "seed {seed}: two runs of the same load differ");
}

/// Runs the load; returns every completion with its time.
fn history(device: &mut impl Device, seed: u64, requests: u64) -> Vec<(Nanos, Ticket, u32)> {
    let mut run = Run { seed, now: Nanos(0), in_flight: BTreeMap::new(), history: Vec::new() };
    let mut rng = Rng::seeded(seed);
    assert_eq!(device.next_event(), None, "seed {seed}: a fresh device has nothing in flight");
    for ticket in 0..requests {
        let target = rng.below(IN_FLIGHT_MAX);
        while run.in_flight.len() as u64 > target {
            run.step(device);
        }
        // Sometimes time passes before the next submission, without a completion being due.
        if rng.below(4) == 0 {
            let until = device.next_event().map_or(run.now.0 + 1_000_000, |next| next.0 - 1);
            run.now = Nanos(run.now.0 + rng.below(until.saturating_sub(run.now.0) + 1));
            run.poll_nothing(device);
        }
        let io = request(&mut rng, device.geometry().size);
        run.in_flight.insert(Ticket(ticket), (run.now, io.clone()));
        device.submit(run.now, Ticket(ticket), io);
    }
    while !run.in_flight.is_empty() {
        run.step(device);
    }
    assert_eq!(device.next_event(), None, "seed {seed}: all is answered, and yet there is more");
    run.history
}

struct Run {
    seed: u64,
    now: Nanos,
    in_flight: BTreeMap<Ticket, (Nanos, Io)>,
    history: Vec<(Nanos, Ticket, u32)>,
}

impl Run {
    /// Goes on to the next event and takes what completes there.
    fn step(&mut self, device: &mut impl Device) {
        let seed = self.seed;
        let next = device.next_event().expect("requests are in flight, so something will happen");
        assert!(next >= self.now, "seed {seed}: the next event lies in the past");
        if next > self.now {
            self.now = Nanos(next.0 - 1);
            self.poll_nothing(device);
        }
        self.now = next;
        let mut done = Vec::new();
        device.poll(self.now, &mut done);
        assert!(!done.is_empty(), "seed {seed}: an event at {next} that was none");
        for Completion { ticket, result } in done {
            let request = self.in_flight.remove(&ticket);
            let Some((submitted, io)) = request else {
                panic!("seed {seed}: {ticket:?} was answered twice or never asked");
            };
            assert!(submitted <= self.now, "seed {seed}: answered before it was asked");
            let data = result.expect("no faults were asked for");
            let wanted = match io {
                Io::Read { length, .. } => length,
                _ => 0,
            };
            assert_eq!(data.len(), wanted, "seed {seed}: a {io:?} was answered with so many bytes");
            self.history.push((self.now, ticket, data.len()));
        }
    }

    fn poll_nothing(&self, device: &mut impl Device) {
        let mut done = Vec::new();
        let next = device.next_event();
        device.poll(self.now, &mut done);
        assert!(done.is_empty(), "seed {}: completions before the next event", self.seed);
        assert_eq!(device.next_event(), next, "seed {}: an event moved by itself", self.seed);
    }
}

/// Any request, sometimes where the last ones were.
fn request(rng: &mut Rng, size: Bytes) -> Io {
    let sector = u64::from(SECTOR);
    let sectors = size.0 / sector;
    let range = if rng.below(2) == 0 { sectors } else { sectors.min(4 * SECTORS_MAX) };
    let first = rng.below(range);
    let count = 1 + rng.below(SECTORS_MAX.min(sectors - first));
    let (offset, length) = (Bytes(first * sector), (count * sector) as u32);
    match rng.below(10) {
        0 => Io::Flush,
        1 => Io::Discard { offset, length: Bytes(u64::from(length)) },
        2 => Io::WriteZeroes { offset, length: Bytes(u64::from(length)) },
        3..6 => Io::Write { offset, data: Payload::Zeroes(length), fua: rng.below(4) == 0 },
        _ => Io::Read { offset, length },
    }
}

#[cfg(test)]
mod tests;
