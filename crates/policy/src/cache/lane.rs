//! A queue whose older part is remembered only: the newer entries of a log are resident, the older
//! ones are ghosts.
//!
//! ARC's T1 over B1 and T2 over B2, CAR's clocks over their histories, 2Q's A1in over A1out are
//! each *one* queue with a boundary: what leaves the resident part enters the ghosts at their
//! newest end. So a resident entry becomes a ghost, and a ghost is forgotten, by moving a boundary,
//! and no line's state is touched. LRU and FIFO are lanes without ghosts.
//!
//! The owner keeps the index from line to position (0: not here), one word of 4 B a distinct line,
//! tagged in its top bit with which of two lanes a line is in. An entry that has left by a boundary
//! is not erased there: its position is below the boundary, and positions are never used again.

use super::arrivals::{Arrivals, POSITION_END, rebase};
use std::hint::select_unpredictable;
use thermocline_units::LineId;

/// Mark in an index word: the line is in the second lane.
pub(crate) const SECOND: u32 = POSITION_END;

/// A log with a boundary between ghosts (older) and residents (newer).
#[derive(Debug)]
pub(crate) struct Lane {
    log: Arrivals,
    /// Entries below are ghosts.
    edge: u32,
    resident: u32,
    ghosts: u32,
    /// Tag of its positions in the index: 0 or [`SECOND`].
    tag: u32,
}

impl Lane {
    /// An empty lane on an empty log.
    pub(crate) fn new(log: Arrivals, tag: u32) -> Lane {
        Lane { edge: log.tail(), log, resident: 0, ghosts: 0, tag }
    }

    /// Resident entries.
    #[inline(always)]
    pub(crate) fn resident(&self) -> u32 {
        self.resident
    }

    /// Ghost entries.
    #[inline(always)]
    pub(crate) fn ghosts(&self) -> u32 {
        self.ghosts
    }

    /// True if `position`, from the index, is a resident entry's.
    #[inline(always)]
    pub(crate) fn holds(&self, position: u32) -> bool {
        position >= self.edge
    }

    /// True if `position`, from the index, is a resident's or a ghost's.
    #[inline(always)]
    pub(crate) fn remembers(&self, position: u32) -> bool {
        position >= self.log.tail()
    }

    /// True if the entry at `position` is the last that arrived.
    #[cfg(test)]
    pub(crate) fn is_last_arrival(&self, position: u32) -> bool {
        position + 1 == self.log.head()
    }

    /// True if `make_room` comes before the next arrival.
    #[inline(always)]
    pub(crate) fn needs_room(&self) -> bool {
        self.log.at_word_end()
    }

    /// Appends `line` as a resident and notes its position. The lane needs no room.
    #[inline(always)]
    pub(crate) fn push(&mut self, line: LineId, index: &mut [u32]) {
        index[line.index()] = self.tag | self.log.push(line);
        self.resident += 1;
    }

    /// The entry at `position` leaves; its index word is the caller's to change.
    #[inline(always)]
    pub(crate) fn remove(&mut self, position: u32) {
        self.log.kill(position);
        if position >= self.edge {
            self.resident -= 1;
        } else {
            self.ghosts -= 1;
        }
    }

    /// The oldest resident, with its position. There is one.
    #[inline(always)]
    pub(crate) fn oldest(&self) -> (u32, LineId) {
        debug_assert!(self.resident > 0, "no resident entry");
        let position = self.log.first_live(self.edge);
        (position, self.log.line(position))
    }

    /// Makes the oldest resident a ghost, the newest of them. There is a resident.
    #[inline(always)]
    pub(crate) fn demote(&mut self) -> LineId {
        let (position, line) = self.oldest();
        self.edge = position + 1;
        self.resident -= 1;
        self.ghosts += 1;
        line
    }

    /// Drops the oldest resident for good. There is one, and no ghost.
    #[inline(always)]
    pub(crate) fn evict(&mut self) -> LineId {
        debug_assert_eq!(self.ghosts, 0, "ghosts are older than what is evicted");
        let (position, line) = self.oldest();
        self.edge = position + 1;
        self.log.raise_tail(self.edge);
        self.resident -= 1;
        line
    }

    /// The entry at `position` leaves, or, when that is no resident's, the oldest resident does for
    /// good: whether it was a resident's, and the line that left. There is a resident, and no
    /// ghost. Which of the two it is cannot be foretold, so nothing here depends on a jump.
    #[inline(always)]
    pub(crate) fn replace(&mut self, position: u32) -> (bool, LineId) {
        debug_assert_eq!(self.ghosts, 0, "ghosts are older than what is evicted");
        let held = self.holds(position);
        let oldest = self.log.first_live(self.edge);
        let leaving = select_unpredictable(held, position, oldest);
        self.log.kill(leaving);
        self.edge = oldest + u32::from(!held);
        self.log.raise_tail(self.edge);
        self.resident -= 1;
        (held, self.log.line(leaving))
    }

    /// Forgets the oldest ghost. There is one.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        debug_assert!(self.ghosts > 0, "no ghost to forget");
        let position = self.log.first_live(self.log.tail());
        self.log.raise_tail(position + 1);
        self.ghosts -= 1;
    }

    /// Marks the entry at `position`, in a lane whose log has marks.
    #[inline(always)]
    pub(crate) fn mark(&mut self, position: u32) {
        self.log.mark(position);
    }

    /// True if the entry at `position` is marked.
    #[inline(always)]
    pub(crate) fn is_marked(&self, position: u32) -> bool {
        self.log.is_marked(position)
    }

    /// Asks for the index word of a line that becomes the oldest resident soon.
    #[inline(always)]
    pub(crate) fn prefetch_oldest(&self, index: &[u32]) {
        self.log.prefetch_index(self.edge, index);
    }

    fn pack_if_full(&mut self, index: &mut [u32]) {
        if self.log.is_full() {
            self.log.pack(self.resident + self.ghosts, index, self.tag);
            self.edge = self.log.head() - self.resident;
        }
        if self.log.at_word_end() {
            self.log.open_word();
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.log.bytes()
    }
}

/// Makes room for an arrival in the only lane of `index`.
#[cold]
pub(crate) fn make_room(lane: &mut Lane, index: &mut [u32]) {
    if lane.log.must_rebase() {
        let [by, _] = rebase(index, [Some(&mut lane.log), None]);
        lane.edge -= by;
    }
    lane.pack_if_full(index);
}

/// Makes room for an arrival in each of two lanes, the second tagged [`SECOND`].
#[cold]
pub(crate) fn make_room_in_both(first: &mut Lane, second: &mut Lane, index: &mut [u32]) {
    if first.log.must_rebase() || second.log.must_rebase() {
        let by = rebase(index, [Some(&mut first.log), Some(&mut second.log)]);
        first.edge -= by[0];
        second.edge -= by[1];
    }
    first.pack_if_full(index);
    second.pack_if_full(index);
}

#[cfg(test)]
mod tests;
