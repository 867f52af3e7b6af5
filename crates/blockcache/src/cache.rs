//! The block cache itself: two devices, the index of lines, and everything under way between them.
//!
//! Event-driven: `submit` and the answers of the two devices change its state; answers to the
//! machine above wait for `poll`. Between its own requests it keeps working: lines are filled,
//! taken back, and the table is written, while nobody has anything in flight. So `next_event` may
//! name a moment at which `poll` has nothing to hand out.

use crate::LINE;
use crate::commit::Commit;
use crate::format::{self, ORIGIN_OFFSET, Side, WAYS};
use crate::locks::Locks;
use crate::opening::{OpenError, Opening};
use crate::requests::Request;
use crate::status::Status;
use crate::writeback::WriteBack;
use std::ops::Range;
use thermocline_policy::cache::{SetRule, Sets};
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, Ticket};
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

/// The marks of a slot.
pub(crate) mod mark {
    /// The slot holds its line's contents. Without it, the slot only waits until the table does not
    /// name it any more.
    pub(crate) const VALID: u8 = 1;
    /// The slow device does not have these contents.
    pub(crate) const DIRTY: u8 = 2;
    /// The table, as it is or may be on the medium, names the slot's line.
    pub(crate) const RECORDED: u8 = 4;
    /// The table is being written without the slot.
    pub(crate) const FREEING: u8 = 8;
    /// The table is being written with the slot for the first time.
    pub(crate) const RECORDING: u8 = 16;
    /// The line was written since it began to be taken back.
    pub(crate) const REWRITTEN: u8 = 32;
}

/// The purpose of a request to one of the devices.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// A piece of a client's request, which begins at byte `at` of the machine above.
    Piece {
        request: u32,
        side: Side,
        at: u64,
        length: u32,
        writes: bool,
    },
    /// Zeroes or a discard on the slow device.
    Dropped {
        request: u32,
    },
    /// Copying what was read into slots.
    Fill {
        request: u32,
        lines: Range<u32>,
    },
    /// A flush of a cycle.
    Flush {
        /// The device that is flushed.
        side: Side,
    },
    /// A run of the table's sectors; after so many failures.
    Table {
        sectors: Range<u32>,
        tries: u32,
    },
    /// Reading a run that is taken back, and writing it.
    BackRead {
        run: u32,
        at: u32,
    },
    BackWrite {
        run: u32,
    },
    /// The step of opening.
    Open,
}

/// A cache of one device on another.
pub struct BlockCache<C, O> {
    pub(crate) cache: C,
    pub(crate) origin: O,
    pub(crate) settings: Settings,
    pub(crate) geometry: Geometry,
    pub(crate) identity: u64,
    pub(crate) index: Sets,
    pub(crate) locks: Locks,
    pub(crate) tasks: Slab<Task>,
    pub(crate) requests: Slab<Request>,
    pub(crate) commit: Commit,
    pub(crate) back: WriteBack,
    pub(crate) opening: Option<Opening>,
    pub(crate) failure: Option<OpenError>,
    /// The latest moment it was told of.
    pub(crate) now: Nanos,
    /// True for a device, fast or slow, that has written data it has not flushed.
    pub(crate) volatile: [bool; 2],
    pub(crate) status: Status,
    /// For the machine above.
    pub(crate) answers: Vec<Completion>,
    landed: Vec<Completion>,
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
        let lines = size.0.div_ceil(u64::from(LINE));
        if lines == 0 {
            return Err(OpenError::OriginTooSmall(origin.geometry().size));
        }
        if lines >= u64::from(u32::MAX) {
            return Err(OpenError::OriginTooLarge(origin.geometry().size));
        }
        let index = Sets::new(slots, WAYS, settings.policy);
        let memory = Bytes(index.bytes());
        Ok(BlockCache {
            cache,
            origin,
            settings,
            geometry: Geometry { size, discard_zeroes, far },
            identity: 0,
            index,
            locks: Locks::default(),
            tasks: Slab::default(),
            requests: Slab::default(),
            commit: Commit::default(),
            back: WriteBack::default(),
            opening: None,
            failure: None,
            now: Nanos(0),
            volatile: [false; 2],
            status: Status {
                lines: slots,
                memory,
                policy: settings.policy.name(),
                ..Status::default()
            },
            answers: Vec::new(),
            landed: Vec::new(),
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
        self.status
    }

    /// Lines cached and lines dirty, counted slot by slot: what [`BlockCache::status`] must say.
    /// O(slots).
    pub fn count_lines(&self) -> (u32, u32) {
        let with =
            |marks: u8| (0..self.index.slots()).filter(|&slot| self.has(slot, marks)).count();
        (with(mark::VALID) as u32, with(mark::DIRTY) as u32)
    }

    /// The fast device; what is submitted there is the cache's business.
    pub fn cache(&self) -> &C {
        &self.cache
    }

    /// The slow device; what is submitted there is the cache's business.
    pub fn origin(&self) -> &O {
        &self.origin
    }

    /// Both devices, fast and slow, to wait for them or to break them.
    pub fn devices_mut(&mut self) -> (&mut C, &mut O) {
        (&mut self.cache, &mut self.origin)
    }

    /// Sends a request to one of the devices. Offsets on the slow one are the machine's above.
    pub(crate) fn send(&mut self, now: Nanos, side: Side, task: Task, io: Io) {
        let ticket = Ticket(u64::from(self.tasks.insert(task)));
        match side {
            Side::Cache => self.cache.submit(now, ticket, io),
            Side::Origin => self.origin.submit(now, ticket, io),
        }
    }

    /// An answer of one of the devices.
    fn land(&mut self, now: Nanos, side: Side, completion: Completion) {
        let Completion { ticket, result } = completion;
        let task = self.tasks.remove(ticket.0 as u32);
        if matches!(task, Task::Open) {
            return self.opening_went_on(now, result);
        }
        if result == Err(DeviceError::Gone) {
            self.fail(DeviceError::Gone);
        }
        if changes_medium(&task) {
            self.volatile[side as usize] = true;
        }
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

    /// The slots' mark bits.
    pub(crate) fn has(&self, slot: u32, marks: u8) -> bool {
        self.index.marks(slot) & marks == marks
    }

    /// Sets and clears marks of a slot; dirty ones are counted, and told to the table in time.
    pub(crate) fn remark(&mut self, slot: u32, set: u8, clear: u8) {
        let before = self.index.marks(slot);
        let after = before & !clear | set;
        self.index.set_marks(slot, after);
        let gained =
            |mark: u8| u32::from(after & mark != 0).wrapping_sub(u32::from(before & mark != 0));
        self.status.cached = self.status.cached.wrapping_add(gained(mark::VALID));
        self.status.dirty = self.status.dirty.wrapping_add(gained(mark::DIRTY));
        // The table names dirty lines; whoever became one, or is none any more, is looked at.
        let named = after & mark::RECORDED != 0;
        if gained(mark::DIRTY) != 0 && (after & mark::DIRTY != 0) != named {
            self.commit.note(slot);
        }
    }

    /// The contents of a slot are nothing any more. Somebody may still be reading them: the slot
    /// stays its line's until another one takes it.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.remark(slot, 0, mark::VALID | mark::DIRTY | mark::REWRITTEN);
        self.index.expect_last(slot);
    }

    /// The slot that holds `line`'s contents.
    pub(crate) fn slot_of(&self, line: u32) -> Option<u32> {
        self.index.find(line).filter(|&slot| self.has(slot, mark::VALID))
    }

    /// Offset of a slot on the fast device.
    pub(crate) fn slot_offset(&self, slot: u32) -> Bytes {
        format::slot_offset(self.index.slots(), slot)
    }

    /// Error of every request to a cache that has failed. After a flush that may have forgotten
    /// writes it is the one that says so: whoever flushes next must learn it, and the devices hold
    /// everything that was flushed before.
    pub(crate) fn refusal(&self) -> DeviceError {
        if self.commit.forgot { DeviceError::Io } else { DeviceError::Gone }
    }

    /// Answers a request. What was under way when a flush forgot writes may be what was there
    /// before them, and is not shown.
    pub(crate) fn answer(&mut self, ticket: Ticket, result: Result<Payload, DeviceError>) {
        let result = if self.commit.forgot { result.and(Err(self.refusal())) } else { result };
        self.answers.push(Completion { ticket, result });
    }
}

/// True if a completed task leaves something that a flush must make durable.
fn changes_medium(task: &Task) -> bool {
    match task {
        Task::Piece { writes, .. } => *writes,
        // What fills a slot is written over in part, perhaps, and then it counts.
        Task::Fill { .. } | Task::Dropped { .. } | Task::BackWrite { .. } => true,
        // The table is written through.
        Task::Flush { .. } | Task::Table { .. } | Task::BackRead { .. } | Task::Open => false,
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
            return self.answer(ticket, Err(self.refusal()));
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
        let mut landed = std::mem::take(&mut self.landed);
        loop {
            self.cache.poll(now, &mut landed);
            let from_cache = landed.len();
            self.origin.poll(now, &mut landed);
            if landed.is_empty() {
                break;
            }
            for (index, completion) in landed.drain(..).enumerate() {
                let side = if index < from_cache { Side::Cache } else { Side::Origin };
                self.land(now, side, completion);
            }
            self.pump(now);
        }
        self.landed = landed;
        done.append(&mut self.answers);
    }

    fn next_event(&self) -> Option<Nanos> {
        if !self.answers.is_empty() {
            return Some(self.now);
        }
        let events = [self.cache.next_event(), self.origin.next_event(), self.back.resume_at];
        events.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
