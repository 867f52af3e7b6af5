//! FIFO: evict the line admitted longest ago.
//!
//! 1. A hit changes nothing.
//! 2. A miss enters at the newest end of one queue; a full cache evicts the oldest.
//!
//! State: a ring of the next power of two above 1.25 slots a line (holes come from discards only),
//! 5.2–10.3 B a cached line; 4 B a distinct line. O(1) an access, amortised.

use super::arrivals::{Arrivals, check_capacity};
use super::lane::{Lane, make_room};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::{LineId, prefetch};

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
pub(crate) struct Fifo {
    /// Position of each line in the queue; 0 for none.
    index: Vec<u32>,
    queue: Lane,
    capacity: u32,
}

impl Fifo {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> Fifo {
        assert!(capacity > 0, "a cache holds at least one line");
        Fifo { index: Vec::new(), queue: Lane::new(Arrivals::new(capacity, SLACK), 0), capacity }
    }
}

impl Replacement for Fifo {
    fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        if self.queue.holds(self.index[line.index()]) {
            return Outcome::HIT;
        }
        let mut outcome = Outcome::ADMITTED;
        if self.queue.resident() == self.capacity {
            outcome = Outcome::evicting(self.queue.evict());
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
