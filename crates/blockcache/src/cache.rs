//! The block cache itself: two devices, the index of lines, and everything under way between them.
//!
//! Event-driven: `submit` and the answers of the two devices change its state; answers to the
//! machine above wait for `poll`. Between its own requests it keeps working: lines are filled,
//! taken back, and the table is written, while nobody has anything in flight. So `next_event` may
//! name a moment at which `poll` has nothing to hand out.

use crate::LINE;
use crate::answers::Answers;
use crate::commit::Commit;
use crate::format::{self, ORIGIN_OFFSET};
use crate::lines::{Lines, mark};
use crate::locks::Locks;
use crate::opening::{OpenError, Opening};
use crate::pair::{Answered, Pair, Task};
use crate::requests::Request;
use crate::status::Status;
use crate::writeback::WriteBack;
use thermocline_policy::cache::SetRule;
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Ticket};
use thermocline_units::{Bytes, Nanos, Slab};

/// Decisions of a block cache. Plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests of at least so many bytes go around the fast device where their lines are not
    /// cached: what is read or written in long runs, the slow device does well enough.
    pub around_from: u32,
    /// Dirty lines, in percent of all slots, above which lines are taken back.
    pub dirty_percent: u8,
    /// Lines or runs of lines being taken back at once, at most.
    pub writers_max: u32,
    /// The rule for which line of a full set leaves. It may change between starts: the table on the
    /// medium does not depend on it.
    pub policy: SetRule,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            around_from: 64 << 10,
            dirty_percent: 10,
            writers_max: 16,
            policy: SetRule::S3Fifo,
        }
    }
}

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
    pub(crate) devices: Pair<C, O>,
    pub(crate) settings: Settings,
    pub(crate) geometry: Geometry,
    pub(crate) identity: u64,
    pub(crate) lines: Lines,
    pub(crate) locks: Locks,
    pub(crate) requests: Slab<Request>,
    pub(crate) commit: Commit,
    pub(crate) back: WriteBack,
    pub(crate) opening: Option<Opening>,
    pub(crate) failure: Option<OpenError>,
    /// The latest moment it was told of.
    pub(crate) now: Nanos,
    pub(crate) status: Status,
    /// For the machine above.
    pub(crate) answers: Answers,
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
        made.identity = identity;
        made.start_formatting(now);
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
        made.start_reading(now);
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
        let memory = Bytes(lines.bytes());
        Ok(BlockCache {
            devices: Pair::new(cache, origin),
            settings,
            geometry: Geometry { size, discard_zeroes, far },
            identity: 0,
            lines,
            locks: Locks::default(),
            requests: Slab::default(),
            commit: Commit::default(),
            back: WriteBack::default(),
            opening: None,
            failure: None,
            now: Nanos(0),
            status: Status {
                lines: slots,
                memory,
                policy: settings.policy.name(),
                ..Status::default()
            },
            answers: Answers::default(),
            answered: Vec::new(),
        })
    }

    /// True once it takes requests; false while it is being formatted or read.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn is_open(&self) -> Result<bool, OpenError> {
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self.opening.is_none()),
        }
    }

    /// Counters and state.
    pub fn status(&self) -> Status {
        let (cached, dirty) = self.lines.counts();
        Status { cached, dirty, ..self.status }
    }

    /// Lines cached and lines dirty, counted slot by slot: what [`BlockCache::status`] must say.
    /// O(slots).
    pub fn count_lines(&self) -> (u32, u32) {
        let with =
            |marks: u8| (0..self.lines.slots()).filter(|&slot| self.lines.has(slot, marks)).count();
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
    fn land(&mut self, now: Nanos, Answered { side, task, result }: Answered) {
        if matches!(task, Task::Open) {
            return self.opening_went_on(now, result);
        }
        if result == Err(DeviceError::Gone) {
            self.fail(DeviceError::Gone);
        }
        self.devices.note_answer(side, &task);
        match task {
            Task::Piece { request, side, at, length, .. } => {
                self.piece_done(now, request, side, at..at + u64::from(length), result);
            }
            Task::Dropped { request } => self.dropped(now, request, result),
            Task::Fill { request, lines } => self.filled(now, request, lines, result),
            Task::Flush { side } => self.flushed(now, side, result),
            Task::Table { sectors, tries } => self.table_written(now, sectors, tries, result),
            Task::BackRead { run, at } => self.back_read(now, run, at, result),
            Task::BackWrite { run } => self.back_written(now, run, result),
            Task::Open => unreachable!("seen above"),
        }
    }

    /// Does all that is due after an event.
    fn pump(&mut self, now: Nanos) {
        if self.opening.is_none() {
            self.pump_writeback(now);
            self.pump_commit(now);
        }
    }
}

impl<C: Device, O: Device> Device for BlockCache<C, O> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// # Panics
    /// While it is not open.
    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        assert!(self.opening.is_none(), "a cache that is not open yet takes no requests");
        self.now = now;
        if self.failure.is_some() {
            let refusal = self.answers.refusal();
            return self.answers.answer(ticket, Err(refusal));
        }
        match io {
            Io::Flush => self.commit.join(crate::commit::Waiter::Flush(ticket)),
            io => self.begin(now, ticket, io),
        }
        self.pump(now);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.now = now;
        if self.back.resume_at.take_if(|at| *at <= now).is_some() {
            self.pump(now);
        }
        let mut answered = std::mem::take(&mut self.answered);
        loop {
            self.devices.take_answered(now, &mut answered);
            if answered.is_empty() {
                break;
            }
            answered.drain(..).for_each(|answer| self.land(now, answer));
            self.pump(now);
        }
        self.answered = answered;
        self.answers.hand_over(done);
    }

    fn next_event(&self) -> Option<Nanos> {
        if !self.answers.are_none() {
            return Some(self.now);
        }
        [self.devices.next_event(), self.back.resume_at].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
