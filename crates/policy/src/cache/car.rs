//! CAR (Bansal & Modha, FAST 2004): ARC's balance, with clocks instead of LRU lists.
//!
//! T1, T2: clocks of resident lines, with a reference bit each; B1, B2: their ghosts; p: the target
//! of |T1|.
//! 1. A hit sets the line's reference bit and moves nothing.
//! 2. A miss of a full cache replaces: while |T1| ≥ max(1, p), the head of T1 goes to B1 if its bit
//!    is clear, else to the tail of T2 with its bit cleared; otherwise the head of T2 goes to B2 if
//!    its bit is clear, else to the tail of T2, cleared. The first line that becomes a ghost ends
//!    it.
//! 3. For a line that no ghost remembers, the directory is then bounded: with |T1|+|B1| = c the
//!    oldest of B1 is forgotten, else with 2c lines in all the oldest of B2. The line enters T1.
//! 4. A ghost of B1 raises p by max(1, |B2|/|B1|), one of B2 lowers it by max(1, |B1|/|B2|), with
//!    the lists as step 2 left them; the line enters T2.
//!
//! libCacheSim 0.3.5 departs from step 3: it forgets the oldest of B1 after ghost hits too and
//! never forgets one of B2, so its directory outgrows 2c and its misses differ. p is a real number
//! here, quotients are whole numbers there.
//!
//! A clock's tail is where lines arrive and its hand is at the oldest, so a clock is a queue whose
//! referenced oldest lines arrive again. After discards room may be free while ghosts exist: the
//! bounds of step 3 hold all the same.
//!
//! State: rings of the next power of two above 1.25 · c and 2.5 · c slots with a mark each, 16–32 B
//! a cached line, ghosts included; 4 B a distinct line. O(1) an access, amortised over the hits
//! that set bits.

use super::arrivals::{Arrivals, check_capacity};
use super::pair::{AGAIN, ONCE, Pair, Place};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "car",
    summary: "ARC's balance of recency and frequency, on two clocks",
    source: "Bansal & Modha, FAST 2004",
    settings: &[],
    build: Build::Cache(|geometry, _| {
        check_capacity("car", geometry.lines, 2.0 * SLACK)?;
        Ok(Box::new(Car::new(geometry.lines)))
    }),
};

/// Slots an entry. |T1|+|B1| ≤ c and 2c in all.
const SLACK: f64 = 1.25;

/// The two clocks with their ghosts, and the target.
#[derive(Debug)]
pub(crate) struct Car {
    lanes: Pair,
    capacity: u32,
    target: f64,
}

impl Car {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> Car {
        assert!(capacity > 0, "a cache holds at least one line");
        let once = Arrivals::new(capacity, SLACK).with_marks();
        let again = Arrivals::new(2 * capacity, SLACK).with_marks();
        Car { lanes: Pair::new(once, again), capacity, target: 0.0 }
    }

    /// Step 2.
    #[inline(always)]
    fn replace(&mut self) -> LineId {
        loop {
            let recent = f64::from(self.lanes.lane(ONCE).resident());
            let at = if recent >= self.target.max(1.0) { ONCE } else { AGAIN };
            self.lanes.prefetch_oldest(at);
            let (position, line) = self.lanes.lane(at).oldest();
            if !self.lanes.lane(at).is_marked(position) {
                return self.lanes.lane_mut(at).demote();
            }
            self.lanes.lane_mut(at).remove(position);
            self.lanes.arrive(AGAIN, line);
        }
    }

    /// Step 3: at most c lines in T1 and B1, 2c in all, once the new one is in.
    #[inline(always)]
    fn bound_directory(&mut self) {
        let once = self.lanes.lane(ONCE);
        if once.resident() + once.ghosts() == self.capacity {
            self.lanes.lane_mut(ONCE).forget();
        } else if self.lanes.remembered() == 2 * self.capacity {
            self.lanes.lane_mut(AGAIN).forget();
        }
    }
}

impl Replacement for Car {
    fn reserve(&mut self, universe: u32) {
        self.lanes.reserve(universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        let place = self.lanes.find(line);
        if let Place::Resident(at, position) = place {
            self.lanes.lane_mut(at).mark(position);
            return Outcome::HIT;
        }
        let mut outcome = Outcome::ADMITTED;
        if self.lanes.resident() == self.capacity {
            outcome = Outcome::evicting(self.replace());
        }
        // Replacing may have packed the ghost to another position, but never forgets it.
        if let Place::Ghost(..) = place
            && let Place::Ghost(at, position) = self.lanes.find(line)
        {
            self.target = self.lanes.adapted(self.target, at, self.capacity);
            self.lanes.lane_mut(at).remove(position);
            self.lanes.arrive(AGAIN, line);
        } else {
            self.bound_directory();
            self.lanes.arrive(ONCE, line);
        }
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.lanes.contains(line)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        self.lanes.invalidate(line)
    }

    fn resident(&self) -> u32 {
        self.lanes.resident()
    }

    fn footprint(&self) -> Footprint {
        self.lanes.footprint()
    }

    #[inline(always)]
    fn prefetch_far(&self, line: LineId) {
        self.lanes.prefetch(line);
    }
}
