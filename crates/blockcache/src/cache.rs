//! The block cache itself: two devices, and the parts that work between them. It passes requests
//! and answers to the parts, carries out the effects that they leave, and sends what they want
//! sent; it decides nothing.
//!
//! Event-driven: `submit` and the answers of the two devices change its state; answers to the
//! machine above wait for `poll`. Between its own requests it keeps working: lines are filled,
//! taken back, and the table is written, while nobody has anything in flight. So `next_event` may
//! name a moment at which `poll` has nothing to hand out.

use crate::LINE;
use crate::Status;
use crate::commit::{Commit, Waiter};
use crate::format::{self, ORIGIN_OFFSET};
use crate::lines::{Lines, mark};
use crate::open_error::OpenError;
use crate::opening::Opening;
use crate::pair::{Answered, Pair};
use crate::requests::Requests;
use crate::settings::Settings;
use crate::state::{CacheState, Effect};
use crate::tasks::Task;
use crate::writeback::WriteBack;
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Ticket};
use thermocline_units::{Bytes, Nanos};

/// A cache of one device on another.
///
/// ```
/// use thermocline_blockcache::{BlockCache, Settings};
/// use thermocline_ports::model::{ModelDevice, Profile};
/// use thermocline_ports::{Device, Io, Ticket};
/// use thermocline_units::{Bytes, Nanos};
///
/// let device = |name: &str, mib| {
///     let profile = Profile::built_in(name).unwrap().with_size(Bytes::from_mib(mib)).unwrap();
///     ModelDevice::new(&profile, 1)
/// };
/// let (fast, slow) = (device("nvme", 1024), device("hdd-7200", 8192));
/// let (mut cache, mut done) =
///     (BlockCache::format(Nanos(0), fast, slow, 1, Settings::default()).unwrap(), Vec::new());
/// while !cache.is_open().unwrap() {
///     let at = cache.next_event().expect("it is being formatted");
///     cache.poll(at, &mut done);
/// }
/// let mut now = Nanos::from_secs(60);
/// for ticket in [1, 2] {
///     cache.submit(now, Ticket(ticket), Io::Read { offset: Bytes(0), length: 4096 });
///     while let Some(at) = cache.next_event() {
///         now = at;
///         cache.poll(now, &mut done);
///     }
/// }
/// assert_eq!(cache.status().read_hits, Bytes(4096), "the second read");
/// ```
pub struct BlockCache<C, O> {
    devices: Pair<C, O>,
    state: CacheState,
    requests: Requests,
    commit: Commit,
    back: WriteBack,
    /// Until it takes requests.
    opening: Option<Opening>,
    /// Room for what the devices answer.
    answered: Vec<Answered>,
}

impl<C: Device, O: Device> BlockCache<C, O> {
    /// A new cache; the contents of both devices are lost. `identity` tells this pair from others.
    /// Serve `poll` until [`BlockCache::is_open`] says so before anything is submitted.
    ///
    /// # Errors
    /// When a device is too small or too large.
    pub fn format(
        now: Nanos,
        cache: C,
        origin: O,
        identity: u64,
        settings: Settings,
    ) -> Result<BlockCache<C, O>, OpenError> {
        let mut made = BlockCache::closed(cache, origin, settings)?;
        (made.state.identity, made.state.now) = (identity, now);
        made.opening = Some(Opening::formatting(&mut made.state));
        made.settle();
        Ok(made)
    }

    /// The cache that is on two devices, with all that was flushed. As for
    /// [`BlockCache::format`], serve `poll` first.
    ///
    /// # Errors
    /// When a device is too small or too large.
    pub fn open(
        now: Nanos,
        cache: C,
        origin: O,
        settings: Settings,
    ) -> Result<BlockCache<C, O>, OpenError> {
        let mut made = BlockCache::closed(cache, origin, settings)?;
        made.state.now = now;
        made.opening = Some(Opening::reading(&mut made.state));
        made.settle();
        Ok(made)
    }

    fn closed(cache: C, origin: O, settings: Settings) -> Result<BlockCache<C, O>, OpenError> {
        let slots = format::slots_on(cache.geometry().size);
        if slots < format::SLOTS_MIN {
            return Err(OpenError::CacheTooSmall(cache.geometry().size));
        }
        let Geometry { size, discard_zeroes, far } = origin.geometry();
        let size = Bytes(size.0.saturating_sub(ORIGIN_OFFSET));
        let count = size.0.div_ceil(u64::from(LINE));
        if count == 0 {
            return Err(OpenError::OriginTooSmall(origin.geometry().size));
        }
        if count >= u64::from(u32::MAX) {
            return Err(OpenError::OriginTooLarge(origin.geometry().size));
        }
        let lines = Lines::new(slots, settings.policy);
        let geometry = Geometry { size, discard_zeroes, far };
        Ok(BlockCache {
            devices: Pair::new(cache, origin),
            state: CacheState::new(settings, geometry, lines),
            requests: Requests::default(),
            commit: Commit::default(),
            back: WriteBack::default(),
            opening: None,
            answered: Vec::new(),
        })
    }

    /// True once it takes requests; false while it is being formatted or read.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn is_open(&self) -> Result<bool, OpenError> {
        match self.state.failure() {
            Some(error) => Err(error),
            None => Ok(self.opening.is_none()),
        }
    }

    /// Counters and state.
    pub fn status(&self) -> Status {
        let (cached, dirty) = self.state.lines.counts();
        Status { cached, dirty, ..self.state.status }
    }

    /// Lines cached and lines dirty, counted slot by slot: what [`BlockCache::status`] must say.
    /// O(slots).
    pub fn count_lines(&self) -> (u32, u32) {
        let with = |marks: u8| {
            (0..self.state.lines.slots()).filter(|&slot| self.state.lines.has(slot, marks)).count()
        };
        (with(mark::VALID) as u32, with(mark::DIRTY) as u32)
    }

    /// The fast device; what is submitted there is the cache's business.
    pub fn cache(&self) -> &C {
        &self.devices.cache
    }

    /// The slow device; what is submitted there is the cache's business.
    pub fn origin(&self) -> &O {
        &self.devices.origin
    }

    /// Both devices, fast and slow, to wait for them or to break them.
    pub fn devices_mut(&mut self) -> (&mut C, &mut O) {
        (&mut self.devices.cache, &mut self.devices.origin)
    }

    /// An answer of one of the devices.
    fn land(&mut self, Answered { side, task, result }: Answered) {
        assert!(self.state.is_settled(), "the step before was settled");
        let is_open = self.opening.is_none();
        assert!(is_open != matches!(task, Task::Open), "an opening has one request, and no others");
        let state = &mut self.state;
        if matches!(task, Task::Open) {
            let opening = self.opening.take().expect("its request was under way");
            self.opening = opening.went_on(state, result);
            return self.settle();
        }
        if result == Err(DeviceError::Gone) {
            state.fail(DeviceError::Gone);
        }
        state.traffic.note_answer(side, &task);
        match task {
            Task::Piece { request, side, at, length, .. } => {
                let bytes = at..at + u64::from(length);
                self.requests.piece_done(state, request, side, bytes, result);
            }
            Task::Dropped { request } => self.requests.dropped(state, request, result),
            Task::Fill { request, lines } => self.requests.filled(state, request, lines, result),
            Task::Flush { side } => self.commit.flushed(state, side, result),
            Task::Table { sectors, tries } => {
                self.commit.table_written(state, sectors, tries, result);
            }
            Task::BackRead { run, at } => self.back.back_read(state, run, at, result),
            Task::BackWrite { run } => self.back.back_written(state, run, result),
            Task::Open => unreachable!("seen above"),
        }
        self.settle();
    }

    /// Does all that is due after an event.
    fn pump(&mut self) {
        if self.opening.is_none() {
            self.back.pump(&mut self.state);
            self.commit.pump(&mut self.state);
            self.settle();
        }
        assert!(self.state.is_settled(), "nothing is left between events");
    }

    /// Carries out what a step has left, and sends what it wants sent.
    fn settle(&mut self) {
        let state = &mut self.state;
        while let Some(effect) = state.next_effect() {
            match effect {
                Effect::TableWanted => self.commit.want(),
                Effect::WaitsForTable(ticket) => self.commit.join(Waiter::Write(ticket)),
                Effect::Unlocked(lock) => self.requests.release(state, lock),
            }
        }
        let now = state.now;
        state.take_outgoing().for_each(|request| self.devices.send(now, request));
        let is_under_way = self.devices.is_busy() || self.opening.is_none();
        assert!(is_under_way || state.failure().is_some(), "an opening waits for a device");
    }
}

impl<C: Device, O: Device> Device for BlockCache<C, O> {
    fn geometry(&self) -> Geometry {
        self.state.geometry
    }

    /// # Panics
    /// While it is not open.
    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        assert!(self.opening.is_none(), "a cache that is not open yet takes no requests");
        let state = &mut self.state;
        state.now = now;
        if state.failure().is_some() {
            let refusal = state.answers.refusal();
            return state.answers.answer(ticket, Err(refusal));
        }
        match io {
            Io::Flush => self.commit.join(Waiter::Flush(ticket)),
            io => self.requests.begin(state, ticket, io),
        }
        self.settle();
        self.pump();
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.state.now = now;
        if self.back.end_pause(now) {
            self.pump();
        }
        let mut answered = std::mem::take(&mut self.answered);
        loop {
            self.devices.take_answered(now, &mut answered);
            if answered.is_empty() {
                break;
            }
            answered.drain(..).for_each(|answer| self.land(answer));
            self.pump();
        }
        self.answered = answered;
        assert!(self.state.is_settled(), "nothing is left between events");
        self.state.answers.hand_over(done);
    }

    fn next_event(&self) -> Option<Nanos> {
        if !self.state.answers.are_none() {
            return Some(self.state.now);
        }
        [self.devices.next_event(), self.back.resume_at()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
