//! The store: a device, the parts that work on it, and the state that they share.
//!
//! `submit` takes requests, `poll` takes the device's completions and hands out answers. Between
//! its own requests a store keeps working (commits, checkpoints, sweeps, cleaning), so `next_event`
//! may name a moment at which `poll` has nothing to hand out. It passes completions to the parts,
//! carries out the effects that they leave, and sends what they want sent; it decides nothing.

use crate::checkpoint::Checkpoint;
use crate::clean::Cleaner;
use crate::commit::{Commits, serve};
use crate::formatting::Formatting;
use crate::journal::Journal;
use crate::layout::{Layout, SEGMENTS_MIN};
use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::opening::{Found, Opening, begin_service};
use crate::reading::{For, Reads};
use crate::request::Answer;
use crate::room::Room;
use crate::sealing::{Sealing, seal, sealed, wiped};
use crate::service::Service;
use crate::settings::Settings;
use crate::state::{Effect, Mode, Progress, StoreState};
use crate::sweep::Sweep;
use crate::tasks::{Outgoing, Task};
use crate::writing::Writes;
use thermocline_ports::{Completion, Device, Ticket};
use thermocline_units::{Bytes, Nanos, Slab};

/// Nodes without references that are freed at once.
const REAPED_MAX: usize = 64;

/// A de-duplicating block store on one device.
pub struct Store<D> {
    device: D,
    pub(crate) state: StoreState,
    /// Requests under way on the device.
    pub(crate) tasks: Slab<Task>,
    landed: Vec<Completion>,
    formatting: Option<Formatting>,
    opening: Option<Opening>,
    pub(crate) reads: Reads,
    pub(crate) writes: Writes,
    pub(crate) room: Room,
    pub(crate) sweep: Sweep,
    pub(crate) cleaner: Cleaner,
    sealing: Sealing,
    commits: Commits,
    pub(crate) checkpoint: Checkpoint,
    /// True if a request came since the last poll.
    pub(crate) is_touched: bool,
    /// True if the device was sent something since it was polled.
    has_sent: bool,
}

impl<D: Device> Store<D> {
    /// Makes a new store; all data on the device is lost. `identity` distinguishes it from other
    /// stores. Call `poll` until [`Store::service`] is not [`Service::Opening`].
    ///
    /// # Errors
    /// When the settings are out of range, or the device is too small.
    pub fn format(
        now: Nanos,
        device: D,
        settings: Settings,
        identity: u64,
    ) -> Result<Store<D>, OpenError> {
        let layout = layout_for(&device, &settings)?;
        let mut store = Store::bare(now, device, settings, layout);
        store.state.identity = identity;
        store.state.journal = Journal::new(1, 0);
        store.formatting = Some(Formatting::begin(&mut store.state));
        store.settle();
        Ok(store)
    }

    /// Opens the store on a device, with everything that was flushed. The layout is that of the
    /// device; the settings for it have no effect. Call `poll` as for [`Store::format`].
    ///
    /// # Errors
    /// When the settings are out of range, or the device is too small for any store.
    pub fn open(now: Nanos, device: D, settings: Settings) -> Result<Store<D>, OpenError> {
        if !settings.are_sound() {
            return Err(OpenError::Settings);
        }
        let have = device.geometry().size.0 / u64::from(BLOCK);
        let smallest = Layout::of_device(have, 16, 16);
        let layout = smallest.ok_or(OpenError::TooSmall { have, need: 212 })?;
        let mut store = Store::bare(now, device, settings, layout);
        store.opening = Some(Opening::begin(&mut store.state, have));
        store.settle();
        Ok(store)
    }

    /// An empty store on `device` with this layout.
    fn bare(now: Nanos, device: D, settings: Settings, layout: Layout) -> Store<D> {
        let mut state = StoreState::new(settings, layout);
        state.now = now;
        Store {
            device,
            state,
            tasks: Slab::default(),
            landed: Vec::new(),
            formatting: None,
            opening: None,
            reads: Reads::default(),
            writes: Writes::default(),
            room: Room::default(),
            sweep: Sweep::default(),
            cleaner: Cleaner::default(),
            sealing: Sealing::default(),
            commits: Commits::default(),
            checkpoint: Checkpoint::default(),
            is_touched: false,
            has_sent: false,
        }
    }

    /// State of the store: only a ready one takes requests.
    pub fn service(&self) -> &Service {
        &self.state.service
    }

    /// The device, for the caller to wait for.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Ends the store and returns its device. Changes that were not flushed may be lost.
    pub fn into_device(self) -> D {
        self.device
    }

    /// Takes the device's completions up to `now`, continues all work, and appends answers.
    pub fn poll(&mut self, now: Nanos, answers: &mut Vec<Answer>) {
        self.state.now = self.state.now.max(now);
        self.is_touched = false;
        loop {
            self.has_sent = false;
            let mut landed = std::mem::take(&mut self.landed);
            self.device.poll(now, &mut landed);
            let is_empty = landed.is_empty();
            for completion in landed.drain(..) {
                self.land(completion);
            }
            self.landed = landed;
            loop {
                let before = self.state.steps();
                self.pump();
                if self.state.steps() == before {
                    break;
                }
            }
            // A device may hand over what it was sent only when it is polled.
            if is_empty && !self.has_sent {
                break;
            }
        }
        answers.append(self.state.answers());
    }

    /// Virtual time at which `poll` must be called next; `None` when nothing is in flight, or when
    /// the device cannot tell in advance (a real device).
    pub fn next_event(&self) -> Option<Nanos> {
        let is_ready = self.state.service == Service::Ready;
        if self.state.has_answers() || (is_ready && self.has_chores()) {
            return Some(self.state.now);
        }
        self.device.next_event()
    }

    /// True if there is work that does not wait for the device.
    fn has_chores(&self) -> bool {
        self.is_touched || self.state.nodes.has_doomed() || self.sweep.is_marking()
    }

    /// Passes a completion of the device to the part that sent the request.
    fn land(&mut self, completion: Completion) {
        let Completion { ticket, result } = completion;
        let task = self.tasks.remove((ticket.0 & !Ticket::BACKGROUND) as u32);
        let state = &mut self.state;
        if matches!(state.service, Service::Stopped(_) | Service::Refused(_)) {
            return;
        }
        match task {
            Task::OpenFlush => {
                let opening = self.opening.as_mut().expect("it has just begun");
                opening.flushed(state, result);
            }
            Task::Open(step) => {
                let Some(opening) = &mut self.opening else { return };
                if let Some(Found { number, chain }) = opening.read(state, step, result) {
                    self.opening = None;
                    self.checkpoint = Checkpoint::resumed(number, chain);
                }
            }
            Task::Erase { place, tries } => {
                let formatting = self.formatting.as_mut().expect("it is being formatted");
                formatting.erased(state, place, tries, result);
            }
            Task::Fetch { read, run } => self.reads.fetched(state, read, run, result),
            Task::Verify { write, piece, number, place } => {
                self.writes.verified(state, write, piece, number, place, result);
            }
            Task::Fill { write, place, numbers, tries } => {
                self.writes.filled(state, write, (place, numbers, tries), result);
            }
            Task::CommitFlush => self.commits.flushed(state, result),
            Task::Journal { first, count, tries } => {
                self.commits.journal_written(state, first, count, tries, result);
            }
            Task::Node { place, data, tries } => {
                self.checkpoint.node_written(state, place, data, tries, result);
            }
            Task::CheckpointFlush => self.checkpoint.flushed(state, result),
            Task::Super { place, data, tries } => {
                self.checkpoint.super_written(state, place, data, tries, result);
            }
            Task::Seal { segment, data, tries } => sealed(state, segment, data, tries, result),
            Task::Wipe { segment, tries } => wiped(state, segment, tries, result),
            Task::Discard { segment } => state.segments.free(segment),
            Task::CleanTrailer => self.cleaner.trailer_read(state, result),
            Task::CleanRead => self.cleaner.run_read(state, result),
            Task::CleanWrite { place, first, count } => {
                self.cleaner.run_written(state, place, first, count, result);
            }
        }
        self.settle();
    }

    /// Runs each part once, as far as it can go on without the device.
    fn pump(&mut self) {
        match self.state.service {
            Service::Ready => {
                self.state.reap(REAPED_MAX);
                let progress = self.progress();
                self.cleaner.pump(&mut self.state, progress);
                self.settle();
                if self.room.is_wanted() {
                    self.carry_out(Effect::RoomChanged);
                    self.settle();
                }
                self.sweep.pump(&mut self.state);
                self.sealing.pump(&mut self.state);
                serve(&mut self.state);
                self.settle();
                let progress = self.progress();
                self.commits.pump(&mut self.state, progress);
                self.settle();
            }
            Service::Opening => {}
            Service::Refused(_) | Service::Stopped(_) => return,
        }
        self.checkpoint.pump(&mut self.state);
        self.settle();
    }

    /// Progress of the parts that others wait for.
    fn progress(&self) -> Progress {
        Progress {
            sweeps_done: self.sweep.done(),
            is_sweeping: !self.sweep.is_idle(),
            is_cleaning: !self.cleaner.is_idle(),
            checkpoints_done: self.checkpoint.done(),
            is_checkpointing: self.checkpoint.is_under_way(),
            checkpoint_holds_commits: self.checkpoint.holds_commits(),
        }
    }

    /// Carries out what a step has left, each effect with what follows from it before the next, and
    /// sends what is to be sent.
    #[inline]
    pub(crate) fn settle(&mut self) {
        // Most steps leave nothing.
        if !self.state.is_settled() {
            self.carry_out_all();
        }
    }

    fn carry_out_all(&mut self) {
        while let Some(effect) = self.state.next_effect() {
            self.carry_out(effect);
        }
        let now = self.state.now;
        // Cleaning and discards: nobody waits for them, unless clients wait for the room.
        let may_wait = !self.room.is_wanted();
        for Outgoing { task, io } in self.state.take_outgoing() {
            let is_background = may_wait && task.is_background();
            let background = if is_background { Ticket::BACKGROUND } else { 0 };
            let ticket = u64::from(self.tasks.insert(task)) | background;
            self.device.submit(now, Ticket(ticket), io);
            self.has_sent = true;
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let state = &mut self.state;
        match effect {
            Effect::ReadEdge { edge, id, volume, block } => {
                self.reads.read_blocks(state, id, volume, block, 1, For::Edge(edge));
            }
            Effect::EdgeRead { edge, result } => self.writes.edge_read(state, edge, result),
            Effect::Unlocked(write) => self.writes.unlocked(state, write),
            Effect::Arrived(write) => self.writes.arrived(state, write),
            Effect::RoomAsked(ask) => {
                let progress = self.progress();
                self.room.ask(&mut self.state, progress, ask);
            }
            Effect::RoomFound(write) => self.writes.fill(state, write),
            Effect::RoomRefused(write) => self.writes.refused(state, write),
            Effect::RoomChanged => {
                let progress = self.progress();
                self.room.pump(&mut self.state, progress);
            }
            Effect::Clean(victim) => self.cleaner.begin(state, victim),
            Effect::Swept(numbers) => self.sweep.free(state, numbers),
            Effect::Seal(segment) => seal(state, segment),
            Effect::Leave(segment) => self.sealing.leave(segment),
            Effect::AllTaken => self.checkpoint.capture(state, Mode::Beside),
            Effect::CheckpointDone => {
                if state.service == Service::Opening {
                    state.service = Service::Ready;
                    begin_service(state);
                }
                serve(state);
            }
            Effect::Stopped => {
                let mut waiting = self.writes.give_up();
                waiting.extend(self.reads.give_up());
                waiting.extend(state.journal.waiting());
                state.turn_away(waiting);
            }
        }
    }
}

fn layout_for<D: Device>(device: &D, settings: &Settings) -> Result<Layout, OpenError> {
    layout_of(device.geometry().size, settings)
}

/// Looks whether a store with these settings has room on a device of this size.
///
/// # Errors
/// The settings are out of range, or the device is too small.
pub fn check_room(size: Bytes, settings: &Settings) -> Result<(), OpenError> {
    layout_of(size, settings).map(|_| ())
}

fn layout_of(size: Bytes, settings: &Settings) -> Result<Layout, OpenError> {
    if !settings.are_sound() {
        return Err(OpenError::Settings);
    }
    let have = size.0 / u64::from(BLOCK);
    let (journal, segment) = (settings.journal_blocks, settings.segment_blocks());
    let need = u64::from(journal) + 4 + u64::from(SEGMENTS_MIN) * u64::from(segment);
    Layout::of_device(have, journal, segment).ok_or(OpenError::TooSmall { have, need })
}
