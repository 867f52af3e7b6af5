//! Keeps writes to the same blocks in order: one at a time, in the order of their arrival.
//!
//! Requests in flight are few; a list is searched from one end to the other.

use std::collections::VecDeque;
use std::ops::Range;
use thermocline_units::VolumeId;

#[derive(Debug, Clone)]
struct Lock {
    volume: VolumeId,
    blocks: Range<u32>,
    write: u32,
}

impl Lock {
    fn meets(&self, other: &Lock) -> bool {
        self.volume == other.volume
            && self.blocks.start < other.blocks.end
            && other.blocks.start < self.blocks.end
    }
}

/// Ranges of blocks that writes hold or wait for.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Vec<Lock>,
    waiting: VecDeque<Lock>,
}

impl Locks {
    /// Requests blocks; returns false if the write must wait.
    pub(crate) fn ask(&mut self, volume: VolumeId, blocks: Range<u32>, write: u32) -> bool {
        let lock = Lock { volume, blocks, write };
        if self.held.iter().chain(&self.waiting).any(|other| other.meets(&lock)) {
            self.waiting.push_back(lock);
            return false;
        }
        self.held.push(lock);
        true
    }

    /// Ends a write, and returns the writes that may go on now, in their order.
    pub(crate) fn end(&mut self, write: u32) -> Vec<u32> {
        let Some(at) = self.held.iter().position(|lock| lock.write == write) else {
            return Vec::new();
        };
        self.held.swap_remove(at);
        let mut went = Vec::new();
        let mut blocked: VecDeque<Lock> = VecDeque::new();
        for lock in self.waiting.drain(..) {
            if self.held.iter().chain(&blocked).any(|other| other.meets(&lock)) {
                blocked.push_back(lock);
            } else {
                went.push(lock.write);
                self.held.push(lock);
            }
        }
        self.waiting = blocked;
        went
    }

    /// True if no write holds blocks or waits for some.
    pub(crate) fn are_free(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }
}
