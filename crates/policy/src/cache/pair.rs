//! Two lanes under one index: the body of 2Q, ARC and CAR.
//!
//! Lane 0 has what was seen once, lane 1 what was seen again; each with its ghosts. A line is in at
//! most one of the two, and its index word says where: lane in the top bit, position below.

use super::arrivals::Arrivals;
use super::lane::{Lane, SECOND, make_room_in_both};
use thermocline_units::{LineId, prefetch};

/// Seen once.
pub(crate) const ONCE: usize = 0;
/// Seen again.
pub(crate) const AGAIN: usize = 1;

/// The place where a line was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Resident in a lane at a position.
    Resident(usize, u32),
    /// A ghost of a lane at a position.
    Ghost(usize, u32),
    /// Not remembered.
    Nowhere,
}

/// Two lanes and where each line is in them.
#[derive(Debug)]
pub(crate) struct Pair {
    index: Vec<u32>,
    lanes: [Lane; 2],
}

impl Pair {
    /// Two empty lanes.
    pub(crate) fn new(once: Arrivals, again: Arrivals) -> Pair {
        Pair { index: Vec::new(), lanes: [Lane::new(once, 0), Lane::new(again, SECOND)] }
    }

    pub(crate) fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    /// Finds `line`.
    #[inline(always)]
    pub(crate) fn find(&self, line: LineId) -> Place {
        let word = self.index[line.index()];
        let (at, position) = ((word >= SECOND) as usize, word % SECOND);
        let lane = &self.lanes[at];
        if lane.holds(position) {
            Place::Resident(at, position)
        } else if lane.remembers(position) {
            Place::Ghost(at, position)
        } else {
            Place::Nowhere
        }
    }

    /// A lane, to look at.
    #[inline(always)]
    pub(crate) fn lane(&self, at: usize) -> &Lane {
        &self.lanes[at]
    }

    /// A lane, to change.
    #[inline(always)]
    pub(crate) fn lane_mut(&mut self, at: usize) -> &mut Lane {
        &mut self.lanes[at]
    }

    /// `line`, which is in neither lane any more, arrives in lane `at`.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, at: usize, line: LineId) {
        if self.lanes[at].needs_room() {
            let [once, again] = &mut self.lanes;
            make_room_in_both(once, again, &mut self.index);
        }
        self.lanes[at].push(line, &mut self.index);
    }

    /// Lines resident in both.
    #[inline(always)]
    pub(crate) fn resident(&self) -> u32 {
        self.lanes[ONCE].resident() + self.lanes[AGAIN].resident()
    }

    /// Residents and ghosts of both.
    #[inline(always)]
    pub(crate) fn remembered(&self) -> u32 {
        self.resident() + self.lanes[ONCE].ghosts() + self.lanes[AGAIN].ghosts()
    }

    /// The target of lane 0's residents, moved by a ghost of lane `at` that came back: towards `at`
    /// by how many times as many ghosts the other lane has, by 1 at least.
    #[inline(always)]
    pub(crate) fn adapted(&self, target: f64, at: usize, capacity: u32) -> f64 {
        let ghosts = |at: usize| f64::from(self.lanes[at].ghosts());
        let step = (ghosts(1 - at) / ghosts(at)).max(1.0);
        if at == ONCE { (target + step).min(f64::from(capacity)) } else { (target - step).max(0.0) }
    }

    pub(crate) fn contains(&self, line: LineId) -> bool {
        matches!(self.find(line), Place::Resident(..))
    }

    /// Drops `line` if it is resident; a ghost stays.
    pub(crate) fn invalidate(&mut self, line: LineId) -> bool {
        let Place::Resident(at, position) = self.find(line) else { return false };
        self.lanes[at].remove(position);
        self.index[line.index()] = 0;
        true
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, line: LineId) {
        prefetch(&self.index, line.index());
    }

    /// Asks for the index word of a line that is the oldest of lane `at` soon.
    #[inline(always)]
    pub(crate) fn prefetch_oldest(&self, at: usize) {
        self.lanes[at].prefetch_oldest(&self.index);
    }

    pub(crate) fn footprint(&self) -> crate::Footprint {
        let [once, again] = &self.lanes;
        crate::Footprint {
            resident: once.bytes() + again.bytes(),
            index: self.index.len() as u64 * 4,
        }
    }
}
