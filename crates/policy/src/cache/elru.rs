//! ELRU-n: of the lines unused for longest, evict the one that is shared least.
//!
//! 1. A hit moves the line to the newest end of one queue; a miss enters there.
//! 2. A full cache looks at the `n` oldest lines and evicts the one with the lowest share count
//!    ([`super::CachePolicy::set_shares`]); of equals the oldest. `n` = 1 is LRU.
//!
//! Source: SeaCache, Li et al., "Cooperative Storage-Level De-Duplication for I/O Reduction in
//! Virtualized Data Centers", 2012, section III-E. Printed is the rule; which count (of a host's
//! volumes, or of all) is the caller's choice. Without counts it is LRU.
//!
//! State: 18 B a cached line; 4 B a distinct line. A miss costs O(n).

use super::{Links, NONE, Outcome, Queue, Replacement, Slots};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "elru",
    summary: "evicts the least shared of the lines unused for longest",
    source: "SeaCache, Li et al. 2012, III-E",
    settings: &[Setting {
        name: "n",
        default: "25",
        unit: "lines, 1 to 4096",
        help: "how many of the oldest lines are compared; 1 is lru",
    }],
    build: Build::Cache(|geometry, settings| {
        let depth = settings.count("n", 1, 4096)? as u32;
        Ok(Box::new(Elru::new(geometry.lines, depth)))
    }),
};

/// LRU that spares shared lines.
#[derive(Debug)]
pub(crate) struct Elru {
    slots: Slots,
    links: Links,
    queue: Queue,
    /// Share count of the line in each slot.
    shares: Vec<u16>,
    depth: u32,
}

impl Elru {
    /// An empty cache of `capacity` ≥ 1 lines that compares `depth` ≥ 1 of them.
    pub(crate) fn new(capacity: u32, depth: u32) -> Elru {
        assert!(capacity > 0 && depth > 0, "a cache holds at least one line");
        Elru {
            slots: Slots::new(capacity),
            links: Links::new(capacity),
            queue: Queue::new(),
            shares: vec![0; capacity as usize],
            depth,
        }
    }

    /// The slot to free: the least shared of the oldest.
    fn victim(&self) -> u32 {
        let mut best = self.queue.back;
        let mut at = best;
        for _ in 1..self.depth.min(self.queue.len) {
            if self.shares[best as usize] == 0 {
                break;
            }
            at = self.links.newer(at);
            if self.shares[at as usize] < self.shares[best as usize] {
                best = at;
            }
        }
        best
    }
}

impl Replacement for Elru {
    fn reserve(&mut self, universe: u32) {
        self.slots.reserve(universe);
    }

    fn access(&mut self, line: LineId) -> Outcome {
        let slot = self.slots.slot(line);
        if slot != NONE {
            self.links.move_to_front(&mut self.queue, slot);
            return Outcome::HIT;
        }
        let mut outcome = Outcome::ADMITTED;
        if self.queue.len as usize == self.shares.len() {
            let victim = self.victim();
            self.links.remove(&mut self.queue, victim);
            outcome = Outcome::evicting(self.slots.release(victim));
        }
        let slot = self.slots.take(line);
        self.shares[slot as usize] = 0;
        self.links.push_front(&mut self.queue, slot);
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.slots.slot(line) != NONE
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let slot = self.slots.slot(line);
        if slot != NONE {
            self.links.remove(&mut self.queue, slot);
            self.slots.release(slot);
        }
        slot != NONE
    }

    fn set_shares(&mut self, line: LineId, count: u32) {
        let slot = self.slots.slot(line);
        if slot != NONE {
            self.shares[slot as usize] = count.min(u32::from(u16::MAX)) as u16;
        }
    }

    fn resident(&self) -> u32 {
        self.queue.len
    }

    fn footprint(&self) -> Footprint {
        let (slots, index) = self.slots.bytes();
        let shares = self.shares.len() as u64 * 2;
        Footprint { resident: slots + self.links.bytes() + shares, index }
    }

    #[inline(always)]
    fn prefetch_far(&self, line: LineId) {
        self.slots.prefetch(line);
    }
}

#[cfg(test)]
mod tests;
