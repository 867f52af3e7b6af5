//! How a part writes: to every copy, to the blocks of an overlay, to the copy that is being made;
//! and what becomes of copies that missed it.

use crate::foreground::{Verb, bit};
use crate::format::Record;
use crate::group::Group;
use crate::map::Place;
use crate::pools::flight::Owner;
use crate::request::RequestError;
use std::ops::Range;
use thermocline_ports::{Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos};

impl Group {
    /// True if a discard of blocks may be passed on: no copy may show garbage afterwards.
    pub(crate) fn discards_to_zero(&self, chunk: ChunkId) -> bool {
        self.map.is_simple(chunk)
            && (self.operation_on(chunk).is_none() || mutant("discard_passed_on_under_a_copy"))
            && self.map.copies(chunk).all(|c| self.pools[c.place.pool].geometry.discard_zeroes)
    }

    pub(crate) fn begin_write(&mut self, now: Nanos, part: u32) {
        let chunk = self.parts[part].chunk;
        if self.map.entry(chunk).first().is_none() {
            if matches!(self.parts[part].verb, Verb::Write(_)) {
                return self.open_chunk(now, part);
            }
            return self.conclude(now, part); // Zeroes onto what reads as zeroes.
        }
        self.redirect_write(chunk);
        let range = self.parts[part].range.clone();
        if self.map.overlay(chunk).is_some() {
            let targets = self.targets_of(part);
            for (run, side) in targets {
                let place = self.map.place_on(chunk, side);
                if self.pools[place.pool].is_alive() {
                    self.parts[part].sent.push((run.clone(), place));
                }
                self.part_write(now, part, place, run);
            }
        } else {
            let places: Vec<Place> = self.map.copies(chunk).map(|copy| copy.place).collect();
            for place in places {
                self.part_write(now, part, place, range.clone());
            }
        }
        if let Some(place) = self.mirror_of(chunk, &range) {
            self.part_write(now, part, place, range);
        }
        self.conclude_if_done(now, part);
    }

    pub(crate) fn part_write(&mut self, now: Nanos, part: u32, place: Place, run: Range<u32>) {
        if !self.pools[place.pool].is_alive() {
            self.parts[part].failed |= bit(place.pool);
            return;
        }
        let offset = self.pools[place.pool].address(place, run.start, self.pools.chunk_bytes());
        let state = &mut self.parts[part];
        state.outstanding += 1;
        let length = Bytes(u64::from(run.end - run.start));
        let io = match &state.verb {
            Verb::Write(payload) => {
                let from = run.start - state.range.start;
                let data = payload.slice(from..from + (run.end - run.start));
                Io::Write { offset, data, fua: state.fua }
            }
            Verb::Zero => Io::WriteZeroes { offset, length },
            Verb::Discard => Io::Discard { offset, length },
            Verb::Read => unreachable!("reads are not written"),
        };
        self.send(now, place.pool, Owner::Part { part, at: run.start }, io);
    }

    /// A write to a chunk begins: what is known of its blocks is true no more.
    pub(crate) fn note_write(&mut self, now: Nanos, part: u32) {
        let (chunk, order) = (self.parts[part].chunk, self.parts[part].order);
        self.checksums.write_begins(chunk, &self.parts[part].range, order);
        if self.scrub.disturb(chunk) {
            self.watch(now, chunk);
        }
    }

    /// A write has succeeded wherever it went: its blocks are known.
    fn note_written(&mut self, part: u32) {
        let state = &self.parts[part];
        if state.error.is_some() || self.map.entry(state.chunk).first().is_none() {
            return;
        }
        let at = state.range.start;
        let written = match &state.verb {
            Verb::Write(payload) => payload,
            Verb::Zero => &Payload::Zeroes(state.range.end - at),
            Verb::Discard | Verb::Read => return,
        };
        self.checksums.written(state.chunk, at, written, self.parts_begun);
    }

    /// Settles a write's effect on the chunk's copies: which are to be dropped, which blocks
    /// arrived.
    pub(crate) fn settle_write(&mut self, now: Nanos, part: u32) {
        let state = &self.parts[part];
        let (chunk, range) = (state.chunk, state.range.clone());
        let (failed, succeeded) = (state.failed, state.succeeded);
        let sent = std::mem::take(&mut self.parts[part].sent);
        self.blocks_written(chunk, &sent);
        if failed == 0 {
            self.note_written(part);
            self.touch_copies(now, chunk);
            return;
        }
        let copies: Vec<Place> = self.map.copies(chunk).map(|copy| copy.place).collect();
        let safe = copies.iter().any(|p| succeeded & bit(p.pool) != 0 && failed & bit(p.pool) == 0);
        self.mirror_disagrees(chunk, &range, failed, safe);
        let overlay = self.map.overlay(chunk).map(|overlay| overlay.place);
        let overlaid = overlay.is_some();
        // What failed on a copy that has been dropped since is no loss to a chunk in two parts.
        let missed = copies.iter().chain(&overlay).any(|place| failed & bit(place.pool) != 0);
        if !safe || overlaid && missed {
            let error = self.parts[part].error;
            self.parts[part].error = Some(error.unwrap_or(RequestError::Io));
        } else {
            self.parts[part].error = None;
        }
        // Copies that missed the write, and after a write that no copy took all but the first: they
        // may differ now.
        for (index, place) in copies.iter().enumerate() {
            let differs = if safe { failed & bit(place.pool) != 0 } else { index > 0 };
            if differs && !overlaid && !mutant("copy_stays_that_missed_a_write") {
                self.copy_failed(chunk, place.pool);
            }
        }
        self.touch_copies(now, chunk);
    }

    /// Unmaps a chunk on which nothing else is under way.
    pub(crate) fn unmap(&mut self, chunk: ChunkId) {
        let state = self.map.state(chunk);
        let overlay = state.overlay.as_ref().map(|(place, _)| *place);
        let places: Vec<Place> =
            state.copies.iter().map(|copy| copy.place).chain(overlay).collect();
        if places.is_empty() {
            return;
        }
        self.copier.overlays -= usize::from(overlay.is_some());
        for copy in state.copies.iter().filter(|copy| copy.prefetched) {
            self.pools[copy.place.pool].uncount_prefetched();
        }
        self.map.set_state(chunk, &Default::default());
        self.checksums.forget(chunk);
        self.journal.change(&Record::Chunk(chunk, Default::default()), chunk, &places);
    }
}
