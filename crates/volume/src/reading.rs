//! How a part reads: from the copy that answers soonest, verified where checksums are
//! known, once more from another copy when one fails.

use crate::group::Group;
use crate::map::Place;
use crate::pools::flight::{Flight, Owner};
use crate::presence::around_blocks;
use crate::request::{Piece, RequestError};
use std::ops::Range;
use thermocline_policy::choice;
use thermocline_ports::{Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos};

impl Group {
    pub(crate) fn begin_read(&mut self, now: Nanos, part: u32) {
        let (chunk, range) = (self.parts[part].chunk, self.parts[part].range.clone());
        if self.map.overlay(chunk).is_none() {
            self.read_run(now, part, range);
            return self.conclude_if_done(now, part);
        }
        self.read_sides(now, part, &range);
        self.conclude_if_done(now, part);
    }

    /// Reads a run from the copy with the shortest expected wait that has not failed yet.
    pub(crate) fn read_run(&mut self, now: Nanos, part: u32, run: Range<u32>) {
        let chunk = self.parts[part].chunk;
        if self.map.entry(chunk).first().is_none() {
            let length = run.end - run.start;
            return self.add_piece(part, run.start, Payload::Zeroes(length));
        }
        match self.best_copy(chunk, &run, |place| self.parts[part].avoided.contains(&place)) {
            Some(place) => self.part_read(now, part, place, run),
            None => self.parts[part].error = Some(RequestError::Io),
        }
    }

    /// The copy to read `range` from, among those on pools that live that have not failed.
    pub(crate) fn best_copy(
        &self,
        chunk: ChunkId,
        range: &Range<u32>,
        failed: impl Fn(Place) -> bool,
    ) -> Option<Place> {
        let arriving = self.arriving_copy(chunk, range);
        let copies = self.map.copies(chunk).map(|copy| copy.place).chain(arriving);
        let copies = copies.filter(|&place| self.pools[place.pool].is_alive() && !failed(place));
        choice::soonest(copies, |place| self.pools[place.pool].expected_wait(self.now))
    }

    pub(crate) fn part_read(&mut self, now: Nanos, part: u32, place: Place, run: Range<u32>) {
        self.parts[part].outstanding += 1;
        // Whole blocks where they can be verified, because checksums are of whole blocks.
        let verified = self.can_verify(self.parts[part].chunk, &run);
        let run = if verified { around_blocks(&run) } else { run };
        let offset = self.pools[place.pool].address(place, run.start, self.pools.chunk_bytes());
        let io = Io::Read { offset, length: run.end - run.start };
        let flight = self.send(now, place.pool, Owner::Part { part, at: run.start }, io);
        self.pools.note_slot(flight, place.slot);
    }

    /// A copy was read: its contents are the client's, unless they are known to be others.
    pub(crate) fn part_read_done(
        &mut self,
        now: Nanos,
        part: u32,
        at: u32,
        flight: &Flight,
        payload: Payload,
    ) {
        let (chunk, order) = (self.parts[part].chunk, self.parts[part].order);
        let bare = !self.pools[flight.pool].checksums && mutant("copy_without_table_believed");
        let wrong = if bare { 0 } else { self.wrong_blocks(chunk, at, &payload, order) };
        if wrong == 0 {
            return self.add_piece(part, at, payload);
        }
        let place = flight.place();
        self.pools[place.pool].counters.checksum_errors += u64::from(wrong);
        self.scrub.status.checksum_errors += u64::from(wrong);
        self.mend(chunk);
        let run = at..at + payload.len();
        if self.map.overlay(chunk).is_some() {
            return self.read_elsewhere(part, run, place);
        }
        // The copy stays: the scrub repairs it in place.
        self.parts[part].avoided.push(place);
        self.read_run(now, part, run);
    }

    pub(crate) fn add_piece(&mut self, part: u32, at: u32, payload: Payload) {
        let part = &self.parts[part];
        // What was read beside the range, to have whole blocks, is cut off.
        let from = part.range.start.saturating_sub(at);
        let to = payload.len().min(part.range.end - at);
        let (at, payload) = (at + from, payload.slice(from..to));
        let request = &mut self.requests[part.request];
        let base = u64::from(part.chunk.index) * u64::from(self.pools.chunk_bytes());
        let at = (base + u64::from(at) - request.start) as u32;
        request.pieces.push(Piece { at, payload });
    }

    /// A copy could not be read: it is dropped when another one can be, and the read goes there; or
    /// to where the chunk is now, if it has left that copy since.
    pub(crate) fn reread(&mut self, now: Nanos, part: u32, run: Range<u32>, place: Place) {
        let chunk = self.parts[part].chunk;
        if self.map.overlay(chunk).is_some() {
            return self.read_elsewhere(part, run, place);
        }
        let still = self.map.copies(chunk).any(|copy| copy.place == place);
        let back = !still && self.map.copies(chunk).any(|copy| copy.place.pool == place.pool);
        met_if(back, "read failed on a pool that the chunk left and came back to");
        match back && mutant("read_fails_where_the_chunk_came_back") {
            true => self.parts[part].avoided.extend(self.map.copies(chunk).map(|copy| copy.place)),
            false => self.parts[part].avoided.push(place),
        }
        let avoided = &self.parts[part].avoided;
        if self.best_copy(chunk, &run, |place| avoided.contains(&place)).is_none() {
            self.parts[part].error = Some(RequestError::Io);
            return;
        }
        if still {
            self.copy_failed(chunk, place.pool);
        }
        self.read_run(now, part, run);
    }
}
