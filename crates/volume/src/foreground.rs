//! Requests of clients: split by chunk, kept in order where they overlap, sent to copies.
//!
//! A request becomes parts, one a chunk. A part waits for the scheduler, then at its chunk's hazard
//! check ([`crate::hazards`]), then becomes one device request for each run of each copy it
//! concerns. A chunk that has parts or an operation under way has a [`Traffic`]; all others have
//! none.

use crate::core::Core;
use crate::core::traffic::Verb;
use crate::core::traffic::bit;
use crate::group::Group;
use crate::journal::Waiter;
use crate::map::NONE;
use crate::pools::flight::{Flight, Owner};
use crate::request::{Action, Piece, Priority, RequestError, RequestId};
use crate::scheduler::Lane;
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
        let Group { scheduler, core: Core { pools, .. }, .. } = self;
        scheduler.pop(now, |lane| lane.pool().is_none_or(|id| pools[id].is_free_of_foreground()))
    }

    /// The pool that a part is expected to use: a write waits for the slowest copy of its chunk,
    /// and for the pool that a new chunk would go to.
    pub(crate) fn lane_for(&self, chunk: ChunkId, verb: &Verb) -> Lane {
        let writes = !matches!(verb, Verb::Read);
        let copies = self.core.map.copies(chunk).map(|copy| copy.place.pool);
        let pool = match self.core.map.entry(chunk).first() {
            // Which side of a chunk in two parts it goes to is not known yet.
            Some(first) if !writes || self.core.map.overlay(chunk).is_some() => Some(first.pool),
            Some(_) => copies.max_by_key(|&pool| self.core.pools.ranks().rank_of(pool)),
            None if matches!(verb, Verb::Write(_)) => self.pool_for_chunk(0, &[]),
            None => None,
        };
        pool.map_or(Lane::NONE, Lane::of)
    }

    /// A part is sent to a pool's device: its place among those under way moves there, unless it
    /// waits for a slower one already.
    pub(crate) fn note_sent(&mut self, part: u32, pool: PoolId) {
        let lane = self.core.parts[part].lane.pool();
        let is_slower =
            lane.is_none_or(|lane| self.core.pools.ranks().compare_speed(lane, pool).is_lt());
        let part = &mut self.core.parts[part];
        let to = Lane::of(pool);
        let first = part.outstanding == 1;
        if part.lane != to && (first || is_slower) {
            self.scheduler.moved(part.lane, to, part.priority);
            part.lane = to;
        }
    }

    /// A part reaches its chunk.
    fn arrive(&mut self, now: Nanos, part: u32) {
        let chunk = self.core.parts[part].chunk;
        self.observe(now, part);
        let traffic = self.core.traffic_of(chunk);
        if self.pass_hazards(now, part) {
            self.begin(now, part);
        } else {
            self.core.traffic[traffic].waiting.push_back(part);
        }
    }

    /// Counts heat and tells the placement.
    fn observe(&mut self, now: Nanos, part: u32) {
        let part = &self.core.parts[part];
        let offset = Bytes(u64::from(part.range.start));
        let bytes = Bytes(u64::from(part.range.end - part.range.start));
        let write = part.is_write();
        let epoch = self.epoch;
        self.core.map.entry_mut(part.chunk).heat(epoch, write);
        let access = ChunkAccess { at: now, chunk: part.chunk, offset, bytes, write };
        if let Some(placement) = &mut self.placement {
            placement.observe(&access);
        }
        self.shadows.observe(&access);
        if let Some(observer) = &mut self.observer {
            observer.accessed(&access);
        }
    }

    /// Starts a part that the hazard check let through.
    pub(crate) fn begin(&mut self, now: Nanos, part: u32) {
        self.core.parts_begun += 1;
        let chunk = self.core.parts[part].chunk;
        assert_eq!(self.core.parts[part].order, 0, "a part begins once");
        self.core.parts[part].order = self.core.parts_begun;
        let traffic = self.core.traffic_of(chunk);
        self.core.traffic[traffic].running.push(part);
        if self.core.parts[part].is_write() {
            self.note_write(now, part);
        }
        let whole = self.core.covers_chunk(part);
        match &self.core.parts[part].verb {
            Verb::Read => self.begin_read(now, part),
            Verb::Zero | Verb::Discard if whole => {
                self.unmap(chunk);
                self.conclude(now, part);
            }
            Verb::Discard if !self.discards_to_zero(chunk) => self.conclude(now, part),
            _ => self.begin_write(now, part),
        }
    }

    /// Sends a request to a device; its number as long as it is under way.
    pub(crate) fn send(&mut self, now: Nanos, pool: PoolId, owner: Owner, io: Io) -> u32 {
        let mut background = false;
        if let Owner::Part { part, .. } = owner {
            self.note_sent(part, pool);
            background = self.core.parts[part].priority != Priority::Foreground;
        }
        self.core.pools.send(now, pool, owner, io, background)
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
        assert!(self.core.parts[part].outstanding > 0, "each answer is to a request under way");
        self.core.parts[part].outstanding -= 1;
        if !flight.writes
            && result.is_ok()
            && let Some(operation) = self.core.operation_on(self.core.parts[part].chunk)
        {
            let took = now.saturating_sub(flight.since);
            let copy = &mut self.core.operations[operation];
            copy.trial.note(pool == copy.destination.pool, took);
        }
        if self.is_opening(part) {
            return self.opened(now, part, pool, result);
        }
        match result {
            Ok(payload) if !flight.writes => {
                self.part_read_done(now, part, at, flight, payload);
            }
            Ok(_) => self.core.parts[part].succeeded |= bit(pool),
            Err(_) if !flight.writes => {
                self.reread(now, part, at..at + flight.bytes, flight.place());
            }
            Err(DeviceError::NoSpace) if self.places_elsewhere(now, part, pool) => return,
            Err(_) if self.write_elsewhere(part, at, pool) => {}
            Err(error) => {
                let state = &mut self.core.parts[part];
                state.failed |= bit(pool);
                if error == DeviceError::NoSpace {
                    state.error = Some(RequestError::NoSpace);
                }
            }
        }
        self.conclude_if_done(now, part);
    }

    pub(crate) fn conclude_if_done(&mut self, now: Nanos, part: u32) {
        if self.core.parts[part].outstanding == 0 {
            self.conclude(now, part);
        }
    }

    /// All device requests of a part have ended: settle what failed, then answer or wait.
    pub(crate) fn conclude(&mut self, now: Nanos, part: u32) {
        if self.core.parts[part].is_write() {
            self.settle_write(now, part);
            self.stays_where_written(part);
        }
        let chunk = self.core.parts[part].chunk;
        let traffic = self.core.traffic_of(chunk);
        self.core.traffic[traffic].running.retain(|&running| running != part);
        let state = &self.core.parts[part];
        let volatile = matches!(state.verb, Verb::Zero)
            || self.core.has_changes() && !mutant("forced_before_its_record");
        if state.fua && state.error.is_none() && volatile {
            self.core.journal.join(Waiter::Part(part));
        } else {
            self.end_part(part);
        }
        self.traffic_eased(now, chunk);
    }

    /// A part or an operation has left the chunk: lets others in, frees slots that it was on.
    pub(crate) fn traffic_eased(&mut self, now: Nanos, chunk: ChunkId) {
        let index = self.core.traffic_of(chunk);
        if std::mem::replace(&mut self.core.traffic[index].easing, true) {
            return; // Further out a loop is at it.
        }
        loop {
            while let Some(&next) = self.core.traffic[index].waiting.front() {
                let waiting = std::mem::take(&mut self.core.traffic[index].waiting);
                let open = self.pass_hazards(now, next);
                self.core.traffic[index].waiting = waiting;
                if !open {
                    break;
                }
                self.core.traffic[index].waiting.pop_front();
                self.begin(now, next);
            }
            // A freed slot may end a part that waited for one, and let in who waits behind it.
            if !self.free_left_slots(now, chunk) {
                break;
            }
        }
        self.core.traffic[index].easing = false;
        if self.core.traffic[index].is_over() {
            self.core.map.entry_mut(chunk).traffic = NONE;
            self.core.traffic.remove(index);
        }
    }
}
