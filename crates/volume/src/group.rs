//! The volume group: what clients and devices call, from its creation to its end.
//!
//! One event-driven machine: `submit`, `complete` and `tick` change its state and fill two
//! outboxes, requests for devices and replies for clients.
//!
//! While devices are formatted or read, answers go to [`crate::opening`], then to
//! [`crate::machines`]. Administrators call [`crate::admin`] and read [`crate::report`].

use crate::creation;
use crate::group_state::service::Service;
use crate::io::request::{Reply, Request};
use crate::io::shares::lane_of;
use crate::machines::Machines;
use crate::moves::operation::{Finished, Operation, OperationId, Refusal};
use crate::opening::error::{CreateError, OpenError};
use crate::opening::replicas::DamagedReplicas;
use crate::opening::salvage::Salvage;
use crate::opening::{Opened, Opening};
use crate::pools::flight::Owner;
use crate::pools::pool::PoolSpec;
use crate::settings::Settings;
use thermocline_ports::{Completion, Geometry, Io, Ticket};
use thermocline_units::situations::met;
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
    pub(crate) machines: Machines,
    opening: Option<Opening>,
    /// Record of a damaged group that is opened nevertheless.
    pub(crate) salvage: Option<Box<Salvage>>,
    pub(crate) damaged_replicas: DamagedReplicas,
}

impl Group {
    /// A new group on `pools`, fastest first, whose contents are lost. It becomes ready by
    /// completions; until its first superblock is durable the devices hold no group.
    ///
    /// # Errors
    /// When the settings are out of range or a pool is too small. Nothing was written then.
    pub fn create(
        settings: Settings,
        pools: &[PoolSpec],
        identity: u64,
    ) -> Result<Group, CreateError> {
        let mut state = creation::on_empty_devices(settings, pools, identity)?;
        let opening = Opening::format(state.now, &mut state.pools);
        Ok(Group::not_yet_open(Machines::new(state), opening))
    }

    /// Opens the group that the devices hold; the pool of a missing one (`None`) counts as dead. Of
    /// `settings`, what is written at creation is read from the devices.
    pub fn open(settings: Settings, devices: &[Option<Geometry>]) -> Group {
        Group::open_with(settings, devices, None)
    }

    /// Like [`Group::open`], and makes the best of damaged metadata ([`Group::salvage`] says what).
    pub fn open_damaged(settings: Settings, devices: &[Option<Geometry>]) -> Group {
        Group::open_with(settings, devices, Some(Box::default()))
    }

    fn open_with(
        settings: Settings,
        devices: &[Option<Geometry>],
        salvage: Option<Box<Salvage>>,
    ) -> Group {
        let mut state = creation::on_devices(settings, devices);
        let opening = Opening::read(state.now, &mut state.pools, salvage);
        let mut group = Group::not_yet_open(Machines::new(state), opening);
        group.advance_opening();
        group
    }

    fn not_yet_open(machines: Machines, opening: Opening) -> Group {
        let damaged_replicas = DamagedReplicas::default();
        Group { machines, opening: Some(opening), salvage: None, damaged_replicas }
    }

    /// Does what follows when all steps of formatting or recovery have ended.
    fn advance_opening(&mut self) {
        let Some(opening) = &mut self.opening else { return };
        assert_eq!(self.machines.state.service, Service::Opening);
        let state = &mut self.machines.state;
        match opening.advance(state.now, &mut state.pools, &mut state.map) {
            Ok(None) => return,
            Ok(Some(Opened::Formatted)) => {}
            Ok(Some(Opened::Recovered(mut recovered))) => {
                self.salvage = recovered.salvage.take();
                self.damaged_replicas = std::mem::take(&mut recovered.damaged);
                if let Err(error) = self.machines.adopt(*recovered) {
                    return self.cannot_open(error);
                }
            }
            Err(error) => return self.cannot_open(error),
        }
        self.opening = None;
        self.machines.first_checkpoint();
    }

    fn cannot_open(&mut self, error: OpenError) {
        assert!(self.machines.requests.is_idle(), "no requests before it is open");
        let state = &mut self.machines.state;
        if let Some(superblock) = self.opening.take().as_ref().and_then(Opening::superblock) {
            state.journal.set_identity(superblock.identity);
        }
        state.service = Service::Failed(error);
    }

    /// The state of the service.
    pub fn service(&self) -> &Service {
        &self.machines.state.service
    }

    /// The settings in force; the chunk size is the one of the group's creation.
    pub fn settings(&self) -> &Settings {
        &self.machines.state.settings
    }

    /// Takes a request at `now`; the answer comes out of `take_replies`, at once or later.
    ///
    /// # Errors
    /// Gives the request back when as many are in flight as may be, or as the pool's share allows:
    /// try again after a reply. Requests of other pools ([`Group::counts_for`]) may be taken.
    pub fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Request> {
        let share = lane_of(&self.machines.state, &request);
        if !self.machines.requests.has_share(&self.machines.state, share) {
            met("request handed back");
            return Err(request);
        }
        if self.machines.take_request(now, request, share) {
            self.pump(now);
        }
        let most = self.settings().limits.requests;
        assert!(self.machines.requests.count() <= most, "no more are in flight than may");
        Ok(())
    }

    /// The pool whose share a request needs a place in; `None`: it waits for no single pool.
    pub fn counts_for(&self, request: &Request) -> Option<PoolId> {
        lane_of(&self.machines.state, request).pool()
    }

    /// Queues an operation.
    ///
    /// # Errors
    /// When it makes no sense now; nothing has changed then.
    pub fn start(&mut self, now: Nanos, operation: Operation) -> Result<OperationId, Refusal> {
        self.machines.begin(now, operation)
    }

    /// Cancels an operation that is queued or copying; one that is switching goes on. True if it
    /// was found. A redirected chunk keeps what it has at either place.
    pub fn cancel(&mut self, now: Nanos, id: OperationId) -> bool {
        let Machines { moves, state, .. } = &mut self.machines;
        if moves.cancel_queued(id) {
            return true;
        }
        let found = moves.cancel_copying(state, id);
        assert!(!found || state.operations.is_cancelled(id), "it was found, and goes on");
        if found {
            self.pump(now);
        }
        found
    }

    /// Appends the requests for devices, in the order of submission.
    pub fn take_io(&mut self, out: &mut Vec<(PoolId, Ticket, Io)>) {
        self.machines.state.pools.take_io(out);
    }

    /// Appends the answers to clients.
    pub fn take_replies(&mut self, out: &mut Vec<Reply>) {
        self.machines.requests.take_replies(out);
    }

    /// Appends the operations that have ended.
    pub fn take_finished(&mut self, out: &mut Vec<Finished>) {
        self.machines.moves.take_finished(out);
    }

    /// Takes a device's answer.
    ///
    /// # Panics
    /// When the ticket is not in flight: every request is answered once.
    pub fn complete(&mut self, now: Nanos, pool: PoolId, completion: Completion) {
        let state = &mut self.machines.state;
        state.now = state.now.max(now);
        let probing = &state.settings.tactics.probing;
        let flight = state.pools.land(now, pool, &completion, probing);
        assert_eq!(flight.pool, pool, "a device answers its own requests");
        match (&mut self.opening, flight.owner) {
            (Some(opening), Owner::Open(step)) => {
                opening.answered(now, &mut state.pools, pool, step, completion.result);
                self.advance_opening();
                self.machines.carry_out(now);
            }
            (Some(_), owner) => unreachable!("{owner:?} while the group is opened"),
            (None, _) if !self.machines.answered(now, pool, &flight, completion.result) => return,
            (None, _) => {}
        }
        self.pump(now);
    }

    /// Lets time pass: throttles, epochs, deadlines.
    pub fn tick(&mut self, now: Nanos) {
        self.machines.state.now = self.machines.state.now.max(now);
        if self.service() == &Service::Ready {
            assert!(self.opening.is_none(), "a group in service is open");
            self.machines.housekeeping(now);
        }
        self.pump(now);
    }

    /// Moment at which `tick` has something to do; `None`: only completions and requests matter.
    pub fn next_tick(&self) -> Option<Nanos> {
        let keeps_house = match self.service() {
            Service::Ready => self.machines.next_housekeeping(),
            Service::Closing => None,
            _ => return None,
        };
        let deadline = self.machines.requests.next_deadline();
        [deadline, self.machines.copy_throttle.wake(), keeps_house].into_iter().flatten().min()
    }

    /// Does all that can be done now, once the group is opened.
    pub(crate) fn pump(&mut self, now: Nanos) {
        let state = &mut self.machines.state;
        state.now = state.now.max(now);
        if self.opening.is_none() {
            self.machines.pump(now);
        }
        assert!(!self.machines.state.has_effects(), "a step ends with all that follows from it");
    }

    /// Stops taking requests, ends operations, and makes everything durable.
    pub fn close(&mut self, now: Nanos) {
        if self.service() == &Service::Ready {
            self.machines.close(now);
        }
    }
}
