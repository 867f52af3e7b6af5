//! Contents that a volume may have, by the answers that its guest got.
//!
//! Writes to a block are answered in their order. Position 0 of a block is its contents when its
//! guest came: one of several values if it is uncertain. Then come its writes. Positions before
//! `base` cannot come back by a crash; positions before `acked` cannot be read any more.

use std::collections::BTreeMap;
use thermocline_hostcache::Ticket;

#[derive(Debug, Clone)]
struct Block {
    first: Vec<u8>,
    later: Vec<u8>,
    acked: usize,
    base: usize,
}

impl Block {
    /// Values from a position on.
    fn since(&self, position: usize) -> Vec<u8> {
        let first: &[u8] = if position == 0 { &self.first } else { &[] };
        let later = &self.later[position.saturating_sub(1)..];
        first.iter().chain(later).copied().collect()
    }
}

#[derive(Debug)]
enum Pending {
    Read { block: u32, allowed: Vec<Vec<u8>> },
    Write { block: u32, positions: Vec<usize> },
    Flush { acked: Vec<usize>, after_crash: u32 },
}

#[derive(Debug)]
pub(crate) struct Guest {
    blocks: Vec<Block>,
    pending: BTreeMap<Ticket, Pending>,
    /// Number of the server's crashes so far, and number of those before the last flush.
    crashes: u32,
    flushed_after: u32,
}

impl Guest {
    pub(crate) fn new(blocks: &[u8]) -> Guest {
        let block = |value: &u8| Block { first: vec![*value], later: vec![], acked: 0, base: 0 };
        Guest {
            blocks: blocks.iter().map(block).collect(),
            pending: BTreeMap::new(),
            crashes: 0,
            flushed_after: 0,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn waits_for(&self, ticket: Ticket) -> bool {
        self.pending.contains_key(&ticket)
    }

    pub(crate) fn server_crashed(&mut self) {
        self.crashes += 1;
    }

    /// Notes a new guest: the old one's requests are over, and each block that was not answered or
    /// flushed is old or new.
    pub(crate) fn comes(&mut self) {
        self.pending.clear();
        let lossy = self.flushed_after < self.crashes;
        for block in &mut self.blocks {
            block.first = block.since(if lossy { block.base } else { block.acked });
            (block.later, block.acked, block.base) = (Vec::new(), 0, 0);
        }
        self.flushed_after = self.crashes;
    }

    pub(crate) fn reads(&mut self, ticket: Ticket, block: u32, count: u32) {
        let of = |block| {
            let block: &Block = &self.blocks[block as usize];
            block.since(block.acked)
        };
        let allowed = (block..block + count).map(of).collect();
        self.pending.insert(ticket, Pending::Read { block, allowed });
    }

    pub(crate) fn writes(&mut self, ticket: Ticket, block: u32, values: &[u8]) {
        for pending in self.pending.values_mut() {
            if let Pending::Read { block: first, allowed } = pending {
                for (at, value) in (block..).zip(values) {
                    let read = at.checked_sub(*first).and_then(|at| allowed.get_mut(at as usize));
                    if let Some(read) = read {
                        read.push(*value);
                    }
                }
            }
        }
        let mut positions = Vec::new();
        for (at, value) in (block..).zip(values) {
            let block = &mut self.blocks[at as usize];
            block.later.push(*value);
            positions.push(block.later.len());
        }
        self.pending.insert(ticket, Pending::Write { block, positions });
    }

    pub(crate) fn flushes(&mut self, ticket: Ticket) {
        let acked = self.blocks.iter().map(|block| block.acked).collect();
        self.pending.insert(ticket, Pending::Flush { acked, after_crash: self.crashes });
    }

    /// Handles an answered read; panics when it is wrong.
    pub(crate) fn read(&mut self, ticket: Ticket, values: &[u8]) {
        let Some(Pending::Read { block, allowed }) = self.pending.remove(&ticket) else {
            panic!("{ticket:?} is no read");
        };
        assert_eq!(allowed.len(), values.len(), "a read is answered whole");
        for ((at, value), allowed) in (block..).zip(values).zip(allowed) {
            assert!(allowed.contains(value), "block {at} is {value}, not one of {allowed:?}");
            let block = &mut self.blocks[at as usize];
            if block.later.is_empty() && block.first.contains(value) {
                block.first = vec![*value];
            }
        }
    }

    pub(crate) fn done(&mut self, ticket: Ticket) {
        match self.pending.remove(&ticket) {
            Some(Pending::Write { block, positions }) => {
                for (at, position) in (block..).zip(positions) {
                    let block = &mut self.blocks[at as usize];
                    // A write of several blocks may be answered after a later one of some of them.
                    block.acked = block.acked.max(position);
                }
            }
            Some(Pending::Flush { acked, after_crash }) => {
                for (block, acked) in self.blocks.iter_mut().zip(acked) {
                    block.base = block.base.max(acked);
                }
                self.flushed_after = self.flushed_after.max(after_crash);
            }
            other => panic!("{ticket:?} is done, which is {other:?}"),
        }
    }

    /// Handles a failed request: a write may have been carried out.
    pub(crate) fn failed(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket).expect("it was asked");
    }
}
