//! Requests of clients: split by chunk, kept in order where they overlap, sent to copies.
//!
//! A request becomes parts, one a chunk. A part waits for the scheduler, then at its chunk's hazard
//! check ([`crate::hazards`]), then becomes one device request for each run of each copy it
//! concerns. A chunk that has parts or an operation under way has a [`Traffic`]; all others have
//! none.

use crate::group::Group;
use crate::journal::Waiter;
use crate::map::{NONE, Place};
use crate::pools::flight::{Flight, Owner};
use crate::request::{Action, Piece, Priority, RequestError, RequestId};
use crate::scheduler::Lane;
use std::collections::VecDeque;
use std::ops::Range;
use thermocline_policy::placement::ChunkAccess;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// A client's request under way.
#[derive(Debug)]
pub(crate) struct RequestState {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeId,
    pub(crate) action: Action,
    pub(crate) priority: Priority,
    /// Lane that it counts for among the requests in flight.
    pub(crate) share: Lane,
    /// Moment of its arrival.
    pub(crate) since: Nanos,
    pub(crate) start: u64,
    pub(crate) cursor: u64,
    pub(crate) end: u64,
    pub(crate) parts: u32,
    /// True if it stands in the list of requests with parts to be made.
    pub(crate) listed: bool,
    pub(crate) error: Option<RequestError>,
    pub(crate) pieces: Vec<Piece>,
}

/// Action of a part on its chunk.
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
    /// The pool whose queue it waits in, or whose place it has.
    pub(crate) lane: Lane,
    /// Its number among all parts, in the order in which they were begun.
    pub(crate) order: u64,
    pub(crate) outstanding: u32,
    /// Pools that failed a write, and that did it: one bit each.
    pub(crate) failed: u64,
    pub(crate) succeeded: u64,
    pub(crate) error: Option<RequestError>,
    /// Places to which its runs were sent, on a chunk in two parts. Places, because the sides may
    /// change under it: what was above may be the base by the time it is answered.
    pub(crate) sent: Vec<(Range<u32>, Place)>,
    /// Copies that could not be read, and sides of a mirrored chunk that failed it. Places, because
    /// the chunk may leave a pool and come back to it meanwhile.
    pub(crate) avoided: Vec<Place>,
    /// Pools that could not open a slot for the chunk.
    pub(crate) unfit: u64,
    /// The pool on which the part has just placed its new chunk.
    pub(crate) placed_on: Option<PoolId>,
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
    /// True if the journal is being told that the copies may differ from now on.
    pub(crate) intent: bool,
    /// Copies that the journal still calls equal to the others, and that take no more writes.
    pub(crate) dropping: u32,
    /// True if a part waits until the journal has taken what is queued.
    pub(crate) awaits_room: bool,
    /// True if parts are being let in right now.
    pub(crate) easing: bool,
    pub(crate) operation: Option<u32>,
    /// True if blocks of a copy are being written again.
    pub(crate) repairing: bool,
    /// Slots that the chunk has left, and the order before which parts may still be on them.
    pub(crate) left: Vec<(u64, Place)>,
}

pub(crate) fn bit(pool: PoolId) -> u64 {
    1 << pool.0
}

impl Group {
    /// Splits requests, starts parts.
    pub(crate) fn pump_foreground(&mut self, now: Nanos) {
        loop {
            if let Some(request) = self.unsplit.pop() {
                self.requests[request].listed = false;
                self.split(request);
            } else if let Some(part) = self.next_part(now) {
                self.arrive(now, part);
            } else {
                return;
            }
        }
    }

    /// The part that the scheduler lets go next.
    fn next_part(&mut self, now: Nanos) -> Option<u32> {
        let Group { scheduler, pools, .. } = self;
        scheduler.pop(now, |lane| lane.pool().is_none_or(|id| pools[id].is_free_of_foreground()))
    }

    /// The pool that a part is expected to use: a write waits for the slowest copy of its chunk,
    /// and for the pool that a new chunk would go to.
    pub(crate) fn lane_for(&self, chunk: ChunkId, verb: &Verb) -> Lane {
        let writes = !matches!(verb, Verb::Read);
        let copies = self.map.copies(chunk).map(|copy| copy.place.pool);
        let pool = match self.map.entry(chunk).first() {
            // Which side of a chunk in two parts it goes to is not known yet.
            Some(first) if !writes || self.map.overlay(chunk).is_some() => Some(first.pool),
            Some(_) => copies.max_by_key(|&pool| self.pools.ranks().rank_of(pool)),
            None if matches!(verb, Verb::Write(_)) => self.pool_for_chunk(0, &[]),
            None => None,
        };
        pool.map_or(Lane::NONE, Lane::of)
    }

    /// A part is sent to a pool's device: its place among those under way moves there, unless it
    /// waits for a slower one already.
    pub(crate) fn note_sent(&mut self, part: u32, pool: PoolId) {
        let lane = self.parts[part].lane.pool();
        let is_slower =
            lane.is_none_or(|lane| self.pools.ranks().compare_speed(lane, pool).is_lt());
        let part = &mut self.parts[part];
        let to = Lane::of(pool);
        let first = part.outstanding == 1;
        if part.lane != to && (first || is_slower) {
            self.scheduler.moved(part.lane, to, part.priority);
            part.lane = to;
        }
    }

    /// A part reaches its chunk.
    fn arrive(&mut self, now: Nanos, part: u32) {
        let chunk = self.parts[part].chunk;
        self.observe(now, part);
        let traffic = self.traffic_of(chunk);
        if self.pass_hazards(now, part) {
            self.begin(now, part);
        } else {
            self.traffic[traffic].waiting.push_back(part);
        }
    }

    /// Counts heat and tells the placement.
    fn observe(&mut self, now: Nanos, part: u32) {
        let part = &self.parts[part];
        let offset = Bytes(u64::from(part.range.start));
        let bytes = Bytes(u64::from(part.range.end - part.range.start));
        let write = part.is_write();
        let epoch = self.epoch;
        self.map.entry_mut(part.chunk).heat(epoch, write);
        let access = ChunkAccess { at: now, chunk: part.chunk, offset, bytes, write };
        if let Some(placement) = &mut self.placement {
            placement.observe(&access);
        }
        self.shadows.observe(&access);
        if let Some(observer) = &mut self.observer {
            observer.accessed(&access);
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

    /// True if a write to the chunk that overlaps `range` is on devices.
    pub(crate) fn writes_under_way(&self, chunk: ChunkId, range: &Range<u32>) -> bool {
        let traffic = self.map.entry(chunk).traffic;
        traffic != NONE
            && self.traffic[traffic].running.iter().any(|&part| {
                let part = &self.parts[part];
                part.is_write() && part.overlaps(range)
            })
    }

    /// Starts a part that the hazard check let through.
    pub(crate) fn begin(&mut self, now: Nanos, part: u32) {
        self.parts_begun += 1;
        let chunk = self.parts[part].chunk;
        assert_eq!(self.parts[part].order, 0, "a part begins once");
        self.parts[part].order = self.parts_begun;
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].running.push(part);
        if self.parts[part].is_write() {
            self.note_write(now, part);
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
        let start = u64::from(part.chunk.index) * u64::from(self.pools.chunk_bytes());
        let bytes = (volume.size.0 - start).min(u64::from(self.pools.chunk_bytes()));
        part.range.start == 0 && u64::from(part.range.end) >= bytes
    }

    /// Sends a request to a device; its number as long as it is under way.
    pub(crate) fn send(&mut self, now: Nanos, pool: PoolId, owner: Owner, io: Io) -> u32 {
        let mut background = false;
        if let Owner::Part { part, .. } = owner {
            self.note_sent(part, pool);
            background = self.parts[part].priority != Priority::Foreground;
        }
        self.pools.send(now, pool, owner, io, background)
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
        assert!(self.parts[part].outstanding > 0, "each answer is to a request under way");
        self.parts[part].outstanding -= 1;
        if !flight.writes
            && result.is_ok()
            && let Some(operation) = self.operation_on(self.parts[part].chunk)
        {
            let took = now.saturating_sub(flight.since);
            let copy = &mut self.copier.operations[operation];
            copy.trial.note(pool == copy.destination.pool, took);
        }
        if self.is_opening(part) {
            return self.opened(now, part, pool, result);
        }
        match result {
            Ok(payload) if !flight.writes => {
                self.part_read_done(now, part, at, flight, payload);
            }
            Ok(_) => self.parts[part].succeeded |= bit(pool),
            Err(_) if !flight.writes => {
                self.reread(now, part, at..at + flight.bytes, flight.place());
            }
            Err(DeviceError::NoSpace) if self.places_elsewhere(now, part, pool) => return,
            Err(_) if self.write_elsewhere(part, at, pool) => {}
            Err(error) => {
                let state = &mut self.parts[part];
                state.failed |= bit(pool);
                if error == DeviceError::NoSpace {
                    state.error = Some(RequestError::NoSpace);
                }
            }
        }
        self.conclude_if_done(now, part);
    }

    pub(crate) fn conclude_if_done(&mut self, now: Nanos, part: u32) {
        if self.parts[part].outstanding == 0 {
            self.conclude(now, part);
        }
    }

    /// All device requests of a part have ended: settle what failed, then answer or wait.
    pub(crate) fn conclude(&mut self, now: Nanos, part: u32) {
        if self.parts[part].is_write() {
            self.settle_write(now, part);
            self.stays_where_written(part);
        }
        let chunk = self.parts[part].chunk;
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].running.retain(|&running| running != part);
        let state = &self.parts[part];
        let volatile = matches!(state.verb, Verb::Zero)
            || self.has_changes() && !mutant("forced_before_its_record");
        if state.fua && state.error.is_none() && volatile {
            self.journal.join(Waiter::Part(part));
        } else {
            self.end_part(part);
        }
        self.traffic_eased(now, chunk);
    }

    /// A part or an operation has left the chunk: lets others in, frees slots that it was on.
    pub(crate) fn traffic_eased(&mut self, now: Nanos, chunk: ChunkId) {
        let index = self.traffic_of(chunk);
        if std::mem::replace(&mut self.traffic[index].easing, true) {
            return; // Further out a loop is at it.
        }
        loop {
            while let Some(&next) = self.traffic[index].waiting.front() {
                let waiting = std::mem::take(&mut self.traffic[index].waiting);
                let open = self.pass_hazards(now, next);
                self.traffic[index].waiting = waiting;
                if !open {
                    break;
                }
                self.traffic[index].waiting.pop_front();
                self.begin(now, next);
            }
            // A freed slot may end a part that waited for one, and let in who waits behind it.
            if !self.free_left_slots(now, chunk) {
                break;
            }
        }
        self.traffic[index].easing = false;
        if self.traffic[index].is_over() {
            self.map.entry_mut(chunk).traffic = NONE;
            self.traffic.remove(index);
        }
    }
}

impl Traffic {
    fn is_over(&self) -> bool {
        self.running.is_empty()
            && self.waiting.is_empty()
            && self.opening.is_none()
            && self.operation.is_none()
            && !self.repairing
            && self.left.is_empty()
            && self.dropping == 0
            && !self.intent
    }
}
