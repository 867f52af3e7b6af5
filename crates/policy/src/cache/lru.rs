//! LRU: evict the line whose last access is longest ago.
//!
//! 1. A hit moves the line to the front of one queue.
//! 2. A miss enters at the front; a full cache evicts the back.
//!
//! State: 16 B a cached line, 4 B a distinct line. O(1) an access.

use super::{Links, NONE, Outcome, Queue, Replacement, Slots};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "lru",
    summary: "evicts the line unused for longest",
    source: "textbook; the baseline of 001 and 004",
    settings: &[],
    build: Build::Cache(|geometry, _| Ok(Box::new(Lru::new(geometry.lines)))),
};

/// Least recently used.
#[derive(Debug)]
pub(crate) struct Lru {
    slots: Slots,
    links: Links,
    queue: Queue,
    capacity: u32,
}

impl Lru {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> Lru {
        assert!(capacity > 0, "a cache holds at least one line");
        Lru {
            slots: Slots::new(capacity),
            links: Links::new(capacity),
            queue: Queue::new(),
            capacity,
        }
    }
}

impl Replacement for Lru {
    fn reserve(&mut self, universe: u32) {
        self.slots.reserve(universe);
    }

    #[inline]
    fn access(&mut self, line: LineId) -> Outcome {
        let slot = self.slots.slot(line);
        if slot != NONE {
            self.links.move_to_front(&mut self.queue, slot);
            return Outcome::HIT;
        }
        let mut outcome = Outcome::ADMITTED;
        if self.queue.len == self.capacity {
            let victim = self.links.pop_back(&mut self.queue);
            outcome = Outcome::evicting(self.slots.release(victim));
        }
        let slot = self.slots.take(line);
        self.links.push_front(&mut self.queue, slot);
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.slots.slot(line) != NONE
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let slot = self.slots.slot(line);
        if slot == NONE {
            return false;
        }
        self.links.remove(&mut self.queue, slot);
        self.slots.release(slot);
        true
    }

    fn resident(&self) -> u32 {
        self.queue.len
    }

    fn footprint(&self) -> Footprint {
        let (resident, index) = self.slots.bytes();
        Footprint { resident: resident + self.links.bytes(), index }
    }

    #[inline]
    fn prefetch_far(&self, line: LineId) {
        self.slots.prefetch(line);
    }

    #[inline]
    fn prefetch_near(&self, line: LineId) {
        let slot = self.slots.slot(line);
        if slot != NONE {
            self.links.prefetch(slot);
        }
    }
}
