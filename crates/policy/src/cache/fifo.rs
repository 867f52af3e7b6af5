//! FIFO: evict the line admitted longest ago.
//!
//! 1. A hit changes nothing.
//! 2. A miss enters at the newest end of one queue; a full cache evicts the oldest.
//!
//! State: a ring of the next power of two above 1.25 slots a line (holes come from discards only),
//! 5.2–10.3 B a cached line; 4 B a distinct line. O(1) an access, amortised.

use super::arrivals::check_capacity;
use super::single::Single;
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "fifo",
    summary: "evicts the line admitted longest ago",
    source: "textbook",
    settings: &[],
    build: Build::Cache(|geometry, _| {
        check_capacity("fifo", geometry.lines, SLACK)?;
        Ok(Box::new(Fifo::new(geometry.lines)))
    }),
};

/// Slots a line: at most four entries are moved a discard.
const SLACK: f64 = 1.25;

/// First in, first out.
#[derive(Debug)]
pub(crate) struct Fifo(Single);

impl Fifo {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> Fifo {
        Fifo(Single::new(capacity, SLACK))
    }
}

impl Replacement for Fifo {
    fn reserve(&mut self, universe: u32) {
        self.0.reserve(universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        if self.0.find(line).is_some() {
            return Outcome::HIT;
        }
        let outcome = self.0.evict_if_full().map_or(Outcome::ADMITTED, Outcome::evicting);
        self.0.arrive(line);
        outcome
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
