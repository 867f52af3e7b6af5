//! Requests of clients: split by chunk, kept in order where they overlap, sent to copies.
//!
//! A request becomes parts, one a chunk. A part waits for the scheduler, then at its chunk's gate
//! ([`crate::gate`]), then becomes one device request for each run of each copy it concerns. A
//! chunk that has parts or an operation under way has a [`Traffic`]; all others have none.

use crate::commit::Waiter;
use crate::flight::{Flight, Owner};
use crate::format::Record;
use crate::group::{Group, Service};
use crate::map::{NONE, Place};
use crate::operation::OperationKind;
use crate::presence::around_blocks;
use crate::request::{Action, Piece, Priority, Reply, Request, RequestError, RequestId};
use crate::settings::REQUESTS_IN_FLIGHT_MAX;
use std::collections::VecDeque;
use std::ops::Range;
use thermocline_policy::placement::ChunkAccess;
use thermocline_ports::{DeviceError, Io, Payload, SECTOR};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Parts of one request under way at once; the rest is split off as these end.
const PARTS_PER_REQUEST_MAX: u32 = 64;
/// Chunks of a discard looked at before others get a turn.
const SPLIT_STEPS_MAX: u32 = 16_384;

/// A client's request under way.
#[derive(Debug)]
pub(crate) struct Ongoing {
    id: RequestId,
    volume: VolumeId,
    action: Action,
    priority: Priority,
    start: u64,
    cursor: u64,
    end: u64,
    parts: u32,
    /// Whether it stands in the list of requests with parts to be made.
    listed: bool,
    error: Option<RequestError>,
    pieces: Vec<Piece>,
}

/// What a part does to its chunk.
#[derive(Debug, Clone)]
pub(crate) enum Verb {
    Read,
    Write(Payload),
    Zero,
    Discard,
}

/// The part of a request that concerns one chunk.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) request: u32,
    pub(crate) chunk: ChunkId,
    /// Bytes within the chunk.
    pub(crate) range: Range<u32>,
    pub(crate) verb: Verb,
    pub(crate) fua: bool,
    pub(crate) priority: Priority,
    /// When it was begun, among all parts.
    pub(crate) order: u64,
    pub(crate) outstanding: u32,
    /// Pools that failed, and that did it: one bit each.
    pub(crate) failed: u64,
    pub(crate) succeeded: u64,
    pub(crate) error: Option<RequestError>,
    /// Blocks that this part puts into the chunk's overlay.
    overlay_runs: Vec<Range<u32>>,
    /// Pools that could not open a slot for the chunk.
    pub(crate) unfit: u64,
}

impl Part {
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Read)
    }

    pub(crate) fn overlaps(&self, range: &Range<u32>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }
}

/// A chunk with parts or an operation under way.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) running: Vec<u32>,
    pub(crate) waiting: VecDeque<u32>,
    /// The part for whose write a slot is being sought (none yet) or made ready.
    pub(crate) opening: Option<(u32, Option<Place>)>,
    /// Whether the journal is being told that the copies may differ from now on.
    pub(crate) intent: bool,
    /// Whether a part waits until the journal has taken what is queued.
    pub(crate) awaits_room: bool,
    /// Whether parts are being let in right now.
    easing: bool,
    pub(crate) operation: Option<u32>,
    /// Slots that the chunk has left, and the order before which parts may still be on them.
    pub(crate) left: Vec<(u64, Place)>,
}

fn bit(pool: PoolId) -> u64 {
    1 << pool.0
}

impl Group {
    /// Takes a request at `now`; the answer comes out of `take_replies`, at once or later.
    ///
    /// # Errors
    /// Gives the request back when [`REQUESTS_IN_FLIGHT_MAX`] are in flight: try again
    /// after a reply.
    pub fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Request> {
        if self.requests.len() >= REQUESTS_IN_FLIGHT_MAX {
            return Err(request);
        }
        match self.check(&request) {
            Err(error) => self.reply(Reply { id: request.id, result: Err(error) }),
            Ok((start, end)) => {
                let flush = matches!(request.action, Action::Flush);
                let ongoing = Ongoing {
                    id: request.id,
                    volume: request.volume,
                    action: request.action,
                    priority: request.priority,
                    start,
                    cursor: start,
                    end,
                    parts: 0,
                    listed: !flush,
                    error: None,
                    pieces: Vec::new(),
                };
                let index = self.requests.insert(ongoing);
                if flush {
                    self.commit.join(Waiter::Flush(index));
                } else {
                    self.unsplit.push(index);
                }
                self.pump(now);
            }
        }
        Ok(())
    }

    /// The request's range in bytes of its volume.
    fn check(&self, request: &Request) -> Result<(u64, u64), RequestError> {
        if self.service != Service::Ready {
            return Err(RequestError::NotReady);
        }
        let volume = self.map.volume(request.volume).filter(|volume| !volume.deleting);
        let volume = volume.ok_or(RequestError::NoVolume)?;
        let (offset, length) = match &request.action {
            Action::Read { offset, length } => (offset.0, u64::from(*length)),
            Action::Write { offset, payload, .. } => (offset.0, u64::from(payload.len())),
            Action::WriteZeroes { offset, length, .. } | Action::Discard { offset, length } => {
                (offset.0, length.0)
            }
            Action::Flush => return Ok((0, 0)),
        };
        let end = offset.checked_add(length).ok_or(RequestError::BadRange)?;
        let whole = (offset | length).is_multiple_of(u64::from(SECTOR));
        if length == 0 || end > volume.size.0 || !whole {
            return Err(RequestError::BadRange);
        }
        Ok((offset, end))
    }

    /// Splits requests, starts parts.
    pub(crate) fn pump_foreground(&mut self, now: Nanos) {
        loop {
            if let Some(request) = self.unsplit.pop() {
                self.requests[request].listed = false;
                self.split(request);
            } else if let Some(part) = self.scheduler.pop(now) {
                self.arrive(now, part);
            } else {
                return;
            }
        }
    }

    /// Makes parts until enough are under way or the request is split up.
    fn split(&mut self, request: u32) {
        let mut steps = 0;
        loop {
            let ongoing = &self.requests[request];
            let (cursor, end) = (ongoing.cursor, ongoing.end);
            if cursor == end || ongoing.parts >= PARTS_PER_REQUEST_MAX {
                break;
            }
            let index = cursor / u64::from(self.chunk_size);
            let chunk = ChunkId { volume: ongoing.volume, index: index as u32 };
            let base = index * u64::from(self.chunk_size);
            let stop = end.min(base + u64::from(self.chunk_size));
            let range = (cursor - base) as u32..(stop - base) as u32;
            self.requests[request].cursor = stop;
            steps += 1;
            if self.is_void(request, chunk) {
                if steps >= SPLIT_STEPS_MAX && stop < end {
                    self.list(request);
                    return;
                }
                continue;
            }
            self.make_part(request, chunk, range);
        }
        self.end_request_if_done(request);
    }

    /// Whether the request would do nothing to the chunk: zeroes onto a chunk that holds none.
    /// Where it is forced and the journal may yet have to learn so, one part must wait for that.
    fn is_void(&self, request: u32, chunk: ChunkId) -> bool {
        let entry = self.map.entry(chunk);
        let ongoing = &self.requests[request];
        let zeroes = Action::is_zeroing(&ongoing.action);
        let forced = matches!(ongoing.action, Action::WriteZeroes { fua: true, .. });
        let waits = forced && ongoing.parts == 0 && self.has_changes();
        zeroes && entry.traffic == NONE && entry.first().is_none() && !waits
    }

    fn make_part(&mut self, request: u32, chunk: ChunkId, range: Range<u32>) {
        let ongoing = &mut self.requests[request];
        let at = u64::from(chunk.index) * u64::from(self.chunk_size) + u64::from(range.start);
        let from = (at - ongoing.start) as u32;
        let (verb, fua) = match &ongoing.action {
            Action::Read { .. } => (Verb::Read, false),
            Action::Write { payload, fua, .. } => {
                let length = range.end - range.start;
                (Verb::Write(payload.slice(from..from + length)), *fua)
            }
            Action::WriteZeroes { fua, .. } => (Verb::Zero, *fua),
            Action::Discard { .. } => (Verb::Discard, false),
            Action::Flush => unreachable!("a flush has no parts"),
        };
        ongoing.parts += 1;
        let priority = ongoing.priority;
        self.map.volume_mut(chunk.volume).expect("checked at submission").busy += 1;
        let part = self.parts.insert(Part {
            request,
            chunk,
            range,
            verb,
            fua,
            priority,
            order: 0,
            outstanding: 0,
            failed: 0,
            succeeded: 0,
            error: None,
            overlay_runs: Vec::new(),
            unfit: 0,
        });
        self.scheduler.push(part, priority);
    }

    fn list(&mut self, request: u32) {
        if !std::mem::replace(&mut self.requests[request].listed, true) {
            self.unsplit.push(request);
        }
    }

    /// A part reaches its chunk.
    fn arrive(&mut self, now: Nanos, part: u32) {
        let chunk = self.parts[part].chunk;
        self.observe(now, part);
        let traffic = self.traffic_of(chunk);
        if self.gate(now, part) {
            self.begin(now, part);
        } else {
            self.traffic[traffic].waiting.push_back(part);
        }
    }

    /// Counts heat and tells the placement.
    fn observe(&mut self, now: Nanos, part: u32) {
        let part = &self.parts[part];
        let bytes = Bytes(u64::from(part.range.end - part.range.start));
        let write = part.is_write();
        let epoch = self.epoch;
        self.map.entry_mut(part.chunk).heat(epoch, write);
        if let Some(placement) = &mut self.placement {
            placement.observe(&ChunkAccess { at: now, chunk: part.chunk, bytes, write });
        }
    }

    /// The chunk's traffic, made when it has none.
    pub(crate) fn traffic_of(&mut self, chunk: ChunkId) -> u32 {
        let index = self.map.entry(chunk).traffic;
        if index != NONE {
            return index;
        }
        let index = self.traffic.insert(Traffic::default());
        self.map.entry_mut(chunk).traffic = index;
        index
    }

    /// Starts a part that the gate let through.
    pub(crate) fn begin(&mut self, now: Nanos, part: u32) {
        self.parts_begun += 1;
        let chunk = self.parts[part].chunk;
        self.parts[part].order = self.parts_begun;
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].running.push(part);
        if self.parts[part].is_write() {
            self.scrub.disturb(chunk);
        }
        let whole = self.covers_chunk(part);
        match &self.parts[part].verb {
            Verb::Read => self.begin_read(now, part),
            Verb::Zero | Verb::Discard if whole => {
                self.unmap(chunk);
                self.conclude(now, part);
            }
            Verb::Discard if !self.discards_to_zero(chunk) => self.conclude(now, part),
            _ => self.begin_write(now, part),
        }
    }

    pub(crate) fn covers_chunk(&self, part: u32) -> bool {
        let part = &self.parts[part];
        let volume = self.map.volume(part.chunk.volume).expect("busy volumes stay");
        let start = u64::from(part.chunk.index) * u64::from(self.chunk_size);
        let bytes = (volume.size.0 - start).min(u64::from(self.chunk_size));
        part.range.start == 0 && u64::from(part.range.end) >= bytes
    }

    /// Whether a discard of blocks may be passed on: no copy may show garbage afterwards.
    fn discards_to_zero(&self, chunk: ChunkId) -> bool {
        self.map.is_simple(chunk)
            && self.operation_on(chunk).is_none()
            && self.map.copies(chunk).all(|c| self.pool(c.place.pool).geometry.discard_zeroes)
    }

    fn begin_read(&mut self, now: Nanos, part: u32) {
        let (chunk, range) = (self.parts[part].chunk, self.parts[part].range.clone());
        let overlay = self.map.extra(chunk).and_then(|extra| extra.overlay.as_ref());
        let Some(overlay) = overlay else {
            self.read_run(now, part, range);
            return self.conclude_if_done(now, part);
        };
        let place = overlay.place;
        for (run, present) in overlay.presence.runs(&range) {
            if !present {
                self.read_run(now, part, run);
            } else if self.pool(place.pool).is_alive() {
                self.part_read(now, part, place, run);
            } else {
                self.parts[part].error = Some(RequestError::Io);
            }
        }
        self.conclude_if_done(now, part);
    }

    /// Reads a run from the copy with the shortest expected wait that has not failed yet.
    fn read_run(&mut self, now: Nanos, part: u32, run: Range<u32>) {
        let (chunk, failed) = (self.parts[part].chunk, self.parts[part].failed);
        if self.map.entry(chunk).first().is_none() {
            let length = run.end - run.start;
            return self.add_piece(part, run.start, Payload::Zeroes(length));
        }
        match self.best_copy(chunk, &run, failed) {
            Some(place) => self.part_read(now, part, place, run),
            None => self.parts[part].error = Some(RequestError::Io),
        }
    }

    /// The copy to read `range` from, among pools that live and are not in `failed`.
    pub(crate) fn best_copy(
        &self,
        chunk: ChunkId,
        range: &Range<u32>,
        failed: u64,
    ) -> Option<Place> {
        let arriving = self.arriving_copy(chunk, range);
        let copies = self.map.copies(chunk).map(|copy| copy.place).chain(arriving);
        copies
            .filter(|place| self.pool(place.pool).is_alive() && failed & bit(place.pool) == 0)
            .min_by(|a, b| {
                let wait = |place: &Place| self.pool(place.pool).expected_wait();
                wait(a).total_cmp(&wait(b))
            })
    }

    fn part_read(&mut self, now: Nanos, part: u32, place: Place, run: Range<u32>) {
        self.parts[part].outstanding += 1;
        // Whole blocks of a sealed chunk, because their checksums are of whole blocks.
        let sealed = self.map.entry(self.parts[part].chunk).is_sealed();
        let run = if sealed { around_blocks(&run) } else { run };
        let offset = self.pool(place.pool).address(place, run.start, self.chunk_size);
        let io = Io::Read { offset, length: run.end - run.start };
        self.send(now, place.pool, Owner::Part { part, at: run.start }, io);
    }

    fn add_piece(&mut self, part: u32, at: u32, payload: Payload) {
        let part = &self.parts[part];
        // What was read beside the range, to have whole blocks, is cut off.
        let from = part.range.start.saturating_sub(at);
        let to = payload.len().min(part.range.end - at);
        let (at, payload) = (at + from, payload.slice(from..to));
        let request = &mut self.requests[part.request];
        let base = u64::from(part.chunk.index) * u64::from(self.chunk_size);
        let at = (base + u64::from(at) - request.start) as u32;
        request.pieces.push(Piece { at, payload });
    }

    fn begin_write(&mut self, now: Nanos, part: u32) {
        let chunk = self.parts[part].chunk;
        if self.map.entry(chunk).first().is_none() {
            if matches!(self.parts[part].verb, Verb::Write(_)) {
                return self.open_chunk(now, part);
            }
            return self.conclude(now, part); // Zeroes onto what reads as zeroes.
        }
        let range = self.parts[part].range.clone();
        if self.map.extra(chunk).is_some_and(|extra| extra.overlay.is_some()) {
            self.write_by_blocks(now, part);
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

    /// Writes blocks that the overlay holds, or may take, there, and the rest to the first copy.
    fn write_by_blocks(&mut self, now: Nanos, part: u32) {
        let (chunk, range) = (self.parts[part].chunk, self.parts[part].range.clone());
        let takes = self.operation_on(chunk).is_some_and(|operation| {
            let operation = &self.copier.operations[operation];
            operation.what.kind == OperationKind::Redirect && operation.is_copying()
        });
        let base = self.map.entry(chunk).first().expect("an overlay lies over a copy");
        let extra = self.map.extra(chunk).expect("called for overlaid chunks");
        let overlay = extra.overlay.as_ref().expect("called for overlaid chunks");
        let place = overlay.place;
        let mut sends: Vec<(Place, Range<u32>)> = Vec::new();
        let mut taken = Vec::new();
        for (run, present) in overlay.presence.runs(&range) {
            let inner = crate::presence::whole_blocks(&run);
            if present {
                sends.push((place, run));
            } else if takes && !inner.is_empty() {
                for edge in [run.start..inner.start, inner.end..run.end] {
                    sends.extend((!edge.is_empty()).then_some((base, edge)));
                }
                sends.push((place, inner.clone()));
                taken.push(inner);
            } else {
                sends.push((base, run));
            }
        }
        self.parts[part].overlay_runs = taken;
        for (place, run) in sends {
            self.part_write(now, part, place, run);
        }
    }

    pub(crate) fn part_write(&mut self, now: Nanos, part: u32, place: Place, run: Range<u32>) {
        if !self.pool(place.pool).is_alive() {
            self.parts[part].failed |= bit(place.pool);
            return;
        }
        let offset = self.pool(place.pool).address(place, run.start, self.chunk_size);
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

    /// A device answered for a part.
    pub(crate) fn part_io_done(
        &mut self,
        now: Nanos,
        part: u32,
        at: u32,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        let pool = flight.pool;
        self.parts[part].outstanding -= 1;
        if self.is_opening(part) {
            return self.opened(now, part, pool, result);
        }
        let state = &mut self.parts[part];
        match result {
            Ok(payload) if !flight.writes => {
                if self.is_as_sealed(self.parts[part].chunk, at, &payload) {
                    self.add_piece(part, at, payload);
                } else {
                    self.pool_mut(pool).counters.rotten_blocks += 1;
                    self.reread(now, part, at..at + flight.bytes, pool);
                }
            }
            Ok(_) => state.succeeded |= bit(pool),
            Err(_) if !flight.writes => self.reread(now, part, at..at + flight.bytes, pool),
            Err(error) => {
                state.failed |= bit(pool);
                if error == DeviceError::NoSpace {
                    state.error = Some(RequestError::NoSpace);
                }
            }
        }
        self.conclude_if_done(now, part);
    }

    /// A copy could not be read: it is dropped when another one can be, and the read goes there.
    fn reread(&mut self, now: Nanos, part: u32, run: Range<u32>, pool: PoolId) {
        let chunk = self.parts[part].chunk;
        self.parts[part].failed |= bit(pool);
        let overlaid = self.map.extra(chunk).and_then(|extra| extra.overlay.as_ref());
        let only_there = overlaid.is_some_and(|o| o.place.pool == pool && o.presence.any_in(&run));
        let failed = self.parts[part].failed;
        if only_there || self.best_copy(chunk, &run, failed).is_none() {
            self.parts[part].error = Some(RequestError::Io);
            return;
        }
        self.copy_failed(chunk, pool);
        self.read_run(now, part, run);
    }

    fn conclude_if_done(&mut self, now: Nanos, part: u32) {
        if self.parts[part].outstanding == 0 {
            self.conclude(now, part);
        }
    }

    /// All device requests of a part have ended: settle what failed, then answer or wait.
    pub(crate) fn conclude(&mut self, now: Nanos, part: u32) {
        if self.parts[part].is_write() {
            self.settle_write(now, part);
        }
        let chunk = self.parts[part].chunk;
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].running.retain(|&running| running != part);
        let state = &self.parts[part];
        let volatile = matches!(state.verb, Verb::Zero) || self.has_changes();
        if state.fua && state.error.is_none() && volatile {
            self.commit.join(Waiter::Part(part));
        } else {
            self.end_part(part);
        }
        self.traffic_eased(now, chunk);
    }

    /// What a write did to the chunk's copies: which are to be dropped, which blocks arrived.
    fn settle_write(&mut self, now: Nanos, part: u32) {
        let state = &self.parts[part];
        let (chunk, range) = (state.chunk, state.range.clone());
        let (failed, succeeded) = (state.failed, state.succeeded);
        let runs = state.overlay_runs.clone();
        if failed == 0 {
            if !runs.is_empty() {
                self.overlay_arrived(chunk, &runs);
            }
            self.touch_copies(now, chunk);
            return;
        }
        let copies: Vec<Place> = self.map.copies(chunk).map(|copy| copy.place).collect();
        let safe = copies.iter().any(|p| succeeded & bit(p.pool) != 0 && failed & bit(p.pool) == 0);
        self.mirror_disagrees(chunk, &range, failed, safe);
        let overlaid = self.map.extra(chunk).is_some_and(|extra| extra.overlay.is_some());
        if !safe || overlaid {
            let error = self.parts[part].error;
            self.parts[part].error = Some(error.unwrap_or(RequestError::Io));
        } else {
            self.parts[part].error = None;
        }
        // Copies that missed the write, and after a write that no copy took all but the first: they
        // may differ now.
        for (index, place) in copies.iter().enumerate() {
            let differs = if safe { failed & bit(place.pool) != 0 } else { index > 0 };
            if differs && !overlaid {
                self.copy_failed(chunk, place.pool);
            }
        }
        self.touch_copies(now, chunk);
    }

    /// Answers for a part that is durable as far as it promised.
    pub(crate) fn end_part(&mut self, part: u32) {
        let part = self.parts.remove(part);
        self.scheduler.ended(part.priority);
        self.map.volume_mut(part.chunk.volume).expect("busy volumes stay").busy -= 1;
        let request = &mut self.requests[part.request];
        request.parts -= 1;
        request.error = request.error.or(part.error);
        if request.cursor < request.end {
            self.list(part.request);
        } else {
            self.end_request_if_done(part.request);
        }
    }

    /// Takes all requests out of flight; what devices still answer for them is ignored.
    pub(crate) fn drain_requests(&mut self) -> Vec<RequestId> {
        let indices: Vec<u32> = self.requests.iter().map(|(index, _)| index).collect();
        indices.into_iter().map(|index| self.requests.remove(index).id).collect()
    }

    fn end_request_if_done(&mut self, index: u32) {
        let request = &self.requests[index];
        if request.parts > 0 || request.cursor < request.end || request.listed {
            return;
        }
        let mut request = self.requests.remove(index);
        request.pieces.sort_unstable_by_key(|piece| piece.at);
        let result = match request.error {
            Some(error) => Err(error),
            None => Ok(request.pieces),
        };
        self.reply(Reply { id: request.id, result });
    }

    /// Answers a flush.
    pub(crate) fn end_flush(&mut self, request: u32, result: Result<(), RequestError>) {
        let request = self.requests.remove(request);
        self.reply(Reply { id: request.id, result: result.map(|()| Vec::new()) });
    }

    /// A part or an operation has left the chunk: lets others in, frees slots that it was on.
    pub(crate) fn traffic_eased(&mut self, now: Nanos, chunk: ChunkId) {
        let index = self.traffic_of(chunk);
        if std::mem::replace(&mut self.traffic[index].easing, true) {
            return; // Further out a loop is at it.
        }
        while let Some(&next) = self.traffic[index].waiting.front() {
            let waiting = std::mem::take(&mut self.traffic[index].waiting);
            let open = self.gate(now, next);
            self.traffic[index].waiting = waiting;
            if !open {
                break;
            }
            self.traffic[index].waiting.pop_front();
            self.begin(now, next);
        }
        self.free_left_slots(now, chunk);
        self.traffic[index].easing = false;
        if self.traffic[index].is_over() {
            self.map.entry_mut(chunk).traffic = NONE;
            self.traffic.remove(index);
        }
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
            self.pool_mut(copy.place.pool).prefetched -= 1;
        }
        self.map.set_state(chunk, &Default::default());
        self.change(Record::Chunk(chunk, Default::default()), chunk, &places);
    }
}

impl Traffic {
    fn is_over(&self) -> bool {
        self.running.is_empty()
            && self.waiting.is_empty()
            && self.opening.is_none()
            && self.operation.is_none()
            && self.left.is_empty()
    }
}
