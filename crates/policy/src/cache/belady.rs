//! Belady's MIN (1966): evict the line whose next use is farthest away. The bound of all others.
//!
//! Admission is forced: every missed line enters, as in the policies it is compared with. (Where a
//! miss may bypass the cache, the bound is lower still.) The caller tells for each access where the
//! next one to the same line is, so a run is bound to one trace.
//!
//! 1. Each resident line is keyed by the position of its next access.
//! 2. A full cache evicts a line that is never used again if there is one, else that with the
//!    largest key.
//!
//! Keys of lines hit since are left in the heap: they lie in the past, below every key that counts,
//! and are swept out when they outnumber the lines. So a hit is one push.
//!
//! State: at most 24 B a cached line (heap and its slack), 4 B a distinct line, 4 B an access for
//! the future itself, which is the caller's. O(log lines) an access, amortised.

use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use std::collections::BinaryHeap;
use std::sync::Arc;
use thermocline_units::{LineId, prefetch};

pub(crate) const ENTRY: Entry = Entry {
    name: "belady",
    summary: "evicts the line whose next use is farthest: the optimum, knowing the future",
    source: "Belady, IBM Systems Journal 1966; MIN with forced admission",
    settings: &[],
    build: Build::Clairvoyant(|geometry, _, next| Ok(Box::new(Belady::new(geometry.lines, next)))),
};

/// The line is never accessed again.
const NEVER: u32 = u32::MAX;

/// MIN over one known sequence of accesses.
#[derive(Debug)]
pub(crate) struct Belady {
    /// For each access, the position of the next to the same line, or [`NEVER`].
    next: Arc<[u32]>,
    /// Accesses made.
    now: u32,
    /// The next use of each resident line; 0 for a line that is not resident.
    next_of: Vec<u32>,
    /// (next use, line), the farthest on top; not valid when `next_of` says otherwise.
    heap: BinaryHeap<(u32, u32)>,
    /// Resident lines that are never used again, and discarded ones among them.
    dead: Vec<u32>,
    resident: u32,
    capacity: u32,
}

impl Belady {
    /// An empty cache of `capacity` ≥ 1 lines for the accesses that `next` describes.
    pub(crate) fn new(capacity: u32, next: Arc<[u32]>) -> Belady {
        assert!(capacity > 0, "a cache holds at least one line");
        Belady {
            next,
            now: 0,
            next_of: Vec::new(),
            heap: BinaryHeap::new(),
            dead: Vec::new(),
            resident: 0,
            capacity,
        }
    }

    /// Notes that `line`, resident, is used next at `next`.
    #[inline(always)]
    fn schedule(&mut self, line: LineId, next: u32) {
        assert!(next > self.now, "the next use of a line comes after this one");
        self.next_of[line.index()] = next;
        if next == NEVER {
            self.dead.push(line.0);
            return;
        }
        self.heap.push((next, line.0));
        if self.heap.len() > 2 * self.capacity as usize + 64 {
            let next_of = &self.next_of;
            self.heap.retain(|(next, line)| next_of[*line as usize] == *next);
        }
    }

    fn evict(&mut self) -> LineId {
        while let Some(line) = self.dead.pop() {
            if self.next_of[line as usize] == NEVER {
                return self.leave(LineId(line));
            }
        }
        loop {
            let (next, line) = self.heap.pop().expect("a resident line is in the heap or dead");
            if self.next_of[line as usize] == next {
                return self.leave(LineId(line));
            }
        }
    }

    fn leave(&mut self, line: LineId) -> LineId {
        self.next_of[line.index()] = 0;
        self.resident -= 1;
        line
    }
}

impl Replacement for Belady {
    fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.next_of, universe);
    }

    /// # Panics
    /// When more accesses are made than were foretold.
    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        let next = self.next[self.now as usize];
        let mut outcome = Outcome::HIT;
        if self.next_of[line.index()] == 0 {
            outcome = Outcome::ADMITTED;
            if self.resident == self.capacity {
                outcome = Outcome::evicting(self.evict());
            }
            self.resident += 1;
        }
        self.schedule(line, next);
        self.now += 1;
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.next_of[line.index()] != 0
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let resident = self.next_of[line.index()] != 0;
        if resident {
            self.leave(line);
        }
        resident
    }

    fn resident(&self) -> u32 {
        self.resident
    }

    fn footprint(&self) -> Footprint {
        let heap = self.heap.capacity() as u64 * 8 + self.dead.capacity() as u64 * 4;
        Footprint { resident: heap, index: self.next_of.len() as u64 * 4 }
    }

    #[inline(always)]
    fn prefetch_far(&self, line: LineId) {
        prefetch(&self.next_of, line.index());
    }
}

#[cfg(test)]
mod tests;
