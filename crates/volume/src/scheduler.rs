//! The chunk scheduler of S1 (003 §3.2): a work queue and a waiting queue with deadlines.
//!
//! Parts of foreground requests go to the end of the work queue; parts of background requests to
//! the waiting queue, which is served when the work queue is empty or when a deadline has come. The
//! source's work queue is where its requests wait for the disk; ours is empty most of the time,
//! since devices have queues of their own. So a waiting part goes when no foreground request is
//! under way on its pool either.
//! Without background requests this is FIFO, the source's default; but for parts of volumes with a
//! strict promise (S6: 001 §4.1.3.1), which go before the others of the work queue, and let one of
//! those go after eight in a row.

use crate::request::Priority;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::Nanos;

/// Waiting parts that are looked at for one whose pool is free.
const LOOKS_MAX: usize = 16;
/// Strict parts that go in a row while others wait.
const STRICT_IN_A_ROW_MAX: u32 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Work of strict volumes.
    strict: VecDeque<u32>,
    /// Of these, how many went since another did.
    strict_in_a_row: u32,
    work: VecDeque<u32>,
    /// By deadline, then by order of arrival.
    waiting: BTreeMap<(Nanos, u64), u32>,
    arrivals: u64,
    under_way: u32,
    background_under_way: u32,
    depth: u32,
}

impl Scheduler {
    /// At most `depth` parts are under way at once, an eighth of them for the background.
    pub(crate) fn new(depth: u32) -> Scheduler {
        Scheduler { depth: depth.max(1), ..Scheduler::default() }
    }

    pub(crate) fn push(&mut self, part: u32, priority: Priority) {
        match priority {
            Priority::Foreground => self.work.push_back(part),
            Priority::Background { deadline } => {
                self.arrivals += 1;
                self.waiting.insert((deadline, self.arrivals), part);
            }
        }
    }

    /// The same, for a part of a volume with a strict promise.
    pub(crate) fn push_strict(&mut self, part: u32, priority: Priority) {
        match priority {
            Priority::Foreground => self.strict.push_back(part),
            Priority::Background { .. } => self.push(part, priority),
        }
    }

    /// The next part of the work queue.
    fn pop_work(&mut self) -> Option<u32> {
        let turn = self.strict_in_a_row < STRICT_IN_A_ROW_MAX || self.work.is_empty();
        if let Some(part) = turn.then(|| self.strict.pop_front()).flatten() {
            self.strict_in_a_row += 1;
            return Some(part);
        }
        self.strict_in_a_row = 0;
        self.work.pop_front()
    }

    /// The next part to start; `is_free`: whether no foreground request is under way on the pool
    /// of a part.
    pub(crate) fn pop(&mut self, now: Nanos, is_free: impl Fn(u32) -> bool) -> Option<u32> {
        if self.under_way >= self.depth {
            return None;
        }
        let due = self.waiting.first_key_value().is_some_and(|((at, _), _)| *at <= now);
        let idle = !self.has_queued() && self.background_under_way < (self.depth / 8).max(1);
        let part = if due || idle { self.pop_waiting(due, is_free) } else { self.pop_work() };
        self.under_way += u32::from(part.is_some());
        part
    }

    fn pop_waiting(&mut self, due: bool, is_free: impl Fn(u32) -> bool) -> Option<u32> {
        let mut first = self.waiting.iter().take(LOOKS_MAX);
        let (&key, _) = first.find(|&(_, &part)| due || is_free(part))?;
        self.background_under_way += 1;
        self.waiting.remove(&key)
    }

    /// A part that `pop` gave has ended.
    pub(crate) fn ended(&mut self, priority: Priority) {
        self.under_way -= 1;
        if priority != Priority::Foreground {
            self.background_under_way -= 1;
        }
    }

    fn has_queued(&self) -> bool {
        !self.work.is_empty() || !self.strict.is_empty()
    }

    /// Whether `pop` would give something at once.
    pub(crate) fn has_work(&self) -> bool {
        self.under_way < self.depth && self.has_queued()
    }

    /// When a waiting part becomes due; `None` while no part could start anyway.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        if self.under_way >= self.depth {
            return None;
        }
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Parts queued: (work, waiting).
    pub(crate) fn queued(&self) -> (usize, usize) {
        (self.work.len() + self.strict.len(), self.waiting.len())
    }
}
