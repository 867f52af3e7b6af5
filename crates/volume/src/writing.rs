//! How a part writes: to every copy, to the blocks of an overlay, to the copy that is being made;
//! and what becomes of copies that missed it.

use crate::copies::copy_failed;
use crate::core::traffic::Verb;
use crate::core::traffic::bit;
use crate::format::Record;
use crate::group::Group;
use crate::map::Place;
use crate::moves::switching::mirror_disagrees;
use crate::moves::switching::mirror_of;
use crate::pools::flight::Owner;
use crate::request::RequestError;
use std::ops::Range;
use thermocline_ports::{Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos};

impl Group {
    /// True if a discard of blocks may be passed on: no copy may show garbage afterwards.
    pub(crate) fn discards_to_zero(&self, chunk: ChunkId) -> bool {
        self.core.map.is_simple(chunk)
            && (self.core.operation_on(chunk).is_none() || mutant("discard_passed_on_under_a_copy"))
            && self
                .core
                .map
                .copies(chunk)
                .all(|c| self.core.pools[c.place.pool].geometry.discard_zeroes)
    }

    pub(crate) fn begin_write(&mut self, now: Nanos, part: u32) {
        let chunk = self.core.parts[part].chunk;
        if self.core.map.entry(chunk).first().is_none() {
            if matches!(self.core.parts[part].verb, Verb::Write(_)) {
                return self.open_chunk(now, part);
            }
            return self.conclude(now, part); // Zeroes onto what reads as zeroes.
        }
        self.redirect_write(chunk);
        let range = self.core.parts[part].range.clone();
        if self.core.map.overlay(chunk).is_some() {
            let targets = self.targets_of(part);
            for (run, side) in targets {
                let place = self.core.map.place_on(chunk, side);
                if self.core.pools[place.pool].is_alive() {
                    self.core.parts[part].sent.push((run.clone(), place));
                }
                self.part_write(now, part, place, run);
            }
        } else {
            let places: Vec<Place> = self.core.map.copies(chunk).map(|copy| copy.place).collect();
            for place in places {
                self.part_write(now, part, place, range.clone());
            }
        }
        if let Some(place) = mirror_of(&self.core, chunk, &range) {
            self.part_write(now, part, place, range);
        }
        self.conclude_if_done(now, part);
    }

    pub(crate) fn part_write(&mut self, now: Nanos, part: u32, place: Place, run: Range<u32>) {
        if !self.core.pools[place.pool].is_alive() {
            self.core.parts[part].failed |= bit(place.pool);
            return;
        }
        let offset =
            self.core.pools[place.pool].address(place, run.start, self.core.pools.chunk_bytes());
        let state = &mut self.core.parts[part];
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
        let (chunk, order) = (self.core.parts[part].chunk, self.core.parts[part].order);
        self.checksums.write_begins(chunk, &self.core.parts[part].range, order);
        if self.scrub.disturb(chunk) {
            self.checksums.watch(&mut self.core, now, chunk);
        }
    }

    /// A write has succeeded wherever it went: its blocks are known.
    fn note_written(&mut self, part: u32) {
        let state = &self.core.parts[part];
        if state.error.is_some() || self.core.map.entry(state.chunk).first().is_none() {
            return;
        }
        let at = state.range.start;
        let written = match &state.verb {
            Verb::Write(payload) => payload,
            Verb::Zero => &Payload::Zeroes(state.range.end - at),
            Verb::Discard | Verb::Read => return,
        };
        self.checksums.written(state.chunk, at, written, self.core.parts_begun);
    }

    /// Settles a write's effect on the chunk's copies: which are to be dropped, which blocks
    /// arrived.
    pub(crate) fn settle_write(&mut self, now: Nanos, part: u32) {
        let state = &self.core.parts[part];
        let (chunk, range) = (state.chunk, state.range.clone());
        let (failed, succeeded) = (state.failed, state.succeeded);
        let sent = std::mem::take(&mut self.core.parts[part].sent);
        self.core.blocks_written(chunk, &sent);
        if failed == 0 {
            self.note_written(part);
            self.core.touch_copies(now, chunk);
            return;
        }
        let copies: Vec<Place> = self.core.map.copies(chunk).map(|copy| copy.place).collect();
        let safe = copies.iter().any(|p| succeeded & bit(p.pool) != 0 && failed & bit(p.pool) == 0);
        mirror_disagrees(&mut self.core, chunk, &range, failed, safe);
        let overlay = self.core.map.overlay(chunk).map(|overlay| overlay.place);
        let overlaid = overlay.is_some();
        // What failed on a copy that has been dropped since is no loss to a chunk in two parts.
        let missed = copies.iter().chain(&overlay).any(|place| failed & bit(place.pool) != 0);
        if !safe || overlaid && missed {
            let error = self.core.parts[part].error;
            self.core.parts[part].error = Some(error.unwrap_or(RequestError::Io));
        } else {
            self.core.parts[part].error = None;
        }
        // Copies that missed the write, and after a write that no copy took all but the first: they
        // may differ now.
        for (index, place) in copies.iter().enumerate() {
            let differs = if safe { failed & bit(place.pool) != 0 } else { index > 0 };
            if differs && !overlaid && !mutant("copy_stays_that_missed_a_write") {
                copy_failed(&mut self.core, &mut self.checksums, chunk, place.pool);
            }
        }
        self.core.touch_copies(now, chunk);
    }

    /// Unmaps a chunk on which nothing else is under way.
    pub(crate) fn unmap(&mut self, chunk: ChunkId) {
        let state = self.core.map.state(chunk);
        let overlay = state.overlay.as_ref().map(|(place, _)| *place);
        let places: Vec<Place> =
            state.copies.iter().map(|copy| copy.place).chain(overlay).collect();
        if places.is_empty() {
            return;
        }
        self.core.overlays -= usize::from(overlay.is_some());
        for copy in state.copies.iter().filter(|copy| copy.prefetched) {
            self.core.pools[copy.place.pool].uncount_prefetched();
        }
        self.core.map.set_state(chunk, &Default::default());
        self.checksums.forget(chunk);
        self.core.journal.change(&Record::Chunk(chunk, Default::default()), chunk, &places);
    }
}
