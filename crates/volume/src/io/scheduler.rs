//! The chunk scheduler: for every pool a work queue, and a waiting queue with deadlines.
//!
//! The source (Ge et al., "HintStor: A Framework to Study I/O Hints in Heterogeneous Storage", ACM
//! TOS) has one work queue, where requests wait for the disk. Here every pool has one, and a depth
//! of its own: a pool that cannot keep up keeps nobody from another.
//!
//! 1. A sub-request joins the queues of the pool that it is expected to use, and takes one of the
//!    places of that pool when it starts. When it is sent to a device, its place moves to that
//!    device's pool; a sub-request that is sent to several keeps its place on the slowest of them.
//! 2. Sub-requests of foreground requests go to the end of the work queue; sub-requests of
//!    background requests to the waiting queue, which is served when the work queue is empty or
//!    when a deadline has come. Devices have queues of their own, so a work queue is empty most of
//!    the time; a waiting part goes only when no foreground request is under way on its pool.
//! 3. Sub-requests of volumes with a strict SLA go before the others of the work queue, and let one
//!    of those go after eight in a row.
//! 4. Among pools the part goes that arrived first. Without background requests, and with room on
//!    all pools, this is FIFO.
//!
//! State: a queue's entry a sub-request; O(pools) a start.

use crate::io::request::Priority;
use crate::settings::POOLS_MAX;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::{Nanos, PoolId};

/// Strict sub-requests that go in a row while others wait.
const STRICT_IN_A_ROW_MAX: u32 = 8;

/// A pool's queues, by the pool's number; one more stands for sub-requests that need no pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane(u16);

impl Lane {
    /// The queues of sub-requests that need no pool.
    pub(crate) const NONE: Lane = Lane(0);

    pub(crate) fn of(pool: PoolId) -> Lane {
        Lane(pool.0 + 1)
    }

    /// Numbers lanes from 0, without holes.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The pool; none: no pool is needed.
    pub(crate) fn pool(self) -> Option<PoolId> {
        self.0.checked_sub(1).map(PoolId)
    }
}

/// A sub-request in a queue, and when it came, among all.
#[derive(Debug, Clone, Copy)]
struct Queued {
    sub_request: u32,
    arrival: u64,
}

/// Queue that a sub-request would be taken from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Strict,
    Work,
    Waiting { key: (Nanos, u64) },
}

/// The queues of one pool.
#[derive(Debug, Default)]
struct Queues {
    /// Work of strict volumes.
    strict: VecDeque<Queued>,
    /// Number of them that went since another did.
    strict_in_a_row: u32,
    work: VecDeque<Queued>,
    /// Requests by deadline, then by order of arrival.
    waiting: BTreeMap<(Nanos, u64), u32>,
    under_way: u32,
    background_under_way: u32,
    /// Places of this pool; `None`: as many as most.
    depth: Option<u32>,
}

impl Queues {
    fn has_work(&self) -> bool {
        !self.work.is_empty() || !self.strict.is_empty()
    }

    /// The next sub-request's source and arrival; `is_free`: whether no foreground request is under
    /// way on the pool.
    fn next(
        &self,
        now: Nanos,
        depth: u32,
        is_free: impl FnOnce() -> bool,
    ) -> Option<(Source, u64)> {
        if self.under_way >= depth {
            return None;
        }
        if let Some((&key, _)) = self.waiting.first_key_value() {
            let idle = !self.has_work() && self.background_under_way < (depth / 8).max(1);
            if key.0 <= now || idle && is_free() {
                return Some((Source::Waiting { key }, key.1));
            }
        }
        let turn = self.strict_in_a_row < STRICT_IN_A_ROW_MAX || self.work.is_empty();
        match (self.strict.front().filter(|_| turn), self.work.front()) {
            (Some(first), _) => Some((Source::Strict, first.arrival)),
            (None, first) => first.map(|first| (Source::Work, first.arrival)),
        }
    }

    fn take(&mut self, source: Source) -> Option<u32> {
        self.under_way += 1;
        assert!(self.background_under_way < self.under_way, "a sub-request has one place");
        match source {
            Source::Strict => {
                self.strict_in_a_row += 1;
                self.strict.pop_front().map(|queued| queued.sub_request)
            }
            Source::Work => {
                self.strict_in_a_row = 0;
                self.work.pop_front().map(|queued| queued.sub_request)
            }
            Source::Waiting { key } => {
                self.background_under_way += 1;
                self.waiting.remove(&key)
            }
        }
    }
}

/// Queues of sub-requests, by pool and by urgency.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Queues by lane.
    queues: Vec<Queues>,
    arrivals: u64,
    /// Sub-requests at once of each pool that has no limit of its own.
    depth: u32,
}

impl Scheduler {
    /// Returns empty queues. At most `depth` sub-requests are under way on a pool at once, an
    /// eighth of them for the background.
    pub(crate) fn new(depth: u32) -> Scheduler {
        Scheduler { depth: depth.max(1), ..Scheduler::default() }
    }

    /// Sets the number of sub-requests that may be under way at once on the pool of a lane;
    /// `None`: as many as on most.
    pub(crate) fn set_depth(&mut self, lane: Lane, depth: Option<u32>) {
        self.queues(lane).depth = depth.map(|depth| depth.max(1));
    }

    fn has_place(&self, queues: &Queues) -> bool {
        queues.under_way < queues.depth.unwrap_or(self.depth)
    }

    fn queues(&mut self, lane: Lane) -> &mut Queues {
        let at = lane.index();
        assert!(at <= POOLS_MAX, "a lane is of a pool that may be, or of none");
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, Queues::default);
        }
        &mut self.queues[at]
    }

    pub(crate) fn push(&mut self, sub_request: u32, lane: Lane, priority: Priority) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let queues = self.queues(lane);
        match priority {
            Priority::Foreground => {
                let last = queues.work.back();
                assert!(last.is_none_or(|last| last.arrival < arrival), "first come, first served");
                queues.work.push_back(Queued { sub_request, arrival });
            }
            Priority::Background { deadline } => {
                let before = queues.waiting.insert((deadline, arrival), sub_request);
                assert!(before.is_none(), "each sub-request has an arrival of its own");
            }
        }
    }

    /// The same, for a part of a volume with a strict SLA.
    pub(crate) fn push_strict(&mut self, sub_request: u32, lane: Lane, priority: Priority) {
        if priority != Priority::Foreground {
            return self.push(sub_request, lane, priority);
        }
        self.arrivals += 1;
        let arrival = self.arrivals;
        let strict = &mut self.queues(lane).strict;
        assert!(
            strict.back().is_none_or(|last| last.arrival < arrival),
            "first come, first served"
        );
        strict.push_back(Queued { sub_request, arrival });
    }

    /// The next sub-request to start; `is_free`: whether no foreground request is under way on the
    /// pool of a lane.
    pub(crate) fn pop(&mut self, now: Nanos, is_free: impl Fn(Lane) -> bool) -> Option<u32> {
        let lanes = self.queues.iter().enumerate();
        let ready = lanes.filter_map(|(at, queues)| {
            let depth = queues.depth.unwrap_or(self.depth);
            let (source, arrival) = queues.next(now, depth, || is_free(Lane(at as u16)))?;
            Some((arrival, at, source))
        });
        let (_, at, source) = ready.min_by_key(|&(arrival, ..)| arrival)?;
        let sub_request = self.queues[at].take(source);
        assert!(sub_request.is_some(), "what was ready is taken");
        sub_request
    }

    /// A sub-request that took a place of `from` has been sent to the pool of `to`, and takes one
    /// there.
    pub(crate) fn moved(&mut self, from: Lane, to: Lane, priority: Priority) {
        assert_ne!(from, to, "a place moves to another pool");
        self.ended(from, priority);
        let queues = self.queues(to);
        queues.under_way += 1;
        queues.background_under_way += u32::from(priority != Priority::Foreground);
    }

    /// A sub-request that has a place of `lane` has ended.
    pub(crate) fn ended(&mut self, lane: Lane, priority: Priority) {
        let queues = self.queues(lane);
        assert!(queues.under_way > 0, "a place is given back once");
        queues.under_way -= 1;
        queues.background_under_way -= u32::from(priority != Priority::Foreground);
        assert!(queues.background_under_way <= queues.under_way, "a sub-request has one place");
    }

    /// True if `pop` would give something at once, waiting sub-requests aside.
    pub(crate) fn has_work(&self) -> bool {
        self.queues.iter().any(|queues| self.has_place(queues) && queues.has_work())
    }

    /// Moment at which a waiting sub-request becomes due; `None` while no sub-request could start
    /// anyway.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let open = self.queues.iter().filter(|queues| self.has_place(queues));
        open.filter_map(|queues| queues.waiting.first_key_value()).map(|((at, _), _)| *at).min()
    }

    /// Sub-requests queued: (work, waiting).
    pub(crate) fn queued(&self) -> (usize, usize) {
        self.queues.iter().fold((0, 0), |(work, waiting), queues| {
            (work + queues.work.len() + queues.strict.len(), waiting + queues.waiting.len())
        })
    }
}

#[cfg(test)]
mod tests;
