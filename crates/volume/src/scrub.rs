//! The scrub: reads every copy of every replicated chunk, compares, and repairs.
//!
//! 1. Chunk by chunk, piece by piece, the same range is read from all copies, behind the throttle
//!    of operations.
//! 2. A copy that cannot be read is dropped and made anew from the others.
//! 3. Copies that differ although no write came between: the contents that most copies have are
//!    right, among equals those of the first copy; the others are dropped and made anew.
//!
//! Two copies alone cannot say which of them is right; a third can, and so can a seal
//! ([`crate::seals`]): of a sealed chunk every copy is held against its checksums. A chunk that is
//! to be sealed goes the same way, and gets its seal at the end. Chunks under an operation,
//! or in two parts after one, are passed over: a later scrub finds them.

use crate::flight::Owner;
use crate::group::{Group, Service};
use crate::map::{NONE, Place};
use crate::seals::checksums;
use crate::throttle::Held;
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos};

/// What scrubs have found since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrubStatus {
    /// Whether one is under way.
    pub running: bool,
    /// Chunks whose copies were compared to the end.
    pub chunks: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Copies dropped because they could not be read.
    pub unreadable: u64,
    /// Copies dropped because they differed.
    pub differing: u64,
    /// Pieces of sealed chunks that no copy has as they were sealed.
    pub lost: u64,
}

/// The chunk that is being compared.
#[derive(Debug)]
struct Comparison {
    chunk: ChunkId,
    places: Vec<Place>,
    /// The piece under way.
    range: Range<u32>,
    /// What was read, in the order of `places`.
    found: Vec<Option<Result<Payload, DeviceError>>>,
    outstanding: u32,
    /// Whether a write to the chunk began since the piece was sent for.
    spoiled: bool,
    /// Whether a write to the chunk began since the comparison did.
    touched: bool,
    /// Checksums of the pieces so far.
    sums: Vec<u32>,
    /// Whether the seals are being written, and whether one could not be.
    sealing: bool,
    seal_failed: bool,
    held_since: Option<Nanos>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    /// The chunks that are still to be looked at, last first.
    queue: Vec<ChunkId>,
    current: Option<Comparison>,
    status: ScrubStatus,
}

impl Scrub {
    /// A write to `chunk` begins.
    pub(crate) fn disturb(&mut self, chunk: ChunkId) {
        if let Some(current) = self.current.as_mut().filter(|current| current.chunk == chunk) {
            current.spoiled = true;
            current.touched = true;
        }
    }

    /// Looks at a chunk soon.
    pub(crate) fn request(&mut self, chunk: ChunkId) {
        self.queue.push(chunk);
    }

    fn is_running(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty()
    }

    /// Whether requests of the scrub are on devices.
    pub(crate) fn is_on_devices(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.outstanding > 0)
    }
}

impl Group {
    /// Starts verifying all chunks that have several copies or a seal.
    pub fn scrub(&mut self, now: Nanos) {
        if self.service == Service::Ready {
            let worth = |&chunk: &ChunkId| {
                self.map.copies(chunk).count() > 1 || self.map.entry(chunk).is_sealed()
            };
            let mut chunks: Vec<ChunkId> = self.map.chunks().filter(worth).collect();
            chunks.reverse();
            // In front of them, on top, whatever waits to be sealed.
            chunks.append(&mut self.scrub.queue);
            self.scrub.queue = chunks;
            self.pump(now);
        }
    }

    /// What scrubs have found since the group was opened.
    pub fn scrub_status(&self) -> ScrubStatus {
        ScrubStatus { running: self.scrub.is_running(), ..self.scrub.status }
    }

    /// Ends a scrub, once what is on devices has come back.
    pub(crate) fn stop_scrub(&mut self) {
        self.scrub.queue.clear();
    }

    /// Takes the next step.
    pub(crate) fn pump_scrub(&mut self, now: Nanos) {
        while !self.scrub.is_on_devices() {
            if self.service != Service::Ready {
                self.scrub.current = None;
                return;
            }
            if self.scrub.current.is_none() {
                let Some(chunk) = self.scrub.queue.pop() else { return };
                self.scrub.current = self.comparison_of(chunk);
                if self.scrub.current.is_none() && self.map.has(chunk) {
                    self.watch(now, chunk);
                }
                continue;
            }
            if !self.compare_piece(now) {
                return;
            }
        }
    }

    fn comparison_of(&self, chunk: ChunkId) -> Option<Comparison> {
        if !self.is_whole(chunk) {
            return None;
        }
        let places: Vec<Place> = self.map.copies(chunk).map(|copy| copy.place).collect();
        let worth = places.len() > 1 || self.settings.checksums && !places.is_empty();
        worth.then(|| Comparison {
            chunk,
            places,
            range: 0..0,
            found: Vec::new(),
            outstanding: 0,
            spoiled: false,
            touched: false,
            sums: Vec::new(),
            sealing: false,
            seal_failed: false,
            held_since: None,
        })
    }

    /// Sends the reads of the next piece; false when the throttle holds them back.
    fn compare_piece(&mut self, now: Nanos) -> bool {
        let current = self.scrub.current.as_ref().expect("a chunk is being compared");
        let (chunk, start) = (current.chunk, current.range.end);
        if start == self.chunk_size || !self.still_there(chunk, &current.places) {
            self.end_comparison(now);
            return true;
        }
        if !self.seal_is_at_hand(now, chunk, false) {
            return false; // Its arrival leads back here.
        }
        let current = self.scrub.current.as_ref().expect("a chunk is being compared");
        let length = (self.settings.copying.piece.0 as u32).min(self.chunk_size - start);
        let range = start..start + length;
        if self.writes_under_way(chunk, &range) {
            // The write's end leads back here.
            return false;
        }
        let pools: Vec<_> = current.places.iter().map(|place| place.pool).collect();
        let held = self.hold_back(now, &pools, length, current.held_since);
        let places = current_places(&mut self.scrub, held, &range);
        if held != Held::Free {
            return false;
        }
        for (index, place) in places.into_iter().enumerate() {
            let offset = self.pool(place.pool).address(place, range.start, self.chunk_size);
            let owner = Owner::Scrub { copy: index as u8 };
            self.send(now, place.pool, owner, Io::Read { offset, length });
        }
        true
    }

    /// The chunk was read from end to end, or has moved: seals it, or lets go of it.
    fn end_comparison(&mut self, now: Nanos) {
        let current = self.scrub.current.as_ref().expect("a chunk is being compared");
        let chunk = current.chunk;
        let whole = current.range.end == self.chunk_size;
        self.scrub.status.chunks += u64::from(whole && !current.sealing);
        let untouched = whole
            && (!current.touched || mutant("sealed_though_written"))
            && self.still_there(chunk, &current.places);
        let sealable = untouched && self.settings.checksums && self.is_idle_and_unsealed(chunk);
        if sealable && !current.sealing {
            let sums = current.sums.clone();
            let writes = self.write_seals(now, chunk, &sums);
            let current = self.scrub.current.as_mut().expect("still there");
            (current.sealing, current.outstanding) = (true, writes);
            return;
        }
        let current = self.scrub.current.take().expect("still there");
        if sealable && !current.seal_failed {
            self.seal(chunk, current.sums.into_boxed_slice());
        } else if self.map.has(chunk) && !self.map.entry(chunk).is_sealed() {
            self.watch(now, chunk);
        }
    }

    fn is_idle_and_unsealed(&self, chunk: ChunkId) -> bool {
        let entry = self.map.entry(chunk);
        entry.traffic == NONE && !entry.is_sealed()
    }

    /// A seal of the chunk under comparison was written, or could not be.
    pub(crate) fn seal_written(&mut self, written: bool) {
        let current = self.scrub.current.as_mut().expect("its seals are being written");
        current.outstanding -= 1;
        current.seal_failed |= !written;
    }

    fn still_there(&self, chunk: ChunkId, places: &[Place]) -> bool {
        self.is_whole(chunk)
            && self.map.copies(chunk).map(|copy| copy.place).eq(places.iter().copied())
    }

    /// Whether the chunk's copies hold all of it: no operation is under way, nothing redirected.
    fn is_whole(&self, chunk: ChunkId) -> bool {
        self.map.has(chunk)
            && self.operation_on(chunk).is_none()
            && self.map.overlay(chunk).is_none()
    }

    /// A copy's piece was read, or could not be.
    pub(crate) fn scrub_io_done(
        &mut self,
        copy: u8,
        bytes: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let current = self.scrub.current.as_mut().expect("its reads are on devices");
        self.scrub.status.read.0 += u64::from(bytes);
        current.found[usize::from(copy)] = Some(result);
        current.outstanding -= 1;
        if current.outstanding > 0 {
            return;
        }
        let current = self.scrub.current.as_ref().expect("still there");
        if self.still_there(current.chunk, &current.places) {
            self.judge();
        }
    }

    /// Drops the copies that could not be read or that are wrong.
    fn judge(&mut self) {
        let current = self.scrub.current.as_mut().expect("a piece was read");
        let found = std::mem::take(&mut current.found);
        let start = current.range.start;
        let (chunk, places, spoiled) = (current.chunk, current.places.clone(), current.spoiled);
        if std::mem::replace(&mut current.spoiled, false) {
            current.range.end = current.range.start; // Once more.
        }
        let read: Vec<Result<Payload, DeviceError>> = found.into_iter().flatten().collect();
        for (place, result) in places.iter().zip(&read) {
            if result.is_err() {
                self.copy_failed(chunk, place.pool);
                self.scrub.status.unreadable += 1;
            }
        }
        if spoiled {
            return;
        }
        let right = if self.map.entry(chunk).is_sealed() && !mutant("scrub_ignores_checksums") {
            let sealed = |payload: &&Payload| self.seals.agree(chunk, start, payload);
            let right = read.iter().flatten().find(sealed).cloned();
            self.scrub.status.lost += u64::from(right.is_none());
            right
        } else {
            most_common(&read)
        };
        let Some(right) = right else {
            // What could not be read has no checksum: the chunk is not sealed this time.
            let current = self.scrub.current.as_mut().expect("still there");
            current.touched = !mutant("sealed_though_unreadable");
            return;
        };
        for (place, result) in places.iter().zip(&read) {
            if result.as_ref().is_ok_and(|payload| *payload != right) {
                self.copy_failed(chunk, place.pool);
                self.scrub.status.differing += 1;
            }
        }
        let current = self.scrub.current.as_mut().expect("still there");
        current.sums.extend(checksums(&right));
    }
}

/// Notes what the throttle said and, where it let the piece go, what is under way.
fn current_places(scrub: &mut Scrub, held: Held, range: &Range<u32>) -> Vec<Place> {
    let current = scrub.current.as_mut().expect("a chunk is being compared");
    current.held_since = held.since();
    if held == Held::Free {
        current.range = range.clone();
        current.spoiled = false;
        current.found = vec![None; current.places.len()];
        current.outstanding = current.places.len() as u32;
    }
    current.places.clone()
}

/// The contents that most copies have; among equals, those of the first.
fn most_common(read: &[Result<Payload, DeviceError>]) -> Option<Payload> {
    let good: Vec<&Payload> = read.iter().flatten().collect();
    let votes = |payload: &Payload| good.iter().filter(|other| **other == payload).count();
    let mut best: Option<(&Payload, usize)> = None;
    for payload in &good {
        let count = votes(payload);
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((payload, count));
        }
    }
    best.map(|(payload, _)| payload.clone())
}
