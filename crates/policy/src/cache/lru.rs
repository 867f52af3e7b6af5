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

use super::arrivals::check_capacity;
use super::single::Single;
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::LineId;

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
pub(crate) struct Lru(Single);

impl Lru {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> Lru {
        Lru(Single::new(capacity, SLACK))
    }

    /// An access while there is room.
    #[cold]
    fn fill(&mut self, line: LineId) -> Outcome {
        let outcome = match self.0.find(line) {
            Some(position) => {
                self.0.lift(position);
                Outcome::HIT
            }
            None => Outcome::ADMITTED,
        };
        self.0.arrive(line);
        outcome
    }
}

impl Replacement for Lru {
    fn reserve(&mut self, universe: u32) {
        self.0.reserve(universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        if self.0.is_full() { self.0.renew(line) } else { self.fill(line) }
    }

    fn contains(&self, line: LineId) -> bool {
        self.0.find(line).is_some()
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        self.0.invalidate(line)
    }

    fn resident(&self) -> u32 {
        self.0.resident()
    }

    fn footprint(&self) -> Footprint {
        self.0.footprint()
    }

    #[inline(always)]
    fn prefetch_far(&self, line: LineId) {
        self.0.prefetch(line);
    }
}
