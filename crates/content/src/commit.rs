//! Making changes durable: records in pages, cycles of flush and journal, and who waits for them.
//!
//! Every change of maps and blocks is appended as a record, in the order of the changes. A cycle
//! takes the pages filled so far, flushes the device (so that the blocks that the records name are
//! durable), writes the pages to the journal with FUA, and serves the waiters whose records are
//! durable. One cycle runs at a time; requests that come meanwhile share the next.
//!
//! This file is the part's state; `durability` has the store's side of it.

use crate::format::{PAYLOAD_BYTES, Record, encode_record};
use crate::request::{Completed, RequestId};
use std::collections::VecDeque;
use thermocline_units::mutants::mutant;

/// Pages of one cycle.
pub(crate) const COMMIT_BLOCKS_MAX: usize = 256;

/// Action that waits until records are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A request ends with this outcome.
    Answer(RequestId, Completed),
    /// Swept numbers become free.
    Free(Vec<u32>),
    /// A full segment gets its trailer.
    Seal(u32),
    /// An emptied segment loses its trailer.
    Wipe(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Idle,
    Flushing,
    Writing,
}

/// Records that fit into a block of the journal.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    /// Records appended up to its end.
    upto: u64,
}

/// Queue of records, and the commit cycle that is under way.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) stage: Stage,
    /// True if a cycle is to run although nothing waits for it.
    pub(crate) wanted: bool,
    pages: VecDeque<Page>,
    /// Records ever appended.
    records: u64,
    /// Records that are durable.
    durable: u64,
    waiters: VecDeque<(u64, Waiter)>,
    /// Pages of the cycle under way.
    pub(crate) taken: Vec<Page>,
    pub(crate) outstanding: u32,
    pub(crate) generation: u64,
    /// Sequence of the next block.
    pub(crate) next: u64,
    /// Sequence of the first block that a recovery needs.
    pub(crate) start: u64,
}

impl Commit {
    pub(crate) fn new(generation: u64, next: u64) -> Commit {
        Commit {
            stage: Stage::Idle,
            wanted: false,
            pages: VecDeque::new(),
            records: 0,
            durable: 0,
            waiters: VecDeque::new(),
            taken: Vec::new(),
            outstanding: 0,
            generation,
            next,
            start: next,
        }
    }

    /// Appends a record.
    pub(crate) fn append(&mut self, record: &Record) {
        let mut bytes = Vec::with_capacity(64);
        encode_record(record, &mut bytes);
        self.records += 1;
        match self.pages.back_mut() {
            Some(page) if page.bytes.len() + bytes.len() <= PAYLOAD_BYTES => {
                page.bytes.extend_from_slice(&bytes);
                page.upto = self.records;
            }
            _ => {
                let mut page = Page { bytes: Vec::with_capacity(PAYLOAD_BYTES), upto: 0 };
                page.bytes.extend_from_slice(&bytes);
                page.upto = self.records;
                self.pages.push_back(page);
            }
        }
    }

    /// Adds a waiter for all records appended so far.
    pub(crate) fn join(&mut self, waiter: Waiter) {
        self.waiters.push_back((self.records, waiter));
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.waiters.iter().filter_map(|(_, waiter)| match waiter {
            Waiter::Answer(id, _) => Some(*id),
            _ => None,
        })
    }

    /// True if everything appended is durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.durable == self.records
    }

    /// True if there are waiters.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Pages that wait for a cycle.
    pub(crate) fn queued(&self) -> usize {
        self.pages.len()
    }

    /// Blocks of the ring that a recovery would need.
    pub(crate) fn used(&self) -> u64 {
        self.next - self.start
    }

    /// Takes up to `pages` pages into a cycle; returns true if none is left.
    pub(crate) fn take(&mut self, pages: usize) -> bool {
        self.taken.extend(self.pages.drain(..pages.min(self.pages.len())));
        self.pages.is_empty()
    }

    /// Notes that the pages under way are durable.
    pub(crate) fn written(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.next += taken.len() as u64;
        if let Some(last) = taken.last() {
            self.durable = last.upto;
        }
        if mutant("flush_answered_with_records_left") {
            self.durable = self.records;
        }
        self.stage = Stage::Idle;
    }

    /// Drops the queued pages, because a checkpoint contains their changes. Returns the mark for
    /// [`Commit::covered`].
    pub(crate) fn cover(&mut self) -> u64 {
        self.pages.clear();
        self.records
    }

    /// Notes that the checkpoint that covers all records up to `mark` is durable.
    pub(crate) fn covered(&mut self, mark: u64) {
        self.durable = self.durable.max(mark);
    }

    /// The next waiter whose records are durable.
    pub(crate) fn served(&mut self) -> Option<Waiter> {
        let durable = self.durable;
        self.waiters.pop_front_if(|(upto, _)| *upto <= durable).map(|(_, waiter)| waiter)
    }
}
