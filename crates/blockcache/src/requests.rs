//! Requests of the machine above: cut into lines, sent to whichever device has them.
//!
//! 1. A request waits until its lines are its own ([`crate::locks`]).
//! 2. Each line that is cached goes to its slot. Of the others, a line that is written whole gets a
//!    slot, unless the request is a long one or its set has none to give; the rest goes to the slow
//!    device. Neighbours on a device go together.
//!    Parts of a write that go to the slow device go in one request where they lie close together,
//!    with what slots have between them.
//! 3. A write is done when all its pieces are; with `fua`, when the table names the lines, too.
//! 4. A read that the slow device answered in whole lines is answered, and then fills slots, if
//!    nobody else wants the lines by then.
//! 5. Zeroes and discards go to the slow device, and lines that they cover are forgotten.

use crate::format::{ORIGIN_OFFSET, Side};
use crate::lines::mark;
use crate::locks::Hold;
use crate::segments::{Segment, assemble, lines_of, parts_together};
use crate::slots::{forget_clean, is_recorded, make_room, slots_in, slots_written};
use crate::state::{CacheState, Effect};
use crate::tasks::Task;
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload, Ticket};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, Slab};

/// The kind of a request.
#[derive(Debug, Clone)]
enum Verb {
    Read,
    Write { data: Payload, fua: bool },
    Zero,
    Discard,
}

impl Verb {
    fn hold(&self) -> Hold {
        match self {
            Verb::Read => Hold::Read,
            Verb::Write { .. } => Hold::Write,
            Verb::Zero | Verb::Discard => Hold::Drop,
        }
    }
}

/// A request under way.
#[derive(Debug)]
struct Request {
    ticket: Ticket,
    verb: Verb,
    /// Bytes of the machine above.
    bytes: Range<u64>,
    /// Once it has its lines.
    lock: Option<u32>,
    outstanding: u32,
    error: Option<DeviceError>,
    /// Data read, and where each piece begins.
    pieces: Vec<(u64, Payload)>,
    /// Ranges that the slow device answered.
    missed: Vec<Range<u64>>,
}

/// The requests under way.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    under_way: Slab<Request>,
}

impl Requests {
    /// Takes a request with a range.
    pub(crate) fn begin(&mut self, state: &mut CacheState, ticket: Ticket, io: Io) {
        let (offset, length) = io.range().expect("a flush is not a request for lines");
        let bytes = offset.0..offset.0 + length.0;
        assert!(bytes.end <= state.geometry.size.0, "{bytes:?} lies outside {:?}", state.geometry);
        assert!(!bytes.is_empty(), "a request touches bytes");
        let verb = match io {
            Io::Read { .. } => Verb::Read,
            Io::Write { data, fua, .. } => Verb::Write { data, fua },
            Io::WriteZeroes { .. } => Verb::Zero,
            Io::Discard { .. } | Io::Flush => Verb::Discard,
        };
        let (lines, hold) = (lines_of(&bytes), verb.hold());
        let request = self.under_way.insert(Request {
            ticket,
            verb,
            bytes,
            lock: None,
            outstanding: 0,
            error: None,
            pieces: Vec::new(),
            missed: Vec::new(),
        });
        if let Some(lock) = state.locks.take_or_wait(request, lines, hold) {
            self.start(state, request, lock);
        }
    }

    fn start(&mut self, state: &mut CacheState, request: u32, lock: u32) {
        let it = &mut self.under_way[request];
        assert!(it.lock.is_none() && it.outstanding == 0, "a request starts once");
        it.lock = Some(lock);
        match &it.verb {
            Verb::Read => self.start_read(state, request),
            Verb::Write { .. } => self.start_write(state, request),
            Verb::Zero | Verb::Discard => self.start_drop(state, request),
        }
        assert!(self.under_way[request].outstanding > 0, "a request that starts asks a device");
    }

    /// Gives lines back, and starts who waited for them.
    pub(crate) fn release(&mut self, state: &mut CacheState, lock: u32) {
        state.locks.release(lock);
        while let Some((request, lock)) = state.locks.next() {
            self.start(state, request, lock);
        }
        debug_assert!(self.all_hold_or_wait(state), "a request has lost its place in the queue");
    }

    /// True if each request has its lines or waits for them. For assertions.
    fn all_hold_or_wait(&self, state: &CacheState) -> bool {
        let holds_or_waits =
            |(request, it): (u32, &Request)| it.lock.is_some() != state.locks.is_waiting(request);
        self.under_way.iter().all(holds_or_waits)
    }

    fn start_read(&mut self, state: &mut CacheState, request: u32) {
        let bytes = self.under_way[request].bytes.clone();
        let mut segments = cut(state, &bytes, |state, line| {
            let slot = state.lines.slot_of(line)?;
            state.lines.hit(slot);
            Some(slot)
        });
        if !goes_around(state, &bytes) {
            // Whole lines, so that they can be kept.
            for missed in segments.iter_mut().filter(|segment| segment.slot.is_none()) {
                let lines = lines_of(&missed.bytes);
                missed.bytes = state.bytes_of(lines.start).start..state.bytes_of(lines.end - 1).end;
                assert!(lines_of(&missed.bytes) == lines, "no line more is read");
            }
        }
        for segment in segments {
            self.read(state, request, &segment);
        }
    }

    fn read(&mut self, state: &mut CacheState, request: u32, segment: &Segment) {
        let (side, offset) = state.place_of(segment);
        let length = segment.length();
        let is_there = |slot| state.lines.has(slot, mark::VALID);
        assert!(segment.slot.is_none_or(is_there), "what is read from a slot is there");
        assert!(self.under_way[request].lock.is_some(), "a request reads lines that it holds");
        match side {
            Side::Cache => state.status.read_hits.0 += u64::from(length),
            Side::Origin => {
                let around = goes_around(state, &self.under_way[request].bytes);
                let status = &mut state.status;
                let count = if around { &mut status.read_around } else { &mut status.read_misses };
                count.0 += u64::from(length);
                self.under_way[request].missed.push(segment.bytes.clone());
            }
        }
        self.under_way[request].outstanding += 1;
        let at = segment.bytes.start;
        let task = Task::Piece { request, side, at, length, writes: false };
        state.send(side, task, Io::Read { offset, length });
    }

    fn start_write(&mut self, state: &mut CacheState, request: u32) {
        let it = &self.under_way[request];
        let Verb::Write { data, fua } = it.verb.clone() else {
            unreachable!("only writes are written")
        };
        let bytes = it.bytes.clone();
        assert!(u64::from(data.len()) == bytes.end - bytes.start, "the data is the range's");
        let around = goes_around(state, &bytes);
        let segments = cut(state, &bytes, |state, line| {
            let whole = state.covers(&bytes, line);
            match state.lines.find(line) {
                // A slot that only waits for the table is the line's own, to be filled whole, and
                // must not be given away while it is.
                Some(slot)
                    if whole
                        || state.lines.has(slot, mark::VALID)
                        || mutant("part_written_to_a_slot_without_contents") =>
                {
                    let waits = !state.lines.has(slot, mark::VALID);
                    met_if(waits, "a write fills a slot that waits for the table");
                    state.lines.hit(slot);
                    state.lines.remark(slot, mark::VALID, 0);
                    Some(slot)
                }
                None if whole && !around => make_room(state, line),
                _ => None,
            }
        });
        let together = parts_together(&segments);
        for segment in segments {
            let length = segment.length();
            match segment.slot {
                Some(_) => state.status.written.0 += u64::from(length),
                None => state.status.written_around.0 += u64::from(length),
            }
            if segment.slot.is_some() || together.is_none() {
                let from = (segment.bytes.start - bytes.start) as u32;
                self.write(state, request, &segment, data.slice(from..from + length), fua);
            }
        }
        if let Some(part) = together {
            met("parts that go around are written together");
            let from = (part.bytes.start - bytes.start) as u32;
            self.write(state, request, &part, data.slice(from..from + part.length()), fua);
        }
    }

    fn write(
        &mut self,
        state: &mut CacheState,
        request: u32,
        segment: &Segment,
        data: Payload,
        fua: bool,
    ) {
        let (side, offset) = state.place_of(segment);
        let (at, length) = (segment.bytes.start, segment.length());
        assert!(data.len() == length, "the data is the segment's");
        assert!(self.under_way[request].lock.is_some(), "a request writes lines that it holds");
        self.under_way[request].outstanding += 1;
        let task = Task::Piece { request, side, at, length, writes: true };
        state.send(side, task, Io::Write { offset, data, fua });
    }

    fn start_drop(&mut self, state: &mut CacheState, request: u32) {
        let it = &self.under_way[request];
        let (bytes, verb) = (it.bytes.clone(), it.verb.clone());
        let (offset, length) = (Bytes(ORIGIN_OFFSET + bytes.start), Bytes(bytes.end - bytes.start));
        let io = match verb {
            Verb::Discard => Io::Discard { offset, length },
            Verb::Zero => Io::WriteZeroes { offset, length },
            Verb::Read | Verb::Write { .. } => unreachable!("only drops are dropped"),
        };
        self.under_way[request].outstanding += 1;
        state.send(Side::Origin, Task::Dropped { request }, io);
        if mutant("drop_leaves_the_ends") {
            return;
        }
        // Lines at the ends that are covered in part stay, with zeroes in that part.
        let lines = lines_of(&bytes);
        let mut ends = vec![lines.start];
        ends.extend((lines.end - 1 > lines.start).then_some(lines.end - 1));
        for line in ends {
            let Some(slot) = state.lines.slot_of(line).filter(|_| !state.covers(&bytes, line))
            else {
                continue;
            };
            met("a drop covers part of a cached line");
            let whole = state.bytes_of(line);
            let part = whole.start.max(bytes.start)..whole.end.min(bytes.end);
            let segment = Segment { slot: Some(slot), bytes: part };
            let zeroes = Payload::Zeroes(segment.length());
            self.write(state, request, &segment, zeroes, false);
        }
        assert!(self.under_way[request].outstanding <= 3, "a drop, and zeroes at both ends");
    }

    /// The slow device has dropped a range, or has not.
    pub(crate) fn dropped(
        &mut self,
        state: &mut CacheState,
        request: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let it = &self.under_way[request];
        assert!(it.verb.hold() == Hold::Drop, "only a drop forgets dirty lines");
        let bytes = it.bytes.clone();
        let slots = slots_in(state, &lines_of(&bytes));
        for slot in slots {
            let line = state.lines.line_in(slot).expect("it was found by its line");
            // What failed half-way has changed the slow device: clean lines are read again there.
            let whole = state.covers(&bytes, line) && !mutant("drop_keeps_lines");
            met_if(whole && state.lines.has(slot, mark::DIRTY), "a drop covers a dirty line");
            met_if(whole && result.is_err(), "a drop of cached lines fails");
            if whole && (result.is_ok() || !state.lines.has(slot, mark::DIRTY)) {
                state.lines.forget(slot);
            }
        }
        let it = &mut self.under_way[request];
        it.error = it.error.or(result.err());
        self.piece_ended(state, request);
    }

    /// A device answered for a piece of a request.
    pub(crate) fn piece_done(
        &mut self,
        state: &mut CacheState,
        request: u32,
        side: Side,
        bytes: Range<u64>,
        result: Result<Payload, DeviceError>,
    ) {
        let it = &self.under_way[request];
        let (lines, all) = (lines_of(&bytes), lines_of(&it.bytes));
        assert!(all.start <= lines.start && lines.end <= all.end, "a piece lies in its request");
        let reads = matches!(it.verb, Verb::Read);
        match (side, result) {
            (_, Ok(payload)) if reads => {
                debug_assert!(u64::from(payload.len()) == bytes.end - bytes.start, "all was read");
                self.under_way[request].pieces.push((bytes.start, payload));
            }
            (Side::Cache, Err(error)) if reads => {
                if forget_clean(state, &bytes) {
                    self.read(state, request, &Segment { slot: None, bytes });
                } else {
                    self.under_way[request].error = Some(error);
                }
            }
            (Side::Cache, result) => {
                slots_written(state, &bytes, result.is_ok());
                let it = &mut self.under_way[request];
                it.error = it.error.or(result.err());
            }
            (Side::Origin, result) => {
                let it = &mut self.under_way[request];
                it.error = it.error.or(result.err());
            }
        }
        self.piece_ended(state, request);
    }

    fn piece_ended(&mut self, state: &mut CacheState, request: u32) {
        let it = &mut self.under_way[request];
        assert!(it.outstanding > 0, "each part is answered once");
        it.outstanding -= 1;
        if it.outstanding > 0 {
            return;
        }
        let (ticket, bytes) = (it.ticket, it.bytes.clone());
        let forced = matches!(it.verb, Verb::Write { fua: true, .. });
        if let Some(error) = it.error {
            state.answers.answer(ticket, Err(error));
        } else if matches!(it.verb, Verb::Read) {
            let whole = assemble(&bytes, &mut it.pieces);
            state.answers.answer(ticket, Ok(whole));
            return self.fill(state, request);
        } else if forced && !is_recorded(state, &bytes) && !mutant("forced_write_without_the_table")
        {
            met("a forced write waits for the table");
            state.emit(Effect::WaitsForTable(ticket));
        } else {
            state.answers.answer(ticket, Ok(Payload::EMPTY));
        }
        self.end(state, request);
    }

    fn end(&mut self, state: &mut CacheState, request: u32) {
        let it = self.under_way.remove(request);
        assert!(it.outstanding == 0, "a request ends when all its parts have");
        self.release(state, it.lock.expect("it had its lines"));
    }

    /// Keeps what the slow device answered.
    fn fill(&mut self, state: &mut CacheState, request: u32) {
        let it = &mut self.under_way[request];
        let (lock, missed) = (it.lock.expect("it had its lines"), it.missed.clone());
        assert!(it.outstanding == 0, "a read is answered before it fills slots");
        let pieces = std::mem::take(&mut it.pieces);
        let around = goes_around(state, &self.under_way[request].bytes);
        if missed.is_empty() || around || !state.locks.upgrade(lock) {
            met_if(!missed.is_empty() && !around, "others want the lines that were read");
            return self.end(state, request);
        }
        for (at, payload) in
            pieces.into_iter().filter(|(at, _)| missed.iter().any(|m| m.start == *at))
        {
            let bytes = at..at + u64::from(payload.len());
            let segments = cut(state, &bytes, |state, line| {
                if !state.covers(&bytes, line) {
                    return None;
                }
                match state.lines.find(line) {
                    Some(slot) => (state.lines.marks(slot) == 0).then_some(slot),
                    None => make_room(state, line),
                }
            });
            for segment in segments.into_iter().filter(|segment| segment.slot.is_some()) {
                let (side, offset) = state.place_of(&segment);
                let from = (segment.bytes.start - at) as u32;
                let data = payload.slice(from..from + segment.length());
                state.status.filled.0 += u64::from(data.len());
                self.under_way[request].outstanding += 1;
                let task = Task::Fill { request, lines: lines_of(&segment.bytes) };
                state.send(side, task, Io::Write { offset, data, fua: false });
            }
        }
        if self.under_way[request].outstanding == 0 {
            self.end(state, request);
        }
    }

    /// Lines were copied to their slots, or were not.
    pub(crate) fn filled(
        &mut self,
        state: &mut CacheState,
        request: u32,
        lines: Range<u32>,
        result: Result<Payload, DeviceError>,
    ) {
        assert!(self.under_way[request].outstanding > 0, "each part is answered once");
        for line in lines {
            let slot = state.lines.find(line).expect("a line that is being filled has a slot");
            assert!(state.lines.marks(slot) == 0, "nobody wrote a line that is being filled");
            match result {
                Ok(_) => state.lines.remark(slot, mark::VALID, 0),
                Err(_) => {
                    met("a line cannot be kept");
                    state.lines.forget(slot);
                }
            }
        }
        self.under_way[request].outstanding -= 1;
        if self.under_way[request].outstanding == 0 {
            self.end(state, request);
        }
    }
}

/// True if a request is so long that it goes around the fast device where its lines are not cached.
fn goes_around(state: &CacheState, bytes: &Range<u64>) -> bool {
    bytes.end - bytes.start >= u64::from(state.settings.around_from)
}

/// Cuts bytes at lines; `slot` says where each line is. Neighbours are one segment.
fn cut(
    state: &mut CacheState,
    bytes: &Range<u64>,
    mut slot: impl FnMut(&mut CacheState, u32) -> Option<u32>,
) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for line in lines_of(bytes) {
        let whole = state.bytes_of(line);
        let part = whole.start.max(bytes.start)..whole.end.min(bytes.end);
        let slot = slot(state, line);
        match segments.last_mut() {
            Some(last) if last.slot_after() == slot => last.bytes.end = part.end,
            _ => segments.push(Segment { slot, bytes: part }),
        }
    }
    let length: u64 = segments.iter().map(|segment| u64::from(segment.length())).sum();
    assert!(length == bytes.end - bytes.start, "segments are all of {bytes:?}, once");
    segments
}
