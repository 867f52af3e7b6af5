//! Reads of a sub-request: from the copy that answers soonest, verified where checksums are known,
//! once more from another copy when one fails.

use super::{Path, keeping};
use crate::io::request::{Fragment, RequestError};
use crate::io::sides::{distrust, other_side, sources_of};
use crate::io::sources::{best_copy, may_keep};
use crate::map::copies::copy_failed;
use crate::map::overlay::Side;
use crate::map::place::Place;
use crate::map::presence::around_blocks;
use crate::moves::feeding;
use crate::pools::flight::Flight;
use std::ops::Range;
use thermocline_ports::{Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Nanos, PoolId};

impl Path<'_> {
    pub(crate) fn begin_read(&mut self, now: Nanos, sub_request: u32) {
        let (chunk, range) = (
            self.group.sub_requests[sub_request].chunk,
            self.group.sub_requests[sub_request].range.clone(),
        );
        assert!(self.group.sub_requests[sub_request].order > 0, "only what has begun reads");
        if self.group.map.overlay(chunk).is_none() {
            self.read_run(now, sub_request, range);
            return self.conclude_if_done(now, sub_request);
        }
        self.read_sides(now, sub_request, &range);
        self.conclude_if_done(now, sub_request);
    }

    /// Reads a run from the copy with the shortest expected wait that has not failed yet.
    pub(crate) fn read_run(&mut self, now: Nanos, sub_request: u32, run: Range<u32>) {
        let chunk = self.group.sub_requests[sub_request].chunk;
        assert!(run.start < run.end, "something is read");
        if self.group.map.entry(chunk).first().is_none() {
            let length = run.end - run.start;
            return self.add_fragment(sub_request, run.start, Payload::Zeroes(length));
        }
        match best_copy(self.group, chunk, &run, |place| {
            self.group.sub_requests[sub_request].avoided.contains(&place)
        }) {
            Some(place) => match keeping::read_lines(self.group, now, sub_request, &run) {
                Some((pool, sent)) => self.lines_read(sub_request, pool, sent),
                None => self.sub_request_read(now, sub_request, place, run),
            },
            None => self.group.sub_requests[sub_request].error = Some(RequestError::Io),
        }
    }

    /// Counts `sent` reads of lines as under way for a sub-request.
    fn lines_read(&mut self, sub_request: u32, pool: PoolId, sent: u32) {
        assert!(sent > 0, "what lines answer is read");
        // The first of several takes the place in the pool's queue.
        self.group.sub_requests[sub_request].outstanding += 1;
        self.note_sent(sub_request, pool);
        self.group.sub_requests[sub_request].outstanding += sent - 1;
    }

    pub(crate) fn sub_request_read(
        &mut self,
        now: Nanos,
        sub_request: u32,
        place: Place,
        run: Range<u32>,
    ) {
        self.group.sub_requests[sub_request].outstanding += 1;
        // Whole blocks where they can be verified, because checksums are of whole blocks, and where
        // they may become lines.
        let chunk = self.group.sub_requests[sub_request].chunk;
        let whole = self.checksums.can_verify(chunk, &run) || may_keep(self.group, chunk, &run);
        let run = if whole { around_blocks(&run) } else { run };
        assert!(run.end <= self.group.pools.chunk_bytes(), "nothing of another chunk is read");
        let offset =
            self.group.pools[place.pool].address(place, run.start, self.group.pools.chunk_bytes());
        let io = Io::Read { offset, length: run.end - run.start };
        self.send_to(now, place, sub_request, run.start, io);
    }

    /// A copy was read: its contents are the client's, unless they are known to be others.
    pub(crate) fn sub_request_read_done(
        &mut self,
        now: Nanos,
        sub_request: u32,
        at: u32,
        flight: &Flight,
        payload: Payload,
    ) {
        let (chunk, order) = (
            self.group.sub_requests[sub_request].chunk,
            self.group.sub_requests[sub_request].order,
        );
        let bare =
            !self.group.pools[flight.pool].checksums && mutant("copy_without_table_believed");
        assert!(order > 0, "only what has begun reads");
        let wrong = if bare { 0 } else { self.checksums.wrong_blocks(chunk, at, &payload, order) };
        if wrong == 0 {
            feeding::offer(self.group, sub_request, flight.place(), at, &payload);
            keeping::keep_read(self.group, self.group.now, sub_request, at, &payload);
            return self.add_fragment(sub_request, at, payload);
        }
        let place = flight.place();
        self.group.pools[place.pool].counters.checksum_errors += u64::from(wrong);
        self.scrub.mend(chunk, wrong);
        let run = at..at + payload.len();
        if self.group.map.overlay(chunk).is_some() {
            return self.read_elsewhere(sub_request, run, place);
        }
        // The copy stays: the scrub repairs it in place.
        self.group.sub_requests[sub_request].avoided.push(place);
        self.read_run(now, sub_request, run);
    }

    pub(crate) fn add_fragment(&mut self, sub_request: u32, at: u32, payload: Payload) {
        let sub_request = &self.group.sub_requests[sub_request];
        // What was read beside the range, to have whole blocks, is cut off.
        let from = sub_request.range.start.saturating_sub(at);
        let to = payload.len().min(sub_request.range.end - at);
        let (at, payload) = (at + from, payload.slice(from..to));
        let request = &mut self.requests.all[sub_request.request];
        let base = u64::from(sub_request.chunk.index) * u64::from(self.group.pools.chunk_bytes());
        let at = (base + u64::from(at) - request.start) as u32;
        let end = request.start + u64::from(at) + u64::from(payload.len());
        assert!(end <= request.end, "a fragment is of what was asked for");
        request.fragments.push(Fragment { at, payload });
    }

    /// A copy could not be read: it is dropped when another one can be, and the read goes there; or
    /// to where the chunk is now, if it has left that copy since.
    pub(crate) fn reread(&mut self, now: Nanos, sub_request: u32, run: Range<u32>, place: Place) {
        let chunk = self.group.sub_requests[sub_request].chunk;
        if self.group.map.overlay(chunk).is_some() {
            return self.read_elsewhere(sub_request, run, place);
        }
        assert!(run.end <= self.group.pools.chunk_bytes(), "nothing of another chunk is read");
        let still = self.group.map.copies(chunk).any(|copy| copy.place == place);
        let back = !still && self.group.map.copies(chunk).any(|copy| copy.place.pool == place.pool);
        met_if(back, "read failed on a pool that the chunk left and came back to");
        match back && mutant("read_fails_where_the_chunk_came_back") {
            true => self.group.sub_requests[sub_request]
                .avoided
                .extend(self.group.map.copies(chunk).map(|copy| copy.place)),
            false => self.group.sub_requests[sub_request].avoided.push(place),
        }
        let avoided = &self.group.sub_requests[sub_request].avoided;
        if best_copy(self.group, chunk, &run, |place| avoided.contains(&place)).is_none() {
            self.group.sub_requests[sub_request].error = Some(RequestError::Io);
            return;
        }
        if still {
            copy_failed(self.group, self.checksums, chunk, place.pool);
        }
        self.read_run(now, sub_request, run);
    }
    /// Reads `range` of a chunk in two parts, each run on a side that has it.
    pub(crate) fn read_sides(&mut self, now: Nanos, sub_request: u32, range: &Range<u32>) {
        let chunk = self.group.sub_requests[sub_request].chunk;
        assert!(range.start < range.end, "something is read");
        for (run, side) in sources_of(self.group, self.routing, chunk, range) {
            let place = self.group.map.place_on(chunk, side);
            if self.group.pools[place.pool].is_alive() {
                self.sub_request_read(now, sub_request, place, run);
            } else {
                self.group.sub_requests[sub_request].error = Some(RequestError::Io);
            }
        }
    }

    /// A run of a chunk in two parts could not be read: reads it on the other side of a mirrored
    /// chunk where that has it, and where the chunk is now if it has left the pool since.
    pub(crate) fn read_elsewhere(&mut self, sub_request: u32, run: Range<u32>, from: Place) {
        let (chunk, pool) = (self.group.sub_requests[sub_request].chunk, from.pool);
        let sides = [Side::Base, Side::Above].map(|side| self.group.map.place_on(chunk, side));
        let back = !sides.contains(&from) && sides.iter().any(|place| place.pool == pool);
        met_if(back, "read failed on a pool that the chunk left and came back to");
        let left = match back {
            true => !mutant("read_fails_where_the_chunk_came_back"),
            false => !sides.contains(&from) && !mutant("read_fails_where_the_chunk_was"),
        };
        if left {
            return self.read_sides(self.group.now, sub_request, &run);
        }
        let other = other_side(self.group, sub_request, &run, pool);
        self.group.sub_requests[sub_request].avoided.push(from);
        let Some(side) = other else {
            self.group.sub_requests[sub_request].error = Some(RequestError::Io);
            return;
        };
        let under_way = self.group.writes_under_way(chunk, &around_blocks(&run));
        met_if(under_way, "read failed on a side of a mirror under a write");
        if !under_way || mutant("failed_read_distrusts_under_a_write") {
            distrust(self.group, chunk, &run, pool);
        }
        let place = self.group.map.place_on(chunk, side);
        assert_ne!(place, from, "what could not be read there is read elsewhere");
        self.sub_request_read(self.group.now, sub_request, place, run);
    }
}
