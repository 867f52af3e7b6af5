//! Writes of a sub-request: to every copy, to the blocks of an overlay, to the copy that is being
//! made; and what becomes of copies that missed it.

use super::{Path, keeping};
use crate::format::Record;
use crate::group_state::GroupState;
use crate::io::busy_chunk::{Verb, bit};
use crate::io::first_slot::{self, FirstSlot};
use crate::io::request::RequestError;
use crate::io::sides::{distrust, other_side, targets_of};
use crate::map::block_checksums::BlockChecksums;
use crate::map::copies::copy_failed;
use crate::map::place::{ChunkCopy, Place};
use crate::moves::feeding;
use crate::moves::kept;
use crate::moves::switching::{mirror_disagrees, mirror_of};
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

impl Path<'_> {
    pub(crate) fn begin_write(&mut self, now: Nanos, sub_request: u32) {
        let chunk = self.group.sub_requests[sub_request].chunk;
        if self.group.map.entry(chunk).first().is_none() {
            if matches!(self.group.sub_requests[sub_request].verb, Verb::Write(_)) {
                return self.open_chunk(now, sub_request);
            }
            return self.conclude(now, sub_request); // Zeroes onto what reads as zeroes.
        }
        self.hinting.redirect_write(self.group, self.moves, chunk);
        let range = self.group.sub_requests[sub_request].range.clone();
        assert!(
            self.group.sub_requests[sub_request].sent.is_empty(),
            "a sub-request is written once"
        );
        debug_assert!(!self.checksums.can_verify(chunk, &range), "what was known is true no more");
        if self.group.map.overlay(chunk).is_some() {
            let targets = targets_of(self.group, self.routing, sub_request);
            for (run, side) in targets {
                let place = self.group.map.place_on(chunk, side);
                if self.group.pools[place.pool].is_alive() {
                    self.group.sub_requests[sub_request].sent.push((run.clone(), place));
                }
                self.sub_request_write(now, sub_request, place, run);
            }
        } else {
            for place in kept::places_to_write(self.group, self.checksums, chunk) {
                self.sub_request_write(now, sub_request, place, range.clone());
            }
        }
        let feeds = feeding::destination_of_write(self.group, sub_request);
        self.group.sub_requests[sub_request].feeds = feeds;
        if let Some(place) = mirror_of(self.group, chunk, &range).or(feeds) {
            self.sub_request_write(now, sub_request, place, range);
        }
        self.conclude_if_done(now, sub_request);
    }

    pub(crate) fn sub_request_write(
        &mut self,
        now: Nanos,
        sub_request: u32,
        place: Place,
        run: Range<u32>,
    ) {
        if !self.group.pools[place.pool].is_alive() {
            self.group.sub_requests[sub_request].failed |= bit(place.pool);
            return;
        }
        let offset =
            self.group.pools[place.pool].address(place, run.start, self.group.pools.chunk_bytes());
        let state = &mut self.group.sub_requests[sub_request];
        let whole = &state.range;
        assert!(whole.start <= run.start && run.end <= whole.end, "a run is of its part");
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
        self.send_to(now, place, sub_request, run.start, io);
    }

    /// A write to a chunk begins: what is known of its blocks is true no more.
    pub(crate) fn note_write(&mut self, now: Nanos, sub_request: u32) {
        let (chunk, order) = (
            self.group.sub_requests[sub_request].chunk,
            self.group.sub_requests[sub_request].order,
        );
        assert_eq!(
            order, self.group.sub_requests_begun,
            "it begins now: no read after it is older"
        );
        self.group.busy_chunk_of(chunk).note_write(order);
        let range = &self.group.sub_requests[sub_request].range;
        self.checksums.write_begins(chunk, range, order);
        self.group.lines.void(chunk, range);
        if self.scrub.disturb(chunk) {
            self.checksums.watch(self.group, now, chunk);
        }
    }

    /// A write has succeeded wherever it went: its blocks are known.
    fn note_written(&mut self, sub_request: u32) {
        let state = &mut self.group.sub_requests[sub_request];
        if state.error.is_some() || self.group.map.entry(state.chunk).first().is_none() {
            return;
        }
        assert_eq!(state.failed, 0, "what failed somewhere is not known");
        let at = state.range.start;
        let written = match &state.verb {
            Verb::Write(payload) => payload,
            Verb::Zero => &Payload::Zeroes(state.range.end - at),
            Verb::Discard | Verb::Read => return,
        };
        self.checksums.written(state.chunk, at, written, self.group.sub_requests_begun);
    }

    /// Settles a write's effect on the chunk's copies: which are to be dropped, which blocks
    /// arrived.
    pub(crate) fn settle_write(&mut self, now: Nanos, sub_request: u32) {
        let state = &mut self.group.sub_requests[sub_request];
        assert_eq!(state.outstanding, 0, "every pool has answered");
        let (chunk, range) = (state.chunk, state.range.clone());
        let (failed, succeeded) = (state.failed, state.succeeded);
        let sent = std::mem::take(&mut self.group.sub_requests[sub_request].sent);
        self.group.map.blocks_written(chunk, &sent, self.group.pools.chunk_bytes());
        let begun = self.group.sub_requests_begun;
        self.group.busy_chunk_of(chunk).note_write(begun);
        if failed == 0 {
            if let Some(to) = self.group.sub_requests[sub_request].feeds.take() {
                feeding::write_arrived(self.group, chunk, &range, to);
            }
            self.note_written(sub_request);
            keeping::keep_written(self.group, now, sub_request);
            self.group.map.touch_copies(now, chunk);
            return;
        }
        let copies: Vec<Place> = self.group.map.copies(chunk).map(|copy| copy.place).collect();
        let safe = copies.iter().any(|p| succeeded & bit(p.pool) != 0 && failed & bit(p.pool) == 0);
        mirror_disagrees(self.group, chunk, &range, failed, safe);
        let overlay = self.group.map.overlay(chunk).map(|overlay| overlay.place);
        let overlaid = overlay.is_some();
        // What failed on a copy that has been dropped since is no loss to a chunk in two parts.
        let missed = copies.iter().chain(&overlay).any(|place| failed & bit(place.pool) != 0);
        if !safe || overlaid && missed {
            let error = self.group.sub_requests[sub_request].error;
            self.group.sub_requests[sub_request].error = Some(error.unwrap_or(RequestError::Io));
        } else {
            self.group.sub_requests[sub_request].error = None;
        }
        // Copies that missed the write, and after a write that no copy took all but the first: they
        // may differ now.
        for (index, place) in copies.iter().enumerate() {
            let differs = if safe { failed & bit(place.pool) != 0 } else { index > 0 };
            if differs && !overlaid && !mutant("copy_stays_that_missed_a_write") {
                copy_failed(self.group, self.checksums, chunk, place.pool);
            }
        }
        let missed = |copy: ChunkCopy| failed & bit(copy.place.pool) != 0;
        debug_assert!(
            !safe || overlaid || !self.group.map.copies(chunk).any(missed),
            "no copy stays that missed a write"
        );
        self.group.map.touch_copies(now, chunk);
    }

    /// The run of a write that begins at byte `at` failed: sends it to the other side of a mirrored
    /// chunk where that may be; whether it did.
    pub(crate) fn write_elsewhere(&mut self, sub_request: u32, at: u32, pool: PoolId) -> bool {
        let chunk = self.group.sub_requests[sub_request].chunk;
        let sent =
            self.group.sub_requests[sub_request].sent.iter().position(|(run, _)| run.start == at);
        let (Some(sent), Some(_)) = (sent, self.group.map.overlay(chunk)) else { return false };
        let (run, place) = self.group.sub_requests[sub_request].sent.remove(sent);
        let other = other_side(self.group, sub_request, &run, pool);
        met_if(other.is_none(), "both sides of a mirror failed a write");
        if !mutant("failed_side_trusted") {
            distrust(self.group, chunk, &run, pool);
        }
        self.group.sub_requests[sub_request].avoided.push(place);
        let Some(side) = other else { return false };
        let failed = place;
        let place = self.group.map.place_on(chunk, side);
        assert_ne!(place, failed, "what failed there goes elsewhere");
        self.group.sub_requests[sub_request].sent.push((run.clone(), place));
        self.sub_request_write(self.group.now, sub_request, place, run);
        true
    }

    /// A write to a chunk ends, which has written something: whoever placed the chunk and is not
    /// answered yet places it nowhere else, because these contents are there.
    pub(crate) fn stays_where_written(&mut self, sub_request: u32) {
        let state = &self.group.sub_requests[sub_request];
        if state.succeeded == 0 || mutant("placed_elsewhere_after_a_write") {
            return;
        }
        let index = self.group.map.busy_index(state.chunk).expect("who ends is still on it");
        let GroupState { busy_chunks, sub_requests, .. } = &mut *self.group;
        let running = &busy_chunks[index].running;
        debug_assert!(running.contains(&sub_request), "who ends is still on the chunk");
        running.iter().for_each(|&other| sub_requests[other].placed_on = None);
    }

    /// The first write to the new chunk of a sub-request found no room: places the chunk on another
    /// pool. False where something else is or was on the chunk already; the write fails then.
    pub(crate) fn places_elsewhere(&mut self, now: Nanos, sub_request: u32, pool: PoolId) -> bool {
        let state = &mut self.group.sub_requests[sub_request];
        let chunk = state.chunk;
        if state.placed_on != Some(pool)
            || state.outstanding > 0
            || !self.group.map.is_simple(chunk)
        {
            return false;
        }
        let busy = self.group.busy_chunk(chunk).expect("the sub-request is on it");
        let others = busy.running.iter().filter(|&&other| other != sub_request);
        let alone = !others.into_iter().any(|&other| self.group.sub_requests[other].is_write());
        let there = self.group.map.entry(chunk).first().is_some_and(|place| place.pool == pool);
        if !alone || !there || busy.operation.is_some() {
            return false;
        }
        unmap(self.group, self.checksums, chunk);
        assert!(self.group.map.entry(chunk).first().is_none(), "it is nowhere, until it is placed");
        let state = &mut self.group.sub_requests[sub_request];
        state.placed_on = None;
        state.unfit |= bit(pool);
        self.open_chunk(now, sub_request);
        true
    }
    fn place_chunk(&mut self, now: Nanos, sub_request: u32, place: Place) {
        let chunk = self.group.sub_requests[sub_request].chunk;
        self.group.sub_requests[sub_request].error = None;
        let mut state = self.group.map.state(chunk);
        assert!(state.copies.is_empty(), "a chunk is placed once");
        assert!(self.group.pools[place.pool].slots.is_taken(place.slot), "nobody else gets it");
        state.copies = vec![ChunkCopy::wanted(place)];
        self.checksums.watch(self.group, now, chunk);
        self.group.map.set_state(chunk, &state);
        assert_eq!(self.group.map.entry(chunk).first(), Some(place), "it is where it was placed");
        self.group.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        let range = self.group.sub_requests[sub_request].range.clone();
        if self.group.pools.keep_checksums() {
            let most = self.group.settings.limits.tables_cached;
            self.checksums.opened(chunk, self.group.pools.chunk_bytes(), most, &self.group.map);
            self.checksums.write_begins(chunk, &range, self.group.sub_requests_begun);
        }
        self.group.sub_requests[sub_request].placed_on = Some(place.pool);
        self.sub_request_write(now, sub_request, place, range);
        if self.group.sub_requests[sub_request].outstanding == 0 {
            self.conclude(now, sub_request);
        } else {
            self.chunk_eased(now, chunk);
        }
    }

    /// Gives the chunk of `sub_request` its first slot.
    fn open_chunk(&mut self, now: Nanos, sub_request: u32) {
        let outstanding = self.group.sub_requests[sub_request].outstanding;
        assert_eq!(outstanding, 0, "nothing is sent before the chunk has a slot");
        let slot = first_slot::open_chunk(
            self.group,
            self.checksums,
            self.hinting,
            self.leaving,
            sub_request,
        );
        self.go_on(now, sub_request, slot);
    }

    /// The slot that a sub-request opens reads as zeroes now, or its pool failed to do that.
    pub(super) fn slot_cleaned(
        &mut self,
        now: Nanos,
        sub_request: u32,
        pool: PoolId,
        result: &Result<Payload, DeviceError>,
    ) {
        let Path { group, checksums, hinting, leaving, .. } = self;
        assert_eq!(group.sub_requests[sub_request].outstanding, 0, "its pool has answered");
        let slot =
            first_slot::opened(group, checksums, hinting, leaving, sub_request, pool, result);
        self.go_on(now, sub_request, slot);
    }

    /// A slot may be free for a sub-request that waits for one.
    pub(crate) fn space_may_be_free(&mut self, now: Nanos, sub_request: u32) {
        let Path { group, checksums, hinting, leaving, .. } = self;
        let slot = first_slot::try_again(group, checksums, hinting, leaving, sub_request);
        self.go_on(now, sub_request, slot);
    }

    fn go_on(&mut self, now: Nanos, sub_request: u32, slot: FirstSlot) {
        let writes = matches!(self.group.sub_requests[sub_request].verb, Verb::Write(_));
        assert!(writes, "nothing else needs a slot");
        match slot {
            FirstSlot::Ready(place) => self.place_chunk(now, sub_request, place),
            FirstSlot::Cleaning(place, io) => self.send_to(now, place, sub_request, 0, io),
            FirstSlot::Waits => {}
            FirstSlot::Missing => self.conclude(now, sub_request),
        }
    }
}

/// True if a discard of blocks may be passed on: no copy may show garbage afterwards.
pub(crate) fn discards_to_zero(group: &GroupState, chunk: ChunkId) -> bool {
    group.map.is_simple(chunk)
        && (group.operation_on(chunk).is_none() || mutant("discard_passed_on_under_a_copy"))
        && group.map.copies(chunk).all(|c| group.pools[c.place.pool].geometry.discard_zeroes)
}

/// Unmaps a chunk on which nothing else is under way.
pub(crate) fn unmap(group: &mut GroupState, checksums: &mut BlockChecksums, chunk: ChunkId) {
    let state = group.map.state(chunk);
    let overlay = state.overlay.as_ref().map(|(place, _)| *place);
    let places: Vec<Place> = state.copies.iter().map(|copy| copy.place).chain(overlay).collect();
    if places.is_empty() {
        return;
    }
    assert!(group.operation_on(chunk).is_none(), "no operation is on what goes");
    for copy in &state.copies {
        group.pools[copy.place.pool].uncount_copy(copy.role);
    }
    group.map.set_state(chunk, &Default::default());
    checksums.forget(chunk);
    assert!(group.map.is_simple(chunk), "nothing of it is left");
    group.journal.change(&Record::Chunk(chunk, Default::default()), chunk, &places);
}
