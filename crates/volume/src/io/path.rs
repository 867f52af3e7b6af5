//! The path of a client's request to the devices and back.
//!
//! A request becomes sub-requests, one a chunk. A sub-request waits for the scheduler, then at its
//! chunk's hazard check ([`crate::io::hazards`]), then becomes one device request for each run of
//! each copy it concerns ([`reading`], [`writing`]). A chunk that has sub-requests or an operation
//! under way has a [`BusyChunk`](crate::io::busy_chunk::BusyChunk); all others have none.

mod keeping;
mod reading;
mod writing;

use crate::epoch::epochs::Epochs;
use crate::epoch::hinting::Hinting;
use crate::group_state::GroupState;
use crate::io::busy_chunk::{Verb, bit};
use crate::io::first_slot::is_opening;
use crate::io::hazards::pass_hazards;
use crate::io::leaving::Leaving;
use crate::io::request::{Priority, RequestError};
use crate::io::requests::Requests;
use crate::io::routing::Routing;
use crate::io::scheduler::Lane;
use crate::journal::commit::Waiter;
use crate::lines::LineAnswer;
use crate::map::block_checksums::BlockChecksums;
use crate::map::place::Place;
use crate::moves::Moves;
use crate::pools::flight::{Flight, Owner};
use crate::scrub::Scrub;
use thermocline_policy::placement::ChunkAccess;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};
use writing::{discards_to_zero, unmap};

/// The machines that a sub-request meets on its way.
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
    /// Splits requests, starts sub-requests.
    pub(crate) fn pump_foreground(&mut self, now: Nanos) {
        loop {
            if let Some(request) = self.requests.unsplit.pop() {
                let listed = std::mem::replace(&mut self.requests.all[request].listed, false);
                assert!(listed, "a request stands in the list once");
                self.requests.split(self.group, self.epochs, request);
            } else if let Some(sub_request) = self.next_sub_request(now) {
                self.arrive(now, sub_request);
            } else {
                return;
            }
        }
    }

    /// The sub-request that the scheduler lets go next.
    fn next_sub_request(&mut self, now: Nanos) -> Option<u32> {
        let pools = &self.group.pools;
        let next = self
            .requests
            .scheduler
            .pop(now, |lane| lane.pool().is_none_or(|id| pools[id].is_free_of_foreground()));
        debug_assert!(
            next.is_none_or(|sub_request| self.group.sub_requests[sub_request].order == 0),
            "none has begun"
        );
        next
    }

    /// A sub-request is sent to a pool's device: its place among those under way moves there,
    /// unless it waits for a slower one already.
    pub(crate) fn note_sent(&mut self, sub_request: u32, pool: PoolId) {
        let lane = self.group.sub_requests[sub_request].lane.pool();
        let is_slower =
            lane.is_none_or(|lane| self.group.pools.ranks().compare_speed(lane, pool).is_lt());
        let sub_request = &mut self.group.sub_requests[sub_request];
        assert!(sub_request.outstanding > 0, "what is sent is counted");
        let to = Lane::of(pool);
        let first = sub_request.outstanding == 1;
        if sub_request.lane != to && (first || is_slower) {
            self.requests.scheduler.moved(sub_request.lane, to, sub_request.priority);
            sub_request.lane = to;
        }
    }

    /// A sub-request reaches its chunk.
    fn arrive(&mut self, now: Nanos, sub_request: u32) {
        let chunk = self.group.sub_requests[sub_request].chunk;
        self.tell_of_access(now, sub_request);
        let busy = self.group.busy_chunk_of(chunk);
        debug_assert!(!busy.waiting.contains(&sub_request), "it comes once");
        if pass_hazards(self.group, self.checksums, now, sub_request) {
            self.begin(now, sub_request);
        } else {
            self.group.busy_chunk_of(chunk).waiting.push_back(sub_request);
        }
    }

    /// Tells who follows accesses.
    fn tell_of_access(&mut self, now: Nanos, sub_request: u32) {
        let sub_request = &self.group.sub_requests[sub_request];
        assert_eq!(sub_request.order, 0, "an access is told before it begins");
        let offset = Bytes(u64::from(sub_request.range.start));
        let bytes = Bytes(u64::from(sub_request.range.end - sub_request.range.start));
        let (chunk, write) = (sub_request.chunk, sub_request.is_write());
        self.epochs.accessed(self.group, &ChunkAccess { at: now, chunk, offset, bytes, write });
    }

    /// Starts a sub-request that the hazard check let through.
    pub(crate) fn begin(&mut self, now: Nanos, sub_request: u32) {
        self.group.sub_requests_begun += 1;
        let chunk = self.group.sub_requests[sub_request].chunk;
        assert_eq!(self.group.sub_requests[sub_request].order, 0, "a sub-request begins once");
        self.group.sub_requests[sub_request].order = self.group.sub_requests_begun;
        self.group.busy_chunk_of(chunk).running.push(sub_request);
        if self.group.sub_requests[sub_request].is_write() {
            self.note_write(now, sub_request);
        }
        let whole = self.group.covers_chunk(sub_request);
        match &self.group.sub_requests[sub_request].verb {
            Verb::Read => self.begin_read(now, sub_request),
            Verb::Zero | Verb::Discard if whole => {
                unmap(self.group, self.checksums, chunk);
                self.conclude(now, sub_request);
            }
            Verb::Discard if !discards_to_zero(self.group, chunk) => {
                self.conclude(now, sub_request)
            }
            _ => self.begin_write(now, sub_request),
        }
    }

    /// A line was read for a sub-request, or could not be: its chunk answers then.
    pub(crate) fn line_answered(&mut self, now: Nanos, answer: LineAnswer) {
        let LineAnswer { sub_request, range, payload } = answer;
        let state = &mut self.group.sub_requests[sub_request];
        assert!(state.outstanding > 0, "each answer is to a request under way");
        state.outstanding -= 1;
        match payload {
            Some(payload) => self.add_fragment(sub_request, range.start, payload),
            None => {
                state.passes_lines = true;
                let run = range.start.max(state.range.start)..range.end.min(state.range.end);
                match self.group.map.overlay(state.chunk) {
                    None => self.read_run(now, sub_request, run),
                    Some(_) => self.read_sides(now, sub_request, &run),
                }
            }
        }
        self.conclude_if_done(now, sub_request);
    }

    /// Sends a request for byte `at` of a sub-request's chunk to a device.
    fn send_to(&mut self, now: Nanos, place: Place, sub_request: u32, at: u32, io: Io) {
        self.note_sent(sub_request, place.pool);
        let background = self.group.sub_requests[sub_request].priority != Priority::Foreground;
        let owner = Owner::SubRequest { sub_request, at };
        let flight = self.group.pools.send(now, place.pool, owner, io, background);
        assert!(self.group.pools[place.pool].slots.is_taken(place.slot), "it is somebody's slot");
        self.group.pools.note_slot(flight, place.slot);
    }

    /// A device answered for a sub-request.
    pub(crate) fn sub_request_io_done(
        &mut self,
        now: Nanos,
        sub_request: u32,
        at: u32,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        let pool = flight.pool;
        assert!(
            self.group.sub_requests[sub_request].outstanding > 0,
            "each answer is to a request under way"
        );
        self.group.sub_requests[sub_request].outstanding -= 1;
        if !flight.writes
            && result.is_ok()
            && let Some(operation) =
                self.group.operation_on(self.group.sub_requests[sub_request].chunk)
        {
            let took = now.saturating_sub(flight.since);
            self.group.operations[operation].note_read(pool, took);
        }
        if is_opening(self.group, sub_request) {
            return self.slot_cleaned(now, sub_request, pool, &result);
        }
        match result {
            Ok(payload) if !flight.writes => {
                self.sub_request_read_done(now, sub_request, at, flight, payload);
            }
            Ok(_) => self.group.sub_requests[sub_request].succeeded |= bit(pool),
            Err(_) if !flight.writes => {
                self.reread(now, sub_request, at..at + flight.bytes, flight.place());
            }
            Err(DeviceError::NoSpace) if self.places_elsewhere(now, sub_request, pool) => return,
            Err(_) if self.write_elsewhere(sub_request, at, pool) => {}
            Err(error) => {
                let state = &mut self.group.sub_requests[sub_request];
                state.failed |= bit(pool);
                if error == DeviceError::NoSpace {
                    state.error = Some(RequestError::NoSpace);
                }
            }
        }
        self.conclude_if_done(now, sub_request);
    }

    pub(crate) fn conclude_if_done(&mut self, now: Nanos, sub_request: u32) {
        if self.group.sub_requests[sub_request].outstanding == 0 {
            self.conclude(now, sub_request);
        }
    }

    /// All device requests of a sub-request have ended: settle what failed, then answer or wait.
    pub(crate) fn conclude(&mut self, now: Nanos, sub_request: u32) {
        assert_eq!(self.group.sub_requests[sub_request].outstanding, 0, "no device has it");
        if self.group.sub_requests[sub_request].is_write() {
            self.settle_write(now, sub_request);
            self.stays_where_written(sub_request);
        }
        let chunk = self.group.sub_requests[sub_request].chunk;
        let busy = self.group.busy_chunk_of(chunk);
        let before = busy.running.len();
        busy.running.retain(|&running| running != sub_request);
        assert_eq!(busy.running.len() + 1, before, "a sub-request is on its chunk once");
        let state = &self.group.sub_requests[sub_request];
        let volatile = matches!(state.verb, Verb::Zero)
            || self.group.has_changes() && !mutant("forced_before_its_record");
        if state.fua && state.error.is_none() && volatile {
            self.group.journal.join(Waiter::SubRequest(sub_request));
        } else {
            self.requests.end_sub_request(self.group, self.epochs, sub_request);
        }
        self.chunk_eased(now, chunk);
    }

    /// A sub-request or an operation has left the chunk: lets others in, frees slots that it was
    /// on.
    pub(crate) fn chunk_eased(&mut self, now: Nanos, chunk: ChunkId) {
        if std::mem::replace(&mut self.group.busy_chunk_of(chunk).easing, true) {
            return; // Further out a loop is at it.
        }
        loop {
            while let Some(&next) = self.group.busy_chunk_of(chunk).waiting.front() {
                let waiting = std::mem::take(&mut self.group.busy_chunk_of(chunk).waiting);
                let open = pass_hazards(self.group, self.checksums, now, next);
                let busy = self.group.busy_chunk_of(chunk);
                let come = std::mem::replace(&mut busy.waiting, waiting);
                assert!(come.is_empty(), "nobody joins the queue while it is looked at");
                if !open {
                    break;
                }
                busy.waiting.pop_front();
                self.begin(now, next);
            }
            // A freed slot may end a sub-request that waited for one, and let in who waits behind
            // it.
            if !self.leaving.free_left_slots(self.group, now, chunk) {
                break;
            }
        }
        self.group.busy_chunk_of(chunk).easing = false;
        self.group.forget_if_idle(chunk);
    }
}
