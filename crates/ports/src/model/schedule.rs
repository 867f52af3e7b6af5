//! Requests whose time of completion is known, and their counting when it comes.

use super::counters::Counters;
use crate::{Completion, Io, Payload, Ticket};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use thermocline_units::Nanos;

/// The kind of a request, for a model that has no contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// A write that must be durable at completion.
    ForcedWrite,
    Flush,
    Discard,
    /// Costs what a discard costs, but on disks, which write them.
    WriteZeroes,
}

impl Kind {
    pub(super) fn of(io: &Io) -> Kind {
        match io {
            Io::Read { .. } => Kind::Read,
            Io::Write { fua: false, .. } => Kind::Write,
            Io::Write { fua: true, .. } => Kind::ForcedWrite,
            Io::Flush => Kind::Flush,
            Io::Discard { .. } => Kind::Discard,
            Io::WriteZeroes { .. } => Kind::WriteZeroes,
        }
    }
}

/// A request as the models see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) ticket: Ticket,
    pub(super) kind: Kind,
    /// First byte; 0 for a flush.
    pub(super) offset: u64,
    /// Bytes; 0 for a flush.
    pub(super) length: u64,
    pub(super) submitted: Nanos,
}

#[derive(Debug)]
struct Due {
    at: Nanos,
    sequence: u64,
    request: Request,
}

/// Requests in the order of their completion, and what was counted so far.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    heap: BinaryHeap<Due>,
    sequence: u64,
    covered: Nanos,
    pub(super) counters: Counters,
}

impl Schedule {
    /// `request` completes at `at`.
    #[inline]
    pub(super) fn push(&mut self, request: Request, at: Nanos) {
        self.sequence += 1;
        self.heap.push(Due { at, sequence: self.sequence, request });
    }

    /// The device is busy from `from`, which never falls, to `to`; overlaps count once.
    #[inline]
    pub(super) fn cover(&mut self, from: Nanos, to: Nanos) {
        self.counters.busy.0 += to.saturating_sub(self.covered.max(from)).0;
        self.covered = self.covered.max(to);
    }

    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|due| due.at)
    }

    /// Appends what completes until `now`.
    pub(super) fn pop_until(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while self.heap.peek().is_some_and(|due| due.at <= now) {
            let Due { at, request, .. } = self.heap.pop().expect("just seen");
            self.counters.count(&request, at);
            let data = match request.kind {
                Kind::Read => Payload::Zeroes(request.length as u32),
                _ => Payload::EMPTY,
            };
            done.push(Completion { ticket: request.ticket, result: Ok(data) });
        }
    }
}

impl Ord for Due {
    /// The earliest is the greatest, for a heap that gives the greatest first.
    #[inline]
    fn cmp(&self, other: &Due) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl PartialOrd for Due {
    #[inline]
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}
