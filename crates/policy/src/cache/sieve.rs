//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: NSDI 2024): lazy promotion and quick demotion with
//! one queue and one hand. Weak on loops and scans, so do not use it alone below a file system.
//!
//! 1. A hit sets the line's visited bit and moves nothing.
//! 2. A miss of a full cache moves the hand from where it stopped towards the newest line: visited
//!    lines lose their bit and stay in place, the first unvisited one is evicted and the hand stops
//!    past it. A hand that has passed the newest line starts from the oldest again.
//! 3. The line enters at the newest end, unvisited.
//!
//! The queue is a log with holes, and the hand passes up to 64 lines a step. When the evicted line
//! was the newest, the hand restarts from the oldest even though newer lines arrive meanwhile, as
//! in the authors' linked list, and the misses are libCacheSim 0.3.5's.
//!
//! State: a ring of the next power of two above 2 slots a line, 8.5–17 B a cached line; 4 B a
//! distinct line. O(1) an access, amortised, as far as lines are visited between two turns of the
//! hand.

use super::arrivals::{Arrivals, check_capacity, rebase};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::{LineId, prefetch};

pub(crate) const ENTRY: Entry = Entry {
    name: "sieve",
    summary: "one queue, one bit a line, one hand that evicts the unvisited in place",
    source: "Zhang et al., NSDI 2024",
    settings: &[],
    build: Build::Cache(|geometry, _| {
        check_capacity("sieve", geometry.lines, SLACK)?;
        Ok(Box::new(Sieve::new(geometry.lines)))
    }),
};

/// Slots a line: at most one entry is moved an arrival.
const SLACK: f64 = 2.0;

/// The queue, whose marks are the visited bits, and the hand.
#[derive(Debug)]
pub(crate) struct Sieve {
    /// Position of each line in the queue. A line that has left may keep its old one: it then is
    /// below the tail or not alive.
    index: Vec<u32>,
    queue: Arrivals,
    /// Position of the hand, below or at a live entry; 0 for "from the oldest".
    hand: u32,
    resident: u32,
    capacity: u32,
}

impl Sieve {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> Sieve {
        assert!(capacity > 0, "a cache holds at least one line");
        let queue = Arrivals::new(capacity, SLACK).with_marks();
        Sieve { index: Vec::new(), queue, hand: 0, resident: 0, capacity }
    }

    /// Both halves are looked at always: which of them fails is as good as random, and one
    /// condition is guessed wrong less often than two.
    #[inline(always)]
    fn holds(&self, position: u32) -> bool {
        (position >= self.queue.tail()) & self.queue.lives(position)
    }

    #[inline(always)]
    fn evict(&mut self) -> LineId {
        let from = self.hand.max(self.queue.tail());
        let found = self.queue.first_unmarked_in_word(from);
        let victim = found.unwrap_or_else(|| self.search(from));
        self.remove(victim);
        self.hand = if self.any_after(victim) { victim + 1 } else { 0 };
        self.queue.line(victim)
    }

    /// The first unvisited line at or after `from`, or else from the oldest on; when all were
    /// visited, all bits are clear by then.
    #[inline(never)]
    fn search(&mut self, from: u32) -> u32 {
        let found = self.queue.first_unmarked(from);
        let found = found.or_else(|| self.queue.first_unmarked(self.queue.tail()));
        let found = found.or_else(|| self.queue.first_unmarked(self.queue.tail()));
        found.expect("a full cache has a line without its bit after one turn")
    }

    /// True if any line is newer than the one that was at `position`. Nearly always the last that
    /// arrived is.
    #[inline(always)]
    fn any_after(&self, position: u32) -> bool {
        let last = self.queue.head() - 1;
        position < last && (self.queue.lives(last) || self.queue.any_live_from(position + 1))
    }

    #[inline(always)]
    fn remove(&mut self, position: u32) {
        self.queue.kill(position);
        self.resident -= 1;
    }

    /// Raises the queue's lower bound, which evictions leave behind: where the victim is, is as
    /// good as random, so they do not ask for the oldest.
    fn raise_tail(&mut self) {
        let none = self.resident == 0;
        let tail = if none { self.queue.head() } else { self.queue.first_live(self.queue.tail()) };
        self.queue.raise_tail(tail);
    }

    /// Makes room for an arrival.
    #[cold]
    fn make_room(&mut self) {
        self.raise_tail();
        if self.queue.must_rebase() {
            let [by, _] = rebase(&mut self.index, [Some(&mut self.queue), None]);
            self.hand = self.hand.saturating_sub(by);
        }
        if self.queue.is_full() {
            self.pack();
        }
        if self.queue.at_word_end() {
            self.queue.open_word();
        }
    }

    /// Packs; the hand stays before the same line.
    fn pack(&mut self) {
        let before = self.queue.live_from(self.hand.max(self.queue.tail()));
        self.queue.pack(self.resident, &mut self.index, 0);
        self.hand = if self.hand == 0 { 0 } else { self.queue.head() - before };
    }
}

impl Replacement for Sieve {
    fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        let position = self.index[line.index()];
        if self.holds(position) {
            self.queue.mark(position);
            return Outcome::HIT;
        }
        let mut outcome = Outcome::ADMITTED;
        if self.resident == self.capacity {
            outcome = Outcome::evicting(self.evict());
        }
        if self.queue.at_word_end() {
            self.make_room();
        }
        self.index[line.index()] = self.queue.push(line);
        self.resident += 1;
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.holds(self.index[line.index()])
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let position = self.index[line.index()];
        let resident = self.holds(position);
        if resident {
            self.remove(position);
            if !self.queue.any_live_from(self.hand.max(self.queue.tail())) {
                self.hand = 0; // the line before the hand was the newest
            }
        }
        resident
    }

    fn resident(&self) -> u32 {
        self.resident
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: self.queue.bytes(), index: self.index.len() as u64 * 4 }
    }

    #[inline(always)]
    fn prefetch_far(&self, line: LineId) {
        prefetch(&self.index, line.index());
    }
}

#[cfg(test)]
mod tests;
