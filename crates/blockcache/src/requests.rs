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

use crate::cache::BlockCache;
use crate::commit::Waiter;
use crate::format::{ORIGIN_OFFSET, Side};
use crate::lines::mark;
use crate::locks::Hold;
use crate::pair::Task;
use crate::{LINE, OpenError};
use std::ops::Range;
use thermocline_policy::cache::Sets;
use thermocline_ports::{Device, DeviceError, Io, Payload, Ticket};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, Nanos};

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
pub(crate) struct Request {
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

/// Bytes that go to one device in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    /// The first slot; none: the slow device.
    slot: Option<u32>,
    bytes: Range<u64>,
}

/// One write to the slow device in place of several that lie close together, if there are several:
/// a disk would seek for each. It also has what lies between them, which slots have too and keep: a
/// slot's line is dirty, and hides what the slow device has of it. `None`: there are not several,
/// or more lies between them than they have themselves.
fn parts_together(segments: &[Segment]) -> Option<Segment> {
    let parts = || segments.iter().filter(|segment| segment.slot.is_none());
    let bytes = parts().next()?.bytes.start..parts().next_back()?.bytes.end;
    let theirs: u64 = parts().map(|segment| u64::from(segment.length())).sum();
    let close = bytes.end - bytes.start <= 2 * theirs;
    (parts().count() > 1 && close).then_some(Segment { slot: None, bytes })
}

/// The lines that `bytes` touches.
pub(crate) fn lines_of(bytes: &Range<u64>) -> Range<u32> {
    let line = u64::from(LINE);
    (bytes.start / line) as u32..bytes.end.div_ceil(line) as u32
}

impl<C: Device, O: Device> BlockCache<C, O> {
    /// Takes a request with a range.
    pub(crate) fn begin(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        let (offset, length) = io.range().expect("a flush is not a request for lines");
        let bytes = offset.0..offset.0 + length.0;
        assert!(bytes.end <= self.geometry.size.0, "{bytes:?} lies outside {:?}", self.geometry);
        let verb = match io {
            Io::Read { .. } => Verb::Read,
            Io::Write { data, fua, .. } => Verb::Write { data, fua },
            Io::WriteZeroes { .. } => Verb::Zero,
            Io::Discard { .. } | Io::Flush => Verb::Discard,
        };
        let (lines, hold) = (lines_of(&bytes), verb.hold());
        let request = self.requests.insert(Request {
            ticket,
            verb,
            bytes,
            lock: None,
            outstanding: 0,
            error: None,
            pieces: Vec::new(),
            missed: Vec::new(),
        });
        if let Some(lock) = self.locks.take_or_wait(request, lines, hold) {
            self.start(now, request, lock);
        }
    }

    fn start(&mut self, now: Nanos, request: u32, lock: u32) {
        self.requests[request].lock = Some(lock);
        match &self.requests[request].verb {
            Verb::Read => self.start_read(now, request),
            Verb::Write { .. } => self.start_write(now, request),
            Verb::Zero | Verb::Discard => self.start_drop(now, request),
        }
    }

    /// Gives lines back, and starts who waited for them.
    pub(crate) fn release(&mut self, now: Nanos, lock: u32) {
        self.locks.release(lock);
        while let Some((request, lock)) = self.locks.next() {
            self.start(now, request, lock);
        }
    }

    /// The bytes of `line` that there are: the last line may be short.
    pub(crate) fn bytes_of(&self, line: u32) -> Range<u64> {
        let start = u64::from(line) * u64::from(LINE);
        start..(start + u64::from(LINE)).min(self.geometry.size.0)
    }

    fn covers(&self, bytes: &Range<u64>, line: u32) -> bool {
        let whole = self.bytes_of(line);
        bytes.start <= whole.start && whole.end <= bytes.end
    }

    fn goes_around(&self, bytes: &Range<u64>) -> bool {
        bytes.end - bytes.start >= u64::from(self.settings.around_from)
    }

    /// Cuts bytes at lines; `slot` says where each line is. Neighbours are one segment.
    fn cut(
        &mut self,
        bytes: &Range<u64>,
        mut slot: impl FnMut(&mut Self, u32) -> Option<u32>,
    ) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for line in lines_of(bytes) {
            let whole = self.bytes_of(line);
            let part = whole.start.max(bytes.start)..whole.end.min(bytes.end);
            let slot = slot(self, line);
            match segments.last_mut() {
                Some(last) if last.slot_after() == slot => last.bytes.end = part.end,
                _ => segments.push(Segment { slot, bytes: part }),
            }
        }
        segments
    }

    /// The device and the offset of a segment.
    fn place_of(&self, segment: &Segment) -> (Side, Bytes) {
        let start = segment.bytes.start;
        match segment.slot {
            Some(slot) => {
                let within = start % u64::from(LINE);
                (Side::Cache, Bytes(self.lines.slot_offset(slot).0 + within))
            }
            None => (Side::Origin, Bytes(ORIGIN_OFFSET + start)),
        }
    }

    fn start_read(&mut self, now: Nanos, request: u32) {
        let bytes = self.requests[request].bytes.clone();
        let mut segments = self.cut(&bytes, |cache, line| {
            let slot = cache.lines.slot_of(line)?;
            cache.lines.hit(slot);
            Some(slot)
        });
        if !self.goes_around(&bytes) {
            // Whole lines, so that they can be kept.
            for missed in segments.iter_mut().filter(|segment| segment.slot.is_none()) {
                let lines = lines_of(&missed.bytes);
                missed.bytes = self.bytes_of(lines.start).start..self.bytes_of(lines.end - 1).end;
            }
        }
        for segment in segments {
            self.read(now, request, &segment);
        }
    }

    fn read(&mut self, now: Nanos, request: u32, segment: &Segment) {
        let (side, offset) = self.place_of(segment);
        let length = segment.length();
        match side {
            Side::Cache => self.status.read_hits.0 += u64::from(length),
            Side::Origin => {
                let around = self.goes_around(&self.requests[request].bytes);
                let status = &mut self.status;
                let count = if around { &mut status.read_around } else { &mut status.read_misses };
                count.0 += u64::from(length);
                self.requests[request].missed.push(segment.bytes.clone());
            }
        }
        self.requests[request].outstanding += 1;
        let at = segment.bytes.start;
        let task = Task::Piece { request, side, at, length, writes: false };
        self.devices.send(now, side, task, Io::Read { offset, length });
    }

    fn start_write(&mut self, now: Nanos, request: u32) {
        let state = &self.requests[request];
        let Verb::Write { data, fua } = state.verb.clone() else {
            unreachable!("only writes are written")
        };
        let bytes = state.bytes.clone();
        let around = self.goes_around(&bytes);
        let segments = self.cut(&bytes, |cache, line| {
            let whole = cache.covers(&bytes, line);
            match cache.lines.find(line) {
                // A slot that only waits for the table is the line's own, to be filled whole, and
                // must not be given away while it is.
                Some(slot)
                    if whole
                        || cache.lines.has(slot, mark::VALID)
                        || mutant("part_written_to_a_slot_without_contents") =>
                {
                    let waits = !cache.lines.has(slot, mark::VALID);
                    met_if(waits, "a write fills a slot that waits for the table");
                    cache.lines.hit(slot);
                    cache.lines.remark(slot, mark::VALID, 0);
                    Some(slot)
                }
                None if whole && !around => cache.make_room(line),
                _ => None,
            }
        });
        let together = parts_together(&segments);
        for segment in segments {
            let length = segment.length();
            match segment.slot {
                Some(_) => self.status.written.0 += u64::from(length),
                None => self.status.written_around.0 += u64::from(length),
            }
            if segment.slot.is_some() || together.is_none() {
                let from = (segment.bytes.start - bytes.start) as u32;
                self.write(now, request, &segment, data.slice(from..from + length), fua);
            }
        }
        if let Some(part) = together {
            met("parts that go around are written together");
            let from = (part.bytes.start - bytes.start) as u32;
            self.write(now, request, &part, data.slice(from..from + part.length()), fua);
        }
    }

    fn write(&mut self, now: Nanos, request: u32, segment: &Segment, data: Payload, fua: bool) {
        let (side, offset) = self.place_of(segment);
        let (at, length) = (segment.bytes.start, segment.length());
        self.requests[request].outstanding += 1;
        let task = Task::Piece { request, side, at, length, writes: true };
        self.devices.send(now, side, task, Io::Write { offset, data, fua });
    }

    /// A slot for a line that has none.
    fn make_room(&mut self, line: u32) -> Option<u32> {
        let locks = &self.locks;
        let staying = match mutant("slot_reused_while_the_table_names_it") {
            true => mark::DIRTY,
            false => mark::DIRTY | mark::RECORDED,
        };
        let may_leave = |sets: &Sets, slot: u32| {
            sets.marks(slot) & staying == 0
                && sets.line_in(slot).is_some_and(|line| !locks.holds(line))
        };
        match self.lines.take_slot(line, may_leave) {
            Some(slot) => Some(slot),
            None => {
                // Some of the set may be clean, and only named by the table still.
                met("a set has no slot to give");
                self.commit.wanted = true;
                None
            }
        }
    }

    fn start_drop(&mut self, now: Nanos, request: u32) {
        let state = &self.requests[request];
        let (bytes, verb) = (state.bytes.clone(), state.verb.clone());
        let (offset, length) = (Bytes(ORIGIN_OFFSET + bytes.start), Bytes(bytes.end - bytes.start));
        let io = match verb {
            Verb::Discard => Io::Discard { offset, length },
            _ => Io::WriteZeroes { offset, length },
        };
        self.requests[request].outstanding += 1;
        self.devices.send(now, Side::Origin, Task::Dropped { request }, io);
        if mutant("drop_leaves_the_ends") {
            return;
        }
        // Lines at the ends that are covered in part stay, with zeroes in that part.
        let lines = lines_of(&bytes);
        let mut ends = vec![lines.start];
        ends.extend((lines.end - 1 > lines.start).then_some(lines.end - 1));
        for line in ends {
            let Some(slot) = self.lines.slot_of(line).filter(|_| !self.covers(&bytes, line)) else {
                continue;
            };
            met("a drop covers part of a cached line");
            let whole = self.bytes_of(line);
            let part = whole.start.max(bytes.start)..whole.end.min(bytes.end);
            let segment = Segment { slot: Some(slot), bytes: part };
            let zeroes = Payload::Zeroes(segment.length());
            self.write(now, request, &segment, zeroes, false);
        }
    }

    /// The slow device has dropped a range, or has not.
    pub(crate) fn dropped(
        &mut self,
        now: Nanos,
        request: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let bytes = self.requests[request].bytes.clone();
        let slots = self.slots_in(&lines_of(&bytes));
        for slot in slots {
            let line = self.lines.line_in(slot).expect("it was found by its line");
            // What failed half-way has changed the slow device: clean lines are read again there.
            let whole = self.covers(&bytes, line) && !mutant("drop_keeps_lines");
            met_if(whole && self.lines.has(slot, mark::DIRTY), "a drop covers a dirty line");
            met_if(whole && result.is_err(), "a drop of cached lines fails");
            if whole && (result.is_ok() || !self.lines.has(slot, mark::DIRTY)) {
                self.lines.forget(slot);
            }
        }
        let state = &mut self.requests[request];
        state.error = state.error.or(result.err());
        self.piece_ended(now, request);
    }

    /// The slots that hold contents of `lines`.
    fn slots_in(&self, lines: &Range<u32>) -> Vec<u32> {
        if lines.end - lines.start < self.lines.slots() {
            return lines.clone().filter_map(|line| self.lines.slot_of(line)).collect();
        }
        let inside = |&slot: &u32| {
            self.lines.has(slot, mark::VALID)
                && self.lines.line_in(slot).is_some_and(|line| lines.contains(&line))
        };
        (0..self.lines.slots()).filter(inside).collect()
    }

    /// A device answered for a piece of a request.
    pub(crate) fn piece_done(
        &mut self,
        now: Nanos,
        request: u32,
        side: Side,
        bytes: Range<u64>,
        result: Result<Payload, DeviceError>,
    ) {
        let reads = matches!(self.requests[request].verb, Verb::Read);
        match (side, result) {
            (_, Ok(payload)) if reads => {
                self.requests[request].pieces.push((bytes.start, payload));
            }
            (Side::Cache, Err(error)) if reads => {
                if self.forget_clean(&bytes) {
                    self.read(now, request, &Segment { slot: None, bytes });
                } else {
                    self.requests[request].error = Some(error);
                }
            }
            (Side::Cache, result) => {
                self.slots_written(&bytes, result.is_ok());
                let state = &mut self.requests[request];
                state.error = state.error.or(result.err());
            }
            (Side::Origin, result) => {
                let state = &mut self.requests[request];
                state.error = state.error.or(result.err());
            }
        }
        self.piece_ended(now, request);
    }

    /// Lines whose slots cannot be read are forgotten, if the slow device has them all.
    fn forget_clean(&mut self, bytes: &Range<u64>) -> bool {
        let slots = self.slots_in(&lines_of(bytes));
        let clean = slots.iter().all(|&slot| !self.lines.has(slot, mark::DIRTY));
        met(if clean { "a clean line cannot be read" } else { "a dirty line cannot be read" });
        let clean = clean || mutant("dirty_line_read_from_the_slow_device");
        if clean {
            slots.into_iter().for_each(|slot| self.lines.forget(slot));
        }
        clean
    }

    fn slots_written(&mut self, bytes: &Range<u64>, done: bool) {
        for line in lines_of(bytes) {
            let slot = self.lines.find(line).expect("a line that is being written has a slot");
            if done {
                self.lines.remark(slot, mark::VALID | mark::DIRTY | mark::REWRITTEN, 0);
            } else if self.lines.has(slot, mark::DIRTY)
                && !mutant("failed_write_forgets_a_dirty_line")
            {
                met("a write to a dirty line fails");
                // Each sector is old or new, and the slow device has neither for certain.
                self.lines.remark(slot, mark::REWRITTEN, 0);
            } else {
                self.lines.forget(slot);
            }
        }
    }

    fn piece_ended(&mut self, now: Nanos, request: u32) {
        let state = &mut self.requests[request];
        assert!(state.outstanding > 0, "each part is answered once");
        state.outstanding -= 1;
        if state.outstanding > 0 {
            return;
        }
        let (ticket, bytes) = (state.ticket, state.bytes.clone());
        let forced = matches!(state.verb, Verb::Write { fua: true, .. });
        if let Some(error) = state.error {
            self.answers.answer(ticket, Err(error));
        } else if matches!(state.verb, Verb::Read) {
            let whole = assemble(&bytes, &mut state.pieces);
            self.answers.answer(ticket, Ok(whole));
            return self.fill(now, request);
        } else if forced && !self.is_recorded(&bytes) && !mutant("forced_write_without_the_table") {
            met("a forced write waits for the table");
            self.commit.join(Waiter::Write(ticket));
        } else {
            self.answers.answer(ticket, Ok(Payload::EMPTY));
        }
        self.end(now, request);
    }

    /// True if a crash would find everything in `bytes` as it is: on the slow device, or in a slot
    /// that the table names. A slot that it still names without reason would hide the slow device.
    fn is_recorded(&self, bytes: &Range<u64>) -> bool {
        let named = mark::VALID | mark::RECORDED;
        let told = match mutant("recorded_although_the_table_is_under_way") {
            true => named,
            false => named | mark::RECORDING | mark::FREEING,
        };
        lines_of(bytes)
            .filter_map(|line| self.lines.find(line))
            .all(|slot| self.lines.marks(slot) & told == named)
    }

    fn end(&mut self, now: Nanos, request: u32) {
        let state = self.requests.remove(request);
        self.release(now, state.lock.expect("it had its lines"));
    }

    /// Keeps what the slow device answered.
    fn fill(&mut self, now: Nanos, request: u32) {
        let state = &mut self.requests[request];
        let (lock, missed) = (state.lock.expect("it had its lines"), state.missed.clone());
        let pieces = std::mem::take(&mut state.pieces);
        let around = self.goes_around(&self.requests[request].bytes);
        if missed.is_empty() || around || !self.locks.upgrade(lock) {
            met_if(!missed.is_empty() && !around, "others want the lines that were read");
            return self.end(now, request);
        }
        for (at, payload) in
            pieces.into_iter().filter(|(at, _)| missed.iter().any(|m| m.start == *at))
        {
            let bytes = at..at + u64::from(payload.len());
            let segments = self.cut(&bytes, |cache, line| {
                if !cache.covers(&bytes, line) {
                    return None;
                }
                match cache.lines.find(line) {
                    Some(slot) => (cache.lines.marks(slot) == 0).then_some(slot),
                    None => cache.make_room(line),
                }
            });
            for segment in segments.into_iter().filter(|segment| segment.slot.is_some()) {
                let (side, offset) = self.place_of(&segment);
                let from = (segment.bytes.start - at) as u32;
                let data = payload.slice(from..from + segment.length());
                self.status.filled.0 += u64::from(data.len());
                self.requests[request].outstanding += 1;
                let task = Task::Fill { request, lines: lines_of(&segment.bytes) };
                self.devices.send(now, side, task, Io::Write { offset, data, fua: false });
            }
        }
        if self.requests[request].outstanding == 0 {
            self.end(now, request);
        }
    }

    /// Lines were copied to their slots, or were not.
    pub(crate) fn filled(
        &mut self,
        now: Nanos,
        request: u32,
        lines: Range<u32>,
        result: Result<Payload, DeviceError>,
    ) {
        for line in lines {
            let slot = self.lines.find(line).expect("a line that is being filled has a slot");
            match result {
                Ok(_) => self.lines.remark(slot, mark::VALID, 0),
                Err(_) => {
                    met("a line cannot be kept");
                    self.lines.forget(slot);
                }
            }
        }
        assert!(self.requests[request].outstanding > 0, "each part is answered once");
        self.requests[request].outstanding -= 1;
        if self.requests[request].outstanding == 0 {
            self.end(now, request);
        }
    }

    /// Nothing can be kept from here on.
    pub(crate) fn fail(&mut self, error: DeviceError) {
        met("the cache has failed");
        self.failure = self.failure.or(Some(OpenError::Device(error)));
    }
}

impl Segment {
    fn length(&self) -> u32 {
        (self.bytes.end - self.bytes.start) as u32
    }

    /// The slot that a line must have to take this segment; none: it goes to the slow device, too.
    fn slot_after(&self) -> Option<u32> {
        let lines = lines_of(&self.bytes);
        self.slot.map(|slot| slot + (lines.end - lines.start))
    }
}

/// The pieces of a read, as one; those that begin before `bytes` or end behind are cut.
pub(crate) fn assemble(bytes: &Range<u64>, pieces: &mut [(u64, Payload)]) -> Payload {
    pieces.sort_unstable_by_key(|&(at, _)| at);
    let cut = |(at, payload): &(u64, Payload)| {
        let from = bytes.start.saturating_sub(*at) as u32;
        let to = u64::from(payload.len()).min(bytes.end - at) as u32;
        payload.slice(from..to)
    };
    if let [only] = &*pieces {
        return cut(only);
    }
    let parts: Vec<Payload> = pieces.iter().map(cut).collect();
    let length: u32 = parts.iter().map(Payload::len).sum();
    if parts.iter().all(|part| matches!(part, Payload::Zeroes(_))) {
        return Payload::Zeroes(length);
    }
    let mut whole = vec![0; length as usize];
    let mut rest = whole.as_mut_slice();
    for part in &parts {
        let (head, tail) = rest.split_at_mut(part.len() as usize);
        part.copy_to(head);
        rest = tail;
    }
    Payload::from(whole)
}
