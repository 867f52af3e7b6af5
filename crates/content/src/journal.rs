//! Records of changes on their way to the journal: pages that wait, and who waits for them.
//!
//! Every change of maps and blocks is appended as a record, in the order of the changes. Every part
//! may append, and have something done when all records so far are durable. `commit` takes the
//! pages to the device; a checkpoint may make records durable in its stead.

use crate::format::{PAYLOAD_BYTES, Record, encode_record};
use crate::request::{Completed, RequestId};
use std::collections::VecDeque;
use thermocline_units::mutants::mutant;

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

/// Records that fit into a block of the journal.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    /// Records appended up to its end.
    upto: u64,
}

/// The queue of records, and the place of the journal in its ring.
#[derive(Debug)]
pub(crate) struct Journal {
    pages: VecDeque<Page>,
    /// Records ever appended.
    records: u64,
    /// Records that are durable.
    durable: u64,
    waiters: VecDeque<(u64, Waiter)>,
    /// Pages of the group commit that is under way.
    under_way: Option<u64>,
    generation: u64,
    /// Sequence of the next block.
    next: u64,
    /// Sequence of the first block that a recovery needs.
    start: u64,
}

impl Journal {
    /// A journal of this generation, which goes on with block `next`.
    pub(crate) fn new(generation: u64, next: u64) -> Journal {
        Journal {
            pages: VecDeque::new(),
            records: 0,
            durable: 0,
            waiters: VecDeque::new(),
            under_way: None,
            generation,
            next,
            start: next,
        }
    }

    /// Generation of its blocks.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Sequence of the next block to be written.
    pub(crate) fn next_block(&self) -> u64 {
        self.next
    }

    /// Sequence of the block behind those that a group commit has taken.
    pub(crate) fn behind_taken(&self) -> u64 {
        self.next + self.under_way.unwrap_or(0)
    }

    /// True while a group commit is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way.is_some()
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

    /// Pages that wait for a group commit.
    pub(crate) fn queued(&self) -> usize {
        self.pages.len()
    }

    /// Blocks of the ring that a recovery would need.
    pub(crate) fn used(&self) -> u64 {
        self.next - self.start
    }

    /// Takes up to `pages` pages into a group commit, with true if none is left.
    pub(crate) fn take(&mut self, pages: usize) -> (Vec<Page>, bool) {
        assert!(!self.is_busy(), "one group commit runs at a time");
        let taken: Vec<Page> = self.pages.drain(..pages.min(self.pages.len())).collect();
        self.under_way = Some(taken.len() as u64);
        (taken, self.pages.is_empty())
    }

    /// Notes that the pages under way are durable.
    pub(crate) fn written(&mut self, taken: &[Page]) {
        assert_eq!(self.under_way, Some(taken.len() as u64), "what was taken is written");
        self.under_way = None;
        self.next += taken.len() as u64;
        if let Some(last) = taken.last() {
            self.durable = last.upto;
        }
        if mutant("flush_answered_with_records_left") {
            self.durable = self.records;
        }
    }

    /// Drops the queued pages, because a checkpoint contains their changes. Returns the mark for
    /// [`Journal::covered`].
    pub(crate) fn cover(&mut self) -> u64 {
        self.pages.clear();
        self.records
    }

    /// Notes that the checkpoint that covers all records up to `mark` is durable.
    pub(crate) fn covered(&mut self, mark: u64) {
        self.durable = self.durable.max(mark);
    }

    /// Notes that a recovery needs no block before this one.
    pub(crate) fn starts_at(&mut self, block: u64) {
        self.start = block;
    }

    /// The next waiter whose records are durable.
    pub(crate) fn served(&mut self) -> Option<Waiter> {
        let durable = self.durable;
        self.waiters.pop_front_if(|(upto, _)| *upto <= durable).map(|(_, waiter)| waiter)
    }
}

#[cfg(test)]
mod tests;
