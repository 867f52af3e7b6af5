//! A device whose writes stay in memory: what would happen, without its happening.
//!
//! 1. Writes, zeroes and discards become extents in an ordered map, answered after 1 ns; overlapped
//!    extents are cut. Nothing but reads ever reaches the device below.
//! 2. A read goes to the device, unless extents cover it whole; extents are laid over its answer.
//! 3. A flush has nothing to do.
//!
//! The contract holds: a discarded range reads as zeroes. What was written is gone with the
//! scratch device. State: 80 B an extent, and its bytes.

use crate::{Completion, Device, Geometry, Io, Payload, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thermocline_units::Nanos;

/// A run of bytes that was written.
#[derive(Debug, Clone)]
struct Extent {
    end: u64,
    /// `None`: zeroes.
    bytes: Option<Payload>,
}

/// A device whose writes stay in memory.
#[derive(Debug)]
pub struct ScratchDevice<D> {
    device: D,
    /// Extents by first byte; they do not overlap.
    extents: BTreeMap<u64, Extent>,
    /// Reads that the device has, by ticket.
    reads: BTreeMap<Ticket, Range<u64>>,
    /// Answers that need no device, by time.
    ready: VecDeque<(Nanos, Completion)>,
}

impl<D: Device> ScratchDevice<D> {
    /// A scratch device without writes over `device`.
    pub fn new(device: D) -> ScratchDevice<D> {
        ScratchDevice {
            device,
            extents: BTreeMap::new(),
            reads: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// The device below; only to wait for it, its answers come out of `poll` here.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    fn put(&mut self, range: Range<u64>, bytes: Option<Payload>) {
        self.split(range.start);
        self.split(range.end);
        let inside: Vec<u64> = self.extents.range(range.clone()).map(|(&start, _)| start).collect();
        for start in inside {
            self.extents.remove(&start);
        }
        self.extents.insert(range.start, Extent { end: range.end, bytes });
    }

    /// Makes an extent that goes over `at` end there, and another begin.
    fn split(&mut self, at: u64) {
        let Some((&start, extent)) = self.extents.range_mut(..at).next_back() else { return };
        if extent.end <= at {
            return;
        }
        let end = std::mem::replace(&mut extent.end, at);
        let right = extent.bytes.as_mut().map(|bytes| {
            let cut = (at - start) as u32;
            let right = bytes.slice(cut..bytes.len());
            *bytes = bytes.slice(0..cut);
            right
        });
        self.extents.insert(at, Extent { end, bytes: right });
    }

    /// Lays what was written over the bytes of a range; how many of them that covers.
    fn lay_over(&self, range: &Range<u64>, target: &mut [u8]) -> u64 {
        let first = self.extents.range(..=range.start).next_back().map_or(0, |(&start, _)| start);
        let mut covered = 0;
        for (&start, extent) in self.extents.range(first..range.end) {
            let (from, to) = (start.max(range.start), extent.end.min(range.end));
            if from >= to {
                continue;
            }
            covered += to - from;
            let target = &mut target[(from - range.start) as usize..(to - range.start) as usize];
            match &extent.bytes {
                None => target.fill(0),
                Some(bytes) => {
                    bytes.slice((from - start) as u32..(to - start) as u32).copy_to(target);
                }
            }
        }
        covered
    }

    fn answer(&mut self, now: Nanos, ticket: Ticket, payload: Payload) {
        let completion = Completion { ticket, result: Ok(payload) };
        self.ready.push_back((Nanos(now.0 + 1), completion));
    }
}

impl<D: Device> Device for ScratchDevice<D> {
    fn geometry(&self) -> Geometry {
        Geometry { discard_zeroes: true, ..self.device.geometry() }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        if let Some((offset, length)) = io.range() {
            self.geometry().sectors(offset, length);
        }
        match io {
            Io::Read { offset, length } => {
                let range = offset.0..offset.0 + u64::from(length);
                let mut bytes = vec![0; length as usize];
                if self.lay_over(&range, &mut bytes) == u64::from(length) {
                    return self.answer(now, ticket, Payload::from(bytes));
                }
                self.reads.insert(ticket, range);
                return self.device.submit(now, ticket, io);
            }
            Io::Write { offset, data, .. } => {
                self.put(offset.0..offset.0 + u64::from(data.len()), Some(data));
            }
            Io::Discard { offset, length } | Io::WriteZeroes { offset, length } => {
                self.put(offset.0..offset.0 + length.0, None);
            }
            Io::Flush => {}
        }
        self.answer(now, ticket, Payload::EMPTY);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let first = done.len();
        self.device.poll(now, done);
        for completion in &mut done[first..] {
            let range = self.reads.remove(&completion.ticket).expect("only reads go below");
            if let Ok(payload) = &mut completion.result {
                let mut bytes = payload.to_vec();
                if self.lay_over(&range, &mut bytes) > 0 {
                    *payload = Payload::from(bytes);
                }
            }
        }
        while self.ready.front().is_some_and(|(at, _)| *at <= now) {
            done.extend(self.ready.pop_front().map(|(_, completion)| completion));
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|(at, _)| *at);
        match (ready, self.device.next_event()) {
            (Some(ready), Some(device)) => Some(ready.min(device)),
            (ready, device) => ready.or(device),
        }
    }
}

#[cfg(test)]
mod tests;
