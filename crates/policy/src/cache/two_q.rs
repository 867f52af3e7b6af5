//! 2Q, full version (Johnson & Shasha, VLDB 1994): a line must come back after it has left a short
//! FIFO before it may stay.
//!
//! 1. A hit in Am (LRU) moves the line to its newest end. A hit in A1in (FIFO) changes nothing.
//! 2. A miss takes free room, or reclaims: when A1in has more than `kin` lines its oldest leaves
//!    and is remembered in A1out, the oldest of more than `kout` ghosts being forgotten; else the
//!    oldest of Am leaves for good.
//! 3. A line remembered in A1out enters Am, any other A1in.
//!
//! The defaults are libCacheSim 0.3.5's, whose misses these are; shares are rounded down as there.
//!
//! A1in over A1out is one queue with a boundary (`lane.rs`), so A1out costs 4 B an entry and no
//! work.
//!
//! State: rings of the next power of two above 1.25 · (1 + `kout`) and 2 slots a line, 16–32 B
//! a cached line with the defaults; 4 B a distinct line. O(1) an access, amortised.

use super::arrivals::{Arrivals, check_capacity};
use super::pair::{AGAIN, ONCE, Pair, Place};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Geometry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "2q",
    summary: "new lines pass a FIFO and its ghosts before the LRU queue takes them",
    source: "Johnson & Shasha, VLDB 1994 (full version)",
    settings: &[
        Setting {
            name: "kin",
            default: "0.25",
            unit: "fraction of the cache",
            help: "lines that A1in keeps while Am could give one",
        },
        Setting {
            name: "kout",
            default: "0.5",
            unit: "fraction of the cache",
            help: "lines that A1out remembers",
        },
    ],
    build: Build::Cache(|geometry, settings| Ok(Box::new(TwoQ::from(geometry, settings)?))),
};

/// Slots an entry of A1in and A1out; holes are promoted ghosts.
const SLACK_IN: f64 = 1.25;
/// Slots an entry of Am; every hit leaves a hole.
const SLACK_MAIN: f64 = 2.0;

/// The queues and their bounds, in lines.
#[derive(Debug)]
pub(crate) struct TwoQ {
    lanes: Pair,
    capacity: u32,
    kin: u32,
    kout: u32,
}

impl TwoQ {
    fn from(geometry: &Geometry, settings: &Settings) -> Result<TwoQ, SettingsError> {
        let lines = f64::from(geometry.lines);
        let kin = (lines * settings.number("kin", 0.0, 1.0)?) as u32;
        let share = settings.number("kout", 0.0, 4.0)?;
        let kout = (lines * share) as u32;
        check_capacity("2q", geometry.lines, SLACK_MAIN.max(SLACK_IN * (1.0 + share)))?;
        Ok(TwoQ::new(geometry.lines, kin, kout))
    }

    /// An empty cache of `capacity` ≥ 1 lines with the paper's Kin and Kout in lines.
    fn new(capacity: u32, kin: u32, kout: u32) -> TwoQ {
        assert!(capacity > 0, "a cache holds at least one line");
        let once = Arrivals::new(capacity + kout, SLACK_IN);
        let again = Arrivals::new(capacity, SLACK_MAIN);
        TwoQ { lanes: Pair::new(once, again), capacity, kin, kout }
    }

    #[inline(always)]
    fn reclaim(&mut self) -> LineId {
        let once = self.lanes.lane_mut(ONCE);
        if once.resident() <= self.kin {
            return self.lanes.lane_mut(AGAIN).evict();
        }
        let victim = once.demote();
        if once.ghosts() > self.kout {
            once.forget();
        }
        victim
    }
}

impl Replacement for TwoQ {
    fn reserve(&mut self, universe: u32) {
        self.lanes.reserve(universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        let at = match self.lanes.find(line) {
            Place::Resident(ONCE, _) => return Outcome::HIT,
            Place::Resident(_, position) => {
                self.lanes.lane_mut(AGAIN).remove(position);
                self.lanes.arrive(AGAIN, line);
                return Outcome::HIT;
            }
            Place::Ghost(_, position) => {
                self.lanes.lane_mut(ONCE).remove(position);
                AGAIN
            }
            Place::Nowhere => ONCE,
        };
        let mut outcome = Outcome::ADMITTED;
        if self.lanes.resident() == self.capacity {
            outcome = Outcome::evicting(self.reclaim());
        }
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

#[cfg(test)]
mod tests;
