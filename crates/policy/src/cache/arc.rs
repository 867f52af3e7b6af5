//! ARC (Megiddo & Modha, FAST 2003): recency and frequency, balanced by which ghosts come back.
//!
//! T1: resident lines seen once lately, T2: seen again; B1, B2: their ghosts; p: the target of
//! |T1|.
//! 1. A hit in T1 or T2 moves the line to the newest end of T2.
//! 2. A ghost of B1 raises p by max(1, |B2|/|B1|), one of B2 lowers it by max(1, |B1|/|B2|); room
//!    is made by REPLACE, and the line enters T2.
//! 3. Any other miss: with |T1|+|B1| = c, the oldest of B1 is forgotten and REPLACE makes room, or,
//!    when B1 is empty, the oldest of T1 is evicted without a trace. Else with 2c lines in all, the
//!    oldest of B2 is forgotten; REPLACE makes room. The line enters T1.
//! 4. REPLACE: the oldest of T1 goes to B1 when |T1| > p, or |T1| = p and the line came from B2;
//!    else the oldest of T2 goes to B2.
//!
//! p is a real number, as in the paper and in libCacheSim 0.3.5, whose misses these are. After
//! discards room may be free while ghosts exist: then nothing is replaced, and the bounds on
//! ghosts hold all the same.
//!
//! T1 over B1 and T2 over B2 are one queue each, with a boundary (`lane.rs`): ghosts are made and
//! forgotten without touching them.
//!
//! State: rings of the next power of two above 1.25 · c and 2.5 · c slots, 15.5–31 B a cached line,
//! ghosts included; 4 B a distinct line. O(1) an access, amortised.

use super::arrivals::{Arrivals, check_capacity};
use super::pair::{AGAIN, ONCE, Pair, Place};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "arc",
    summary: "balances recency and frequency by which of its ghosts come back",
    source: "Megiddo & Modha, FAST 2003",
    settings: &[],
    build: Build::Cache(|geometry, _| {
        check_capacity("arc", geometry.lines, 2.0 * SLACK)?;
        Ok(Box::new(ArcPolicy::new(geometry.lines)))
    }),
};

/// Slots an entry. |T1|+|B1| ≤ c and 2c in all.
const SLACK: f64 = 1.25;

/// The four lists and the target.
#[derive(Debug)]
pub(crate) struct ArcPolicy {
    lanes: Pair,
    capacity: u32,
    target: f64,
}

impl ArcPolicy {
    /// An empty cache of `capacity` ≥ 1 lines.
    pub(crate) fn new(capacity: u32) -> ArcPolicy {
        assert!(capacity > 0, "a cache holds at least one line");
        let lanes = Pair::new(Arrivals::new(capacity, SLACK), Arrivals::new(2 * capacity, SLACK));
        ArcPolicy { lanes, capacity, target: 0.0 }
    }

    /// Turns one resident line into a ghost if the cache is full.
    #[inline(always)]
    fn replace(&mut self, from_b2: bool) -> Outcome {
        if self.lanes.resident() < self.capacity {
            return Outcome::ADMITTED;
        }
        let recent = self.lanes.lane(ONCE).resident();
        let over = f64::from(recent) > self.target;
        let at_target = from_b2 && f64::from(recent) == self.target;
        let from_t1 = recent > 0 && (over || at_target);
        Outcome::evicting(self.lanes.lane_mut(if from_t1 { ONCE } else { AGAIN }).demote())
    }

    /// Room for a line that nothing remembers.
    #[inline(always)]
    fn make_way(&mut self) -> Outcome {
        let once = self.lanes.lane(ONCE);
        if once.resident() + once.ghosts() == self.capacity {
            if once.ghosts() == 0 {
                return Outcome::evicting(self.lanes.lane_mut(ONCE).evict());
            }
            self.lanes.lane_mut(ONCE).forget();
        } else if self.lanes.remembered() == 2 * self.capacity {
            self.lanes.lane_mut(AGAIN).forget();
        }
        self.replace(false)
    }
}

impl Replacement for ArcPolicy {
    fn reserve(&mut self, universe: u32) {
        self.lanes.reserve(universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        let (at, outcome) = match self.lanes.find(line) {
            Place::Resident(at, position) => {
                self.lanes.lane_mut(at).remove(position);
                (AGAIN, Outcome::HIT)
            }
            Place::Ghost(at, position) => {
                self.target = self.lanes.adapted(self.target, at, self.capacity);
                let outcome = self.replace(at == AGAIN);
                self.lanes.lane_mut(at).remove(position);
                (AGAIN, outcome)
            }
            Place::Nowhere => (ONCE, self.make_way()),
        };
        self.lanes.arrive(at, line);
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
