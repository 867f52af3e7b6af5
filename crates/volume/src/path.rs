//! The path of a client's request to the devices and back.
//!
//! A request becomes parts, one a chunk. A part waits for the scheduler, then at its chunk's hazard
//! check ([`crate::hazards`]), then becomes one device request for each run of each copy it
//! concerns ([`reading`], [`writing`]). A chunk that has parts or an operation under way has a
//! [`Traffic`](crate::group_state::traffic::Traffic); all others have none.

mod reading;
mod writing;

use crate::block_checksums::BlockChecksums;
use crate::epochs::Epochs;
use crate::first_slot::is_opening;
use crate::group_state::GroupState;
use crate::group_state::traffic::{Verb, bit};
use crate::hazards::pass_hazards;
use crate::hinting::Hinting;
use crate::journal::Waiter;
use crate::leaving::Leaving;
use crate::map::{NONE, Place};
use crate::moves::Moves;
use crate::pools::flight::{Flight, Owner};
use crate::request::{Priority, RequestError};
use crate::requests::Requests;
use crate::routing::Routing;
use crate::scheduler::Lane;
use crate::scrub::Scrub;
use thermocline_policy::placement::ChunkAccess;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};
use writing::{discards_to_zero, unmap};

/// The machines that a part meets on its way.
pub(crate) struct Path<'a> {
    pub(crate) group: &'a mut GroupState,
    pub(crate) checksums: &'a mut BlockChecksums,
    pub(crate) requests: &'a mut Requests,
    pub(crate) leaving: &'a mut Leaving,
    pub(crate) scrub: &'a mut Scrub,
    pub(crate) moves: &'a mut Moves,
    pub(crate) hinting: &'a mut Hinting,
    pub(crate) routing: &'a mut Routing,
    pub(crate) epochs: &'a mut Epochs,
}

impl Path<'_> {
    /// Splits requests, starts parts.
    pub(crate) fn pump_foreground(&mut self, now: Nanos) {
        loop {
            if let Some(request) = self.requests.unsplit.pop() {
                let listed = std::mem::replace(&mut self.requests.all[request].listed, false);
                assert!(listed, "a request stands in the list once");
                self.requests.split(self.group, self.epochs, request);
            } else if let Some(part) = self.next_part(now) {
                self.arrive(now, part);
            } else {
                return;
            }
        }
    }

    /// The part that the scheduler lets go next.
    fn next_part(&mut self, now: Nanos) -> Option<u32> {
        let pools = &self.group.pools;
        let next = self
            .requests
            .scheduler
            .pop(now, |lane| lane.pool().is_none_or(|id| pools[id].is_free_of_foreground()));
        debug_assert!(next.is_none_or(|part| self.group.parts[part].order == 0), "none has begun");
        next
    }

    /// A part is sent to a pool's device: its place among those under way moves there, unless it
    /// waits for a slower one already.
    pub(crate) fn note_sent(&mut self, part: u32, pool: PoolId) {
        let lane = self.group.parts[part].lane.pool();
        let is_slower =
            lane.is_none_or(|lane| self.group.pools.ranks().compare_speed(lane, pool).is_lt());
        let part = &mut self.group.parts[part];
        assert!(part.outstanding > 0, "what is sent is counted");
        let to = Lane::of(pool);
        let first = part.outstanding == 1;
        if part.lane != to && (first || is_slower) {
            self.requests.scheduler.moved(part.lane, to, part.priority);
            part.lane = to;
        }
    }

    /// A part reaches its chunk.
    fn arrive(&mut self, now: Nanos, part: u32) {
        let chunk = self.group.parts[part].chunk;
        self.tell_of_access(now, part);
        let traffic = self.group.traffic_of(chunk);
        debug_assert!(!self.group.traffic[traffic].waiting.contains(&part), "it comes once");
        if pass_hazards(self.group, self.checksums, now, part) {
            self.begin(now, part);
        } else {
            self.group.traffic[traffic].waiting.push_back(part);
        }
    }

    /// Tells who follows accesses.
    fn tell_of_access(&mut self, now: Nanos, part: u32) {
        let part = &self.group.parts[part];
        assert_eq!(part.order, 0, "an access is told before it begins");
        let offset = Bytes(u64::from(part.range.start));
        let bytes = Bytes(u64::from(part.range.end - part.range.start));
        let (chunk, write) = (part.chunk, part.is_write());
        self.epochs.accessed(self.group, &ChunkAccess { at: now, chunk, offset, bytes, write });
    }

    /// Starts a part that the hazard check let through.
    pub(crate) fn begin(&mut self, now: Nanos, part: u32) {
        self.group.parts_begun += 1;
        let chunk = self.group.parts[part].chunk;
        assert_eq!(self.group.parts[part].order, 0, "a part begins once");
        self.group.parts[part].order = self.group.parts_begun;
        let traffic = self.group.traffic_of(chunk);
        self.group.traffic[traffic].running.push(part);
        if self.group.parts[part].is_write() {
            self.note_write(now, part);
        }
        let whole = self.group.covers_chunk(part);
        match &self.group.parts[part].verb {
            Verb::Read => self.begin_read(now, part),
            Verb::Zero | Verb::Discard if whole => {
                unmap(self.group, self.checksums, chunk);
                self.conclude(now, part);
            }
            Verb::Discard if !discards_to_zero(self.group, chunk) => self.conclude(now, part),
            _ => self.begin_write(now, part),
        }
    }

    /// Sends a request for byte `at` of a part's chunk to a device.
    fn send_to(&mut self, now: Nanos, place: Place, part: u32, at: u32, io: Io) {
        self.note_sent(part, place.pool);
        let background = self.group.parts[part].priority != Priority::Foreground;
        let owner = Owner::Part { part, at };
        let flight = self.group.pools.send(now, place.pool, owner, io, background);
        assert!(self.group.pools[place.pool].slots.is_taken(place.slot), "it is somebody's slot");
        self.group.pools.note_slot(flight, place.slot);
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
        assert!(self.group.parts[part].outstanding > 0, "each answer is to a request under way");
        self.group.parts[part].outstanding -= 1;
        if !flight.writes
            && result.is_ok()
            && let Some(operation) = self.group.operation_on(self.group.parts[part].chunk)
        {
            let took = now.saturating_sub(flight.since);
            let copy = &mut self.group.operations[operation];
            copy.trial.note(pool == copy.destination.pool, took);
        }
        if is_opening(self.group, part) {
            return self.slot_cleaned(now, part, pool, &result);
        }
        match result {
            Ok(payload) if !flight.writes => {
                self.part_read_done(now, part, at, flight, payload);
            }
            Ok(_) => self.group.parts[part].succeeded |= bit(pool),
            Err(_) if !flight.writes => {
                self.reread(now, part, at..at + flight.bytes, flight.place());
            }
            Err(DeviceError::NoSpace) if self.places_elsewhere(now, part, pool) => return,
            Err(_) if self.write_elsewhere(part, at, pool) => {}
            Err(error) => {
                let state = &mut self.group.parts[part];
                state.failed |= bit(pool);
                if error == DeviceError::NoSpace {
                    state.error = Some(RequestError::NoSpace);
                }
            }
        }
        self.conclude_if_done(now, part);
    }

    pub(crate) fn conclude_if_done(&mut self, now: Nanos, part: u32) {
        if self.group.parts[part].outstanding == 0 {
            self.conclude(now, part);
        }
    }

    /// All device requests of a part have ended: settle what failed, then answer or wait.
    pub(crate) fn conclude(&mut self, now: Nanos, part: u32) {
        assert_eq!(self.group.parts[part].outstanding, 0, "no device has it");
        if self.group.parts[part].is_write() {
            self.settle_write(now, part);
            self.stays_where_written(part);
        }
        let chunk = self.group.parts[part].chunk;
        let traffic = self.group.traffic_of(chunk);
        let before = self.group.traffic[traffic].running.len();
        self.group.traffic[traffic].running.retain(|&running| running != part);
        let left = self.group.traffic[traffic].running.len();
        assert_eq!(left + 1, before, "a part is on its chunk once");
        let state = &self.group.parts[part];
        let volatile = matches!(state.verb, Verb::Zero)
            || self.group.has_changes() && !mutant("forced_before_its_record");
        if state.fua && state.error.is_none() && volatile {
            self.group.journal.join(Waiter::Part(part));
        } else {
            self.requests.end_part(self.group, self.epochs, part);
        }
        self.traffic_eased(now, chunk);
    }

    /// A part or an operation has left the chunk: lets others in, frees slots that it was on.
    pub(crate) fn traffic_eased(&mut self, now: Nanos, chunk: ChunkId) {
        let index = self.group.traffic_of(chunk);
        if std::mem::replace(&mut self.group.traffic[index].easing, true) {
            return; // Further out a loop is at it.
        }
        loop {
            while let Some(&next) = self.group.traffic[index].waiting.front() {
                let waiting = std::mem::take(&mut self.group.traffic[index].waiting);
                let open = pass_hazards(self.group, self.checksums, now, next);
                let come = std::mem::replace(&mut self.group.traffic[index].waiting, waiting);
                assert!(come.is_empty(), "nobody joins the queue while it is looked at");
                if !open {
                    break;
                }
                self.group.traffic[index].waiting.pop_front();
                self.begin(now, next);
            }
            // A freed slot may end a part that waited for one, and let in who waits behind it.
            if !self.leaving.free_left_slots(self.group, now, chunk) {
                break;
            }
        }
        self.group.traffic[index].easing = false;
        if self.group.traffic[index].is_over() {
            self.group.map.entry_mut(chunk).traffic = NONE;
            self.group.traffic.remove(index);
        }
    }
}
