//! The volume group: pools, volumes, and everything under way between them.
//!
//! One event-driven machine: `submit`, `complete` and `tick` change its state and fill two
//! outboxes, requests for devices and replies for clients. Which device or clock stands behind is
//! nobody's business here.
//!
//! Above, calls come in: [`crate::calls`], [`crate::admin`], [`crate::creation`] and
//! [`crate::report`]; [`crate::housekeeping`] does what is due by the clock.
//!
//! Below are machines with state of their own, which call nobody back:
//!
//! - [`crate::pools`]: devices, slots, the order of speed, and requests under way;
//! - [`crate::journal`] makes changes of the map durable, and writes the map out;
//! - [`crate::opening`] formats devices, and reads groups back;
//! - [`crate::routing`] asks a placement's router; [`crate::slas`] judges answers.
//!
//! How fast copying goes, and if it goes on, says [`thermocline_policy::migration`]; between pools
//! chooses [`thermocline_policy::choice`].
//!
//! Between them:
//!
//! - [`crate::requests`] splits requests by chunk, and [`crate::shares`] bounds how many a pool may
//!   have under way; [`crate::foreground`] brings the parts past the hazard check
//!   ([`crate::hazards`]), [`crate::reading`] and [`crate::writing`] to the copies;
//! - [`crate::settling`] tells what the journal says to those who wait, and acts on pools that die;
//! - [`crate::copying`] moves chunks while they are in use: [`crate::operations`] says what begins,
//!   [`crate::switching`] how it ends, [`crate::proposal`] what a placement wants next;
//! - [`crate::hinting`] acts on what is said of data;
//! - [`crate::observer`] lets somebody listen, [`crate::shadowing`] lets rivals of the placement
//!   see what it sees;
//! - [`crate::copies`] opens and drops copies and frees slots, [`crate::scrub`] and
//!   [`crate::comparison`] verify them, [`crate::block_checksums`] and [`crate::sums`] keep
//!   checksums.

use crate::below::Below;
use crate::block_checksums::BlockChecksums;
use crate::core::Core;
use crate::core::Effect;
use crate::core::service::Service;
use crate::epochs::Epochs;
use crate::format::Record;
use crate::hinting::Hinting;
use crate::housekeeping::Housekeeping;
use crate::leaving::Leaving;
use crate::losses::Losses;
use crate::map::Place;
use crate::moves::Moves;
use crate::opening::Opening;
use crate::opening::replicas::DamagedReplicas;
use crate::opening::salvage::Salvage;
use crate::operation::Finished;
use crate::pacing::Pacing;
use crate::path::Path;
use crate::pools::flight::Owner;
use crate::request::Reply;
use crate::requests::Requests;
use crate::routing::Routing;
use crate::scrub::Scrub;
use crate::settings::Settings;
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
    pub(crate) core: Core,
    pub(crate) requests: Requests,
    pub(crate) leaving: Leaving,
    pub(crate) epochs: Epochs,
    pub(crate) housekeeping: Housekeeping,
    /// Writes that died with their pools.
    pub(crate) losses: Losses,
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
        &self.core.service
    }

    /// The settings in force; the chunk size is the one of the group's creation.
    pub fn settings(&self) -> &Settings {
        &self.core.settings
    }

    /// Appends the requests for devices, in the order in which they are to be submitted.
    pub fn take_io(&mut self, out: &mut Vec<(PoolId, Ticket, Io)>) {
        self.core.pools.take_io(out);
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
        self.core.now = self.core.now.max(now);
        let flight = self.core.pools.land(now, pool, &completion);
        let result = completion.result;
        if result == Err(DeviceError::Gone) {
            self.pool_died(pool);
        }
        // What is read on a pool that was given up may be old: a failed flush has forgotten writes.
        let given_up = self.opening.is_none()
            && !self.core.pools[pool].is_alive()
            && !mutant("dead_pool_believed");
        let result = if given_up { Err(DeviceError::Gone) } else { result };
        if matches!(self.core.service, Service::Failed(_)) {
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
            Owner::SealRead { load } => self.checksums.seal_read(&mut self.core, now, load, result),
            Owner::SealWrite => self.scrub.seal_written(result.is_ok()),
            Owner::Flush => self.flush_answered(now, &flight, result.err()),
            Owner::Journal | Owner::Checkpoint | Owner::Super => {
                self.journal_answered(now, &flight, result.is_err());
            }
            Owner::Probe { slot } => {
                self.leaving.probe_done(&mut self.core, now, Place { pool, slot }, result);
            }
            Owner::Clean { slot } => {
                let place = Place { pool, slot };
                self.leaving.clean_done(&mut self.core, place, result.is_ok());
            }
            Owner::Open(step) => self.open_io_done(now, pool, step, result),
        }
        self.carry_out(now);
        self.pump(now);
    }

    /// Lets time pass: throttles, epochs, deadlines.
    pub fn tick(&mut self, now: Nanos) {
        if self.core.service == Service::Ready {
            self.housekeeping(now);
        }
        self.pump(now);
    }

    /// Moment at which `tick` has something to do; `None` when only completions and requests
    /// matter.
    pub fn next_tick(&self) -> Option<Nanos> {
        if self.core.service != Service::Ready && self.core.service != Service::Closing {
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
        if self.core.service == Service::Ready {
            sooner(self.next_housekeeping());
        }
        next
    }

    /// Does all that can be done now.
    pub(crate) fn pump(&mut self, now: Nanos) {
        self.core.now = self.core.now.max(now);
        if self.opening.is_some() || matches!(self.core.service, Service::Failed(_)) {
            return;
        }
        self.settle_journal();
        loop {
            self.path().pump_foreground(now);
            self.pump_moves(now);
            let (scrub, mut below) = self.scrub_and_below(now);
            scrub.pump(&mut below);
            self.carry_out(now);
            self.pump_commit();
            self.pump_checkpoint();
            self.pump_closing();
            let more = self.requests.has_work()
                || self.cycle_can_start()
                || self.checkpoint_is_due()
                || self.moves.can_begin(&self.core);
            if !more || matches!(self.core.service, Service::Failed(_)) {
                break;
            }
        }
    }

    /// The scrub, and what it stands on.
    fn scrub_and_below(&mut self, now: Nanos) -> (&mut Scrub, Below<'_>) {
        let Group { scrub, core, checksums, pacing, .. } = self;
        (scrub, Below { now, core, checksums, pacing })
    }

    /// Does what machines left to others.
    pub(crate) fn carry_out(&mut self, now: Nanos) {
        while let Some(effect) = self.core.take_effect() {
            match effect {
                Effect::Eased(chunk) if self.core.map.is_busy(chunk) => {
                    self.path().traffic_eased(now, chunk);
                }
                Effect::Eased(_) => {}
                Effect::Mend { chunk, blocks } => self.scrub.mend(chunk, blocks),
                Effect::Tables(chunk) => self.scrub.request_tables(chunk),
                Effect::Left(chunk, place) => self.leaving.leave(&mut self.core, now, chunk, place),
                Effect::Parted(chunk, place) => {
                    let state = self.core.durable_state(chunk);
                    self.core.journal.change(&Record::Chunk(chunk, state), chunk, &[place]);
                }
                Effect::SlotFree => self.moves.look_again(),
                Effect::Space(part) => self.path().space_may_be_free(now, part),
                Effect::Ended(chunk) => self.scrub.operation_ended(chunk),
                Effect::Wish(operation) => self.moves.wish(operation),
            }
        }
    }

    /// The path of requests.
    pub(crate) fn path(&mut self) -> Path<'_> {
        let Group {
            core,
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
        Path { core, checksums, requests, leaving, scrub, moves, hinting, routing, epochs }
    }

    /// Operations, and what they stand on.
    pub(crate) fn moves_and_below(&mut self, now: Nanos) -> (&mut Moves, Below<'_>) {
        let Group { moves, core, checksums, pacing, .. } = self;
        (moves, Below { now, core, checksums, pacing })
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
        for index in self.core.operations.oldest_first() {
            let (moves, mut below) = self.moves_and_below(now);
            moves.advance(&mut below, index);
            self.carry_out(now);
        }
    }

    /// Once every part and operation has ended: makes what is left durable, then closes.
    fn pump_closing(&mut self) {
        if self.core.service != Service::Closing
            || !self.requests.all.is_empty()
            || self.has_operations()
        {
            return;
        }
        self.bury_volumes();
        self.checksums.close_regions(&mut self.core);
        let dirty = self.core.pools.any_dirty() && !mutant("closed_with_volatile_writes");
        if !self.core.journal.is_settled() || self.core.has_changes() || dirty {
            self.core.journal.want_commit();
        } else if self.core.journal.is_current() && !self.core.journal.is_empty() {
            // What was stopped in order needs no journal: no damage to it can be taken for its end.
            self.core.journal.want_checkpoint();
        } else if self.core.journal.is_current() && self.core.pools.is_quiet() {
            self.core.service = Service::Closed;
        }
    }

    /// Stops taking requests, ends operations, and makes everything durable.
    pub fn close(&mut self, now: Nanos) {
        if self.core.service == Service::Ready {
            self.core.service = Service::Closing;
            self.moves.cancel_all(&mut self.core, now);
            self.scrub.stop();
            self.pump(now);
        }
    }
}
