//! One lane under one index: the body of FIFO and LRU.

use super::Outcome;
use super::arrivals::Arrivals;
use super::lane::{Lane, make_room};
use crate::Footprint;
use std::hint::select_unpredictable;
use thermocline_units::{LineId, prefetch};

/// One lane without ghosts, bounded, and where each line is in it.
#[derive(Debug)]
pub(crate) struct Single {
    /// Position of each line in the lane; 0 for none.
    index: Vec<u32>,
    lane: Lane,
    capacity: u32,
}

impl Single {
    /// An empty lane for `capacity` ≥ 1 lines, with `slack` slots a line.
    pub(crate) fn new(capacity: u32, slack: f64) -> Single {
        assert!(capacity > 0, "a cache holds at least one line");
        Single { index: Vec::new(), lane: Lane::new(Arrivals::new(capacity, slack), 0), capacity }
    }

    pub(crate) fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    /// Position of `line`, if it is resident.
    #[inline(always)]
    pub(crate) fn find(&self, line: LineId) -> Option<u32> {
        let position = self.index[line.index()];
        self.lane.holds(position).then_some(position)
    }

    /// The entry at `position` leaves, and its line arrives again next.
    #[inline(always)]
    pub(crate) fn lift(&mut self, position: u32) {
        self.lane.remove(position);
    }

    /// Drops the oldest line if there is no room for another.
    #[inline(always)]
    pub(crate) fn evict_if_full(&mut self) -> Option<LineId> {
        self.is_full().then(|| self.lane.evict())
    }

    /// True if there is no room for another line.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.lane.resident() == self.capacity
    }

    /// `line` becomes the newest of a full lane, and the oldest leaves unless `line` was here:
    /// which of these happened.
    #[inline(always)]
    pub(crate) fn renew(&mut self, line: LineId) -> Outcome {
        if self.lane.needs_room() {
            make_room(&mut self.lane, &mut self.index);
        }
        let (held, left) = self.lane.replace(self.index[line.index()]);
        self.lane.push(line, &mut self.index);
        select_unpredictable(held, Outcome::HIT, Outcome::evicting(left))
    }

    /// `line`, which is not resident, becomes the newest.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, line: LineId) {
        if self.lane.needs_room() {
            make_room(&mut self.lane, &mut self.index);
        }
        self.lane.push(line, &mut self.index);
    }

    /// Drops `line` if it is resident.
    pub(crate) fn invalidate(&mut self, line: LineId) -> bool {
        let position = self.find(line);
        self.index[line.index()] = 0;
        position.inspect(|&position| self.lane.remove(position)).is_some()
    }

    #[inline(always)]
    pub(crate) fn resident(&self) -> u32 {
        self.lane.resident()
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, line: LineId) {
        prefetch(&self.index, line.index());
    }

    pub(crate) fn footprint(&self) -> Footprint {
        Footprint { resident: self.lane.bytes(), index: self.index.len() as u64 * 4 }
    }
}
