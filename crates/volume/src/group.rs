//! The volume group: pools, volumes, and everything under way between them.
//!
//! One event-driven machine: `submit`, `complete` and `tick` change its state and fill two
//! outboxes, requests for devices and replies for clients. Which device or clock stands behind is
//! nobody's business here.
//!
//! The group itself does little. It hands each event to the machine that it is for, together with
//! the state that all of them share ([`crate::group_state`]), and then carries out what the machine
//! has left to others ([`Effect`]). No machine calls another one back.
//!
//! Above, calls come in: [`crate::calls`], [`crate::admin`], [`crate::creation`] and
//! [`crate::report`]; [`crate::housekeeping`] does what is due by the clock.
//!
//! The machines, each with state of its own:
//!
//! - [`crate::requests`] splits requests by chunk and answers them; [`crate::shares`] bounds how
//!   many a pool may have under way;
//! - [`crate::path`] brings the parts past the hazard check ([`crate::hazards`]) to the copies and
//!   back; [`crate::first_slot`] gives a new chunk its slot, [`crate::leaving`] frees slots;
//! - [`crate::moves`] carries operations out: it copies chunks while they are in use;
//! - [`crate::scrub`] compares copies and repairs them; [`crate::block_checksums`] keeps checksums;
//! - [`crate::settling`] lets the journal take its steps, and says what became durable;
//! - [`crate::hinting`] acts on what is said of data, [`crate::epochs`] asks the placement;
//! - [`crate::routing`] asks a placement's router; [`crate::slas`] judges answers.
//!
//! Below them, in the shared state:
//!
//! - [`crate::pools`]: devices, slots, the order of speed, and requests under way;
//! - [`crate::map`]: where chunks are; [`crate::copies`] drops copies;
//! - [`crate::journal`] makes changes of the map durable, and writes the map out;
//! - [`crate::opening`] formats devices, and reads groups back.
//!
//! How fast copying goes, and if it goes on, says [`thermocline_policy::migration`]; between pools
//! chooses [`thermocline_policy::choice`].

use crate::below::Below;
use crate::block_checksums::BlockChecksums;
use crate::epochs::Epochs;
use crate::format::Record;
use crate::group_state::service::Service;
use crate::group_state::{Effect, GroupState};
use crate::hazards::{drop_durable, intent_durable, room_may_be_there};
use crate::hinting::Hinting;
use crate::housekeeping::Housekeeping;
use crate::journal::Waiter;
use crate::leaving::Leaving;
use crate::map::Place;
use crate::moves::Moves;
use crate::opening::Opening;
use crate::opening::replicas::DamagedReplicas;
use crate::opening::salvage::Salvage;
use crate::operation::Finished;
use crate::pacing::Pacing;
use crate::path::Path;
use crate::pools::flight::Owner;
use crate::request::{Reply, RequestError};
use crate::requests::Requests;
use crate::routing::Routing;
use crate::scrub::Scrub;
use crate::settings::Settings;
use crate::settling::{Settlement, checkpoint_in_force, checkpoint_is_due, cycle_can_start};
use thermocline_ports::{Completion, DeviceError, Io, Ticket};
use thermocline_units::mutants::mutant;
use thermocline_units::{Nanos, PoolId};

/// A group of pools and volumes, and everything under way in it.
///
/// ```
/// use thermocline_ports::{Completion, Geometry, Io, Payload};
/// use thermocline_units::{Bytes, Nanos};
/// use thermocline_volume::{
///     Action, Group, PoolSpec, Priority, Request, RequestId, Service, Settings,
/// };
///
/// const SIZE: Bytes = Bytes::from_mib(64);
///
/// /// Answers everything that the group asks of its device, which is memory here.
/// fn serve(group: &mut Group, device: &mut [u8]) {
///     let mut asked = Vec::new();
///     loop {
///         group.take_io(&mut asked);
///         if asked.is_empty() {
///             return;
///         }
///         for (pool, ticket, io) in asked.drain(..) {
///             let mut data = Payload::EMPTY;
///             match io {
///                 Io::Read { offset, length } => {
///                     let at = offset.0 as usize;
///                     data = Payload::from(device[at..at + length as usize].to_vec());
///                 }
///                 Io::Write { offset, data, .. } => {
///                     let at = offset.0 as usize;
///                     data.copy_to(&mut device[at..at + data.len() as usize]);
///                 }
///                 _ => {}
///             }
///             group.complete(Nanos(0), pool, Completion { ticket, result: Ok(data) });
///         }
///     }
/// }
///
/// let spec = PoolSpec {
///     name: "memory".to_string(),
///     geometry: Geometry { size: SIZE, discard_zeroes: false, far: false },
///     zeroed: true,
///     reserve_chunks: 0,
/// };
/// let mut device = vec![0; SIZE.0 as usize];
/// let mut group = Group::create(Settings::default(), &[spec], 1).unwrap();
/// serve(&mut group, &mut device);
/// assert_eq!(group.service(), &Service::Ready);
///
/// let volume = group.create_volume(Nanos(0), Bytes::from_mib(16)).unwrap();
/// let contents = Payload::from(vec![7; 4096]);
/// let write = Action::Write { offset: Bytes(8192), payload: contents.clone(), fua: true };
/// let read = Action::Read { offset: Bytes(8192), length: 4096 };
/// for (number, action) in [(1, write), (2, read)] {
///     let (id, priority) = (RequestId(number), Priority::Foreground);
///     group.submit(Nanos(0), Request { id, volume, action, priority }).unwrap();
///     serve(&mut group, &mut device);
/// }
/// let mut replies = Vec::new();
/// group.take_replies(&mut replies);
/// assert_eq!(replies[1].result.as_ref().unwrap()[0].payload, contents);
/// ```
pub struct Group {
    pub(crate) state: GroupState,
    pub(crate) requests: Requests,
    pub(crate) leaving: Leaving,
    pub(crate) epochs: Epochs,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) settlement: Settlement,
    pub(crate) moves: Moves,
    pub(crate) pacing: Pacing,
    pub(crate) routing: Routing,
    pub(crate) scrub: Scrub,
    pub(crate) checksums: BlockChecksums,
    pub(crate) opening: Option<Opening>,
    /// Record of a damaged group that is opened nevertheless.
    pub(crate) salvage: Option<Box<Salvage>>,
    pub(crate) damaged_replicas: DamagedReplicas,
    pub(crate) hinting: Hinting,
}

impl Group {
    /// The state of the service.
    pub fn service(&self) -> &Service {
        &self.state.service
    }

    /// The settings in force; the chunk size is the one of the group's creation.
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// Appends the requests for devices, in the order in which they are to be submitted.
    pub fn take_io(&mut self, out: &mut Vec<(PoolId, Ticket, Io)>) {
        self.state.pools.take_io(out);
    }

    /// Appends the answers to clients.
    pub fn take_replies(&mut self, out: &mut Vec<Reply>) {
        self.requests.take_replies(out);
    }

    /// Appends the operations that have ended.
    pub fn take_finished(&mut self, out: &mut Vec<Finished>) {
        self.moves.take_finished(out);
    }

    /// Takes a device's answer.
    ///
    /// # Panics
    /// When the ticket is not in flight: every request is answered once.
    pub fn complete(&mut self, now: Nanos, pool: PoolId, completion: Completion) {
        self.state.now = self.state.now.max(now);
        let flight = self.state.pools.land(now, pool, &completion);
        let result = completion.result;
        if result == Err(DeviceError::Gone) && self.opening.is_none() {
            self.settlement.pool_died(&mut self.state, &mut self.checksums, pool);
        }
        // What is read on a pool that was given up may be old: a failed flush has forgotten writes.
        let given_up = self.opening.is_none()
            && !self.state.pools[pool].is_alive()
            && !mutant("dead_pool_believed");
        let result = if given_up { Err(DeviceError::Gone) } else { result };
        if matches!(self.state.service, Service::Failed(_)) {
            return;
        }
        match flight.owner {
            Owner::Part { part, at } => {
                self.path().part_io_done(now, part, at, &flight, result);
            }
            Owner::Copy { operation } => {
                let (moves, mut below) = self.moves_and_below(now);
                moves.copy_io_done(&mut below, operation, &flight, result);
            }
            Owner::Scrub { copy } => {
                let (scrub, mut below) = self.scrub_and_below(now);
                scrub.scrub_io_done(&mut below, copy, flight.bytes, result);
            }
            Owner::Repair { index } => {
                let (scrub, mut below) = self.scrub_and_below(now);
                scrub.repair_done(&mut below, index, &result);
            }
            Owner::SealRead { load } => {
                self.checksums.seal_read(&mut self.state, now, load, result)
            }
            Owner::SealWrite => self.scrub.seal_written(result.is_ok()),
            Owner::Flush => {
                let Group { settlement, state: group, checksums, .. } = self;
                settlement.flush_answered(group, checksums, now, &flight, result.err());
            }
            Owner::Journal | Owner::Checkpoint | Owner::Super => {
                let Group { settlement, state: group, checksums, .. } = self;
                settlement.journal_answered(group, checksums, now, &flight, result.is_err());
            }
            Owner::Probe { slot } => {
                self.leaving.probe_done(&mut self.state, now, Place { pool, slot }, result);
            }
            Owner::Clean { slot } => {
                let place = Place { pool, slot };
                self.leaving.clean_done(&mut self.state, place, result.is_ok());
            }
            Owner::Open(step) => self.open_io_done(now, pool, step, result),
        }
        self.carry_out(now);
        self.pump(now);
    }

    /// Lets time pass: throttles, epochs, deadlines.
    pub fn tick(&mut self, now: Nanos) {
        if self.state.service == Service::Ready {
            self.housekeeping(now);
        }
        self.pump(now);
    }

    /// Moment at which `tick` has something to do; `None` when only completions and requests
    /// matter.
    pub fn next_tick(&self) -> Option<Nanos> {
        if self.state.service != Service::Ready && self.state.service != Service::Closing {
            return None;
        }
        let mut next = self.requests.scheduler.next_deadline();
        let mut sooner = |at: Option<Nanos>| {
            next = match (next, at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        };
        sooner(self.pacing.wake());
        if self.state.service == Service::Ready {
            sooner(self.next_housekeeping());
        }
        next
    }

    /// Does all that can be done now.
    pub(crate) fn pump(&mut self, now: Nanos) {
        self.state.now = self.state.now.max(now);
        if self.opening.is_some() || matches!(self.state.service, Service::Failed(_)) {
            return;
        }
        self.settlement.settle_journal(&mut self.state);
        self.carry_out(now);
        loop {
            self.path().pump_foreground(now);
            self.carry_out(now);
            self.pump_moves(now);
            let (scrub, mut below) = self.scrub_and_below(now);
            scrub.pump(&mut below);
            self.carry_out(now);
            self.settlement.pump_commit(&mut self.state);
            self.carry_out(now);
            self.settlement.pump_checkpoint(&mut self.state);
            self.carry_out(now);
            self.pump_closing();
            let more = self.requests.has_work()
                || cycle_can_start(&self.state)
                || checkpoint_is_due(&self.state)
                || self.moves.can_begin(&self.state);
            if !more || matches!(self.state.service, Service::Failed(_)) {
                break;
            }
        }
    }

    /// The scrub, and what it stands on.
    fn scrub_and_below(&mut self, now: Nanos) -> (&mut Scrub, Below<'_>) {
        let Group { scrub, state: group, checksums, pacing, .. } = self;
        (scrub, Below { now, group, checksums, pacing })
    }

    /// Does what machines left to others, each with what follows from it before the next.
    pub(crate) fn carry_out(&mut self, now: Nanos) {
        while let Some(effect) = self.state.take_effect() {
            let rest = self.state.set_effects_aside();
            self.route(now, effect);
            self.state.put_effects_back(rest);
        }
    }

    fn route(&mut self, now: Nanos, effect: Effect) {
        match effect {
            Effect::Eased(chunk) if self.state.map.is_busy(chunk) => {
                self.path().traffic_eased(now, chunk);
            }
            Effect::Eased(_) => {}
            Effect::Mend { chunk, blocks } => self.scrub.mend(chunk, blocks),
            Effect::Tables(chunk) => self.scrub.request_tables(chunk),
            Effect::Left(chunk, place) => self.leaving.leave(&mut self.state, now, chunk, place),
            Effect::Parted(chunk, place) => {
                let state = self.state.durable_state(chunk);
                self.state.journal.change(&Record::Chunk(chunk, state), chunk, &[place]);
            }
            Effect::SlotFree => self.moves.look_again(),
            Effect::Space(part) => self.path().space_may_be_free(now, part),
            Effect::Durable(waiter) => self.tell(now, waiter),
            Effect::InForce(states) => {
                checkpoint_in_force(&mut self.state, &mut self.checksums, &states);
            }
            Effect::Failed => {
                for id in self.requests.drain_requests() {
                    let reply = Reply { id, result: Err(RequestError::NotReady) };
                    self.requests.reply(&self.state, &mut self.epochs, reply);
                }
                self.moves.fail_all(&self.state);
            }
            Effect::Ended(chunk) => self.scrub.operation_ended(chunk),
            Effect::Wish(operation) => self.moves.wish(operation),
        }
    }

    /// Tells somebody who waited for a commit.
    fn tell(&mut self, now: Nanos, waiter: Waiter) {
        match waiter {
            Waiter::Flush(request) => {
                let result = self.settlement.flush_result(self.requests.all[request].volume);
                self.requests.end_flush(&mut self.state, &mut self.epochs, request, result);
            }
            Waiter::Part(part) => {
                if self.settlement.took_part_of(&self.state, self.state.parts[part].chunk) {
                    self.state.parts[part].error = Some(RequestError::Io);
                }
                self.requests.end_part(&mut self.state, &mut self.epochs, part);
            }
            Waiter::Intent(chunk) => {
                intent_durable(&mut self.state, &mut self.checksums, now, chunk);
            }
            Waiter::Dropped(chunk) => drop_durable(&mut self.state, chunk),
            Waiter::Region(region) => self.checksums.region_opened(&mut self.state, region),
            Waiter::Room(chunk) => room_may_be_there(&mut self.state, chunk),
            Waiter::Space(part) => self.path().space_may_be_free(now, part),
            Waiter::Switch(operation) => {
                let (moves, mut below) = self.moves_and_below(now);
                moves.switch_durable(&mut below, operation);
            }
            Waiter::Checkpoint(_) => unreachable!("the journal tells its checkpoint itself"),
        }
    }

    /// The path of requests.
    pub(crate) fn path(&mut self) -> Path<'_> {
        let Group {
            state: group,
            checksums,
            requests,
            leaving,
            scrub,
            moves,
            hinting,
            routing,
            epochs,
            ..
        } = self;
        Path { group, checksums, requests, leaving, scrub, moves, hinting, routing, epochs }
    }

    /// Operations, and what they stand on.
    pub(crate) fn moves_and_below(&mut self, now: Nanos) -> (&mut Moves, Below<'_>) {
        let Group { moves, state: group, checksums, pacing, .. } = self;
        (moves, Below { now, group, checksums, pacing })
    }

    /// Starts queued operations, and takes the next step of those under way.
    fn pump_moves(&mut self, now: Nanos) {
        self.pacing.begin_round();
        loop {
            let (moves, mut below) = self.moves_and_below(now);
            let begun = moves.begin_next(&mut below);
            self.carry_out(now);
            if !begun {
                break;
            }
        }
        for index in self.state.operations.oldest_first() {
            let (moves, mut below) = self.moves_and_below(now);
            moves.advance(&mut below, index);
            self.carry_out(now);
        }
    }

    /// Once every part and operation has ended: makes what is left durable, then closes.
    fn pump_closing(&mut self) {
        if self.state.service != Service::Closing
            || !self.requests.all.is_empty()
            || self.has_operations()
        {
            return;
        }
        self.bury_volumes();
        self.checksums.close_regions(&mut self.state);
        let dirty = self.state.pools.any_dirty() && !mutant("closed_with_volatile_writes");
        if !self.state.journal.is_settled() || self.state.has_changes() || dirty {
            self.state.journal.want_commit();
        } else if self.state.journal.is_current() && !self.state.journal.is_empty() {
            // What was stopped in order needs no journal: no damage to it can be taken for its end.
            self.state.journal.want_checkpoint();
        } else if self.state.journal.is_current() && self.state.pools.is_quiet() {
            self.state.service = Service::Closed;
        }
    }

    /// Stops taking requests, ends operations, and makes everything durable.
    pub fn close(&mut self, now: Nanos) {
        if self.state.service == Service::Ready {
            self.state.service = Service::Closing;
            self.moves.cancel_all(&mut self.state, now);
            self.scrub.stop();
            self.pump(now);
        }
    }
}
