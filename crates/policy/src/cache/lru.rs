//! LRU: evict the line whose last access is longest ago.
//!
//! 1. A hit moves the line to the newest end of one queue.
//! 2. A miss enters there; a full cache evicts the oldest.
//!
//! The queue is a log (`arrivals.rs`): the one random memory access of a hit or a miss is the
//! line's index word, which the batch has asked for long before.
//!
//! State: a ring of the next power of two above 2 slots a line, 8.25–16.5 B a cached line; 4 B a
//! distinct line. O(1) an access, amortised.

use super::arrivals::{Arrivals, check_capacity};
use super::lane::{Lane, make_room};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::{LineId, prefetch};

pub(crate) const ENTRY: Entry = Entry {
    name: "lru",
    summary: "evicts the line unused for longest",
    source: "textbook; the baseline of vFRM",
    settings: &[],
    build: Build::Cache(|geometry, _| {
        check_capacity("lru", geometry.lines, SLACK)?;
        Ok(Box::new(Lru::new(geometry.lines)))
    }),
};

/// Slots a line: at most one entry is moved an arrival.
const SLACK: f64 = 2.0;

/// Least recently used.
#[derive(Debug)]
pub(crate) struct Lru {
    /// Position of each line in the queue; 0 for none.
    index: Vec<u32>,
    queue: Lane,
    capacity: u32,
}

impl Lru {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> Lru {
        assert!(capacity > 0, "a cache holds at least one line");
        Lru { index: Vec::new(), queue: Lane::new(Arrivals::new(capacity, SLACK), 0), capacity }
    }
}

impl Replacement for Lru {
    fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        let position = self.index[line.index()];
        let mut outcome = Outcome::HIT;
        if self.queue.holds(position) {
            if self.queue.is_last_arrival(position) {
                return Outcome::HIT;
            }
            self.queue.remove(position);
        } else if self.queue.resident() == self.capacity {
            outcome = Outcome::evicting(self.queue.evict());
        } else {
            outcome = Outcome::ADMITTED;
        }
        if self.queue.needs_room() {
            make_room(&mut self.queue, &mut self.index);
        }
        self.queue.push(line, &mut self.index);
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.queue.holds(self.index[line.index()])
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let position = std::mem::take(&mut self.index[line.index()]);
        let resident = self.queue.holds(position);
        if resident {
            self.queue.remove(position);
        }
        resident
    }

    fn resident(&self) -> u32 {
        self.queue.resident()
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: self.queue.bytes(), index: self.index.len() as u64 * 4 }
    }

    #[inline(always)]
    fn prefetch_far(&self, line: LineId) {
        prefetch(&self.index, line.index());
    }
}
