//! Locks of ranges of lines, held in one of four ways.
//!
//! Reads share. A write is alone among reads and writes. A drop (zeroes, discards) is alone. Taking
//! a line back to the slow device goes on beside reads and writes: a write that comes in between
//! keeps the line dirty; but not beside a drop, whose zeroes the old contents could overtake, and
//! not twice.
//!
//! Nobody overtakes who waits for the same lines, so nobody waits forever. O(held) to try, as there
//! are a few hundred at most; the machine above bounds them.

use std::collections::VecDeque;
use std::ops::Range;
use thermocline_units::Slab;
use thermocline_units::mutants::mutant;

/// Manner in which lines are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Read,
    Write,
    Drop,
    Back,
}

impl Hold {
    fn goes_beside(self, other: Hold) -> bool {
        use Hold::{Back, Drop, Read, Write};
        let parted = matches!((self, other), (Back, Drop) | (Drop, Back));
        matches!((self, other), (Read, Read) | (Back, Read | Write) | (Read | Write, Back))
            || parted && mutant("drop_beside_taking_back")
    }
}

#[derive(Debug)]
struct Held {
    lines: Range<u32>,
    hold: Hold,
}

impl Held {
    fn is_in_the_way_of(&self, lines: &Range<u32>, hold: Hold) -> bool {
        self.lines.start < lines.end && lines.start < self.lines.end && !self.hold.goes_beside(hold)
    }
}

/// Locks on lines, for requests and for moves.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Slab<Held>,
    /// Waiters with the locks they want, in the order in which they came.
    waiting: VecDeque<(u32, Held)>,
}

impl Locks {
    fn is_free(&self, lines: &Range<u32>, hold: Hold) -> bool {
        !self.held.iter().any(|(_, held)| held.is_in_the_way_of(lines, hold))
    }

    /// True if nobody holds lines beside somebody who excludes that. O(held²), for assertions.
    fn are_apart(&self) -> bool {
        let meets = |one: u32, held: &Held| {
            let mut others = self.held.iter().filter(|(other, _)| *other > one);
            others.any(|(_, other)| other.is_in_the_way_of(&held.lines, held.hold))
        };
        !self.held.iter().any(|(lock, held)| meets(lock, held))
    }

    /// True if a request waits for lines.
    pub(crate) fn is_waiting(&self, request: u32) -> bool {
        self.waiting.iter().any(|(waiter, _)| *waiter == request)
    }

    /// Takes the lines for a request, or lets it wait: [`Locks::next`] names it later.
    pub(crate) fn take_or_wait(
        &mut self,
        request: u32,
        lines: Range<u32>,
        hold: Hold,
    ) -> Option<u32> {
        assert!(!lines.is_empty(), "a lock is on lines");
        debug_assert!(!self.is_waiting(request), "a request waits once");
        let queued = self.waiting.iter().any(|(_, other)| other.is_in_the_way_of(&lines, hold));
        if queued || !self.is_free(&lines, hold) {
            self.waiting.push_back((request, Held { lines, hold }));
            return None;
        }
        let lock = self.held.insert(Held { lines, hold });
        debug_assert!(self.are_apart(), "lines were given to somebody beside another");
        Some(lock)
    }

    /// Takes the lines if nobody holds them and nobody waits for them.
    pub(crate) fn take(&mut self, lines: Range<u32>, hold: Hold) -> Option<u32> {
        assert!(!lines.is_empty(), "a lock is on lines");
        let queued = self.waiting.iter().any(|(_, other)| other.is_in_the_way_of(&lines, hold));
        let free = !queued && self.is_free(&lines, hold);
        free.then(|| self.held.insert(Held { lines, hold }))
    }

    /// Makes a read's hold a write's, when nobody else is on the lines or waits for them.
    pub(crate) fn upgrade(&mut self, lock: u32) -> bool {
        assert!(self.held[lock].hold == Hold::Read, "only a read's hold becomes a write's");
        let lines = self.held[lock].lines.clone();
        let in_the_way = |held: &Held| held.is_in_the_way_of(&lines, Hold::Write);
        let alone = self.held.iter().all(|(other, held)| other == lock || !in_the_way(held));
        let alone = alone && !self.waiting.iter().any(|(_, held)| in_the_way(held));
        if mutant("fill_without_the_lock") {
            self.held[lock].hold = Hold::Back; // Which goes beside writes.
            return true;
        }
        if alone {
            self.held[lock].hold = Hold::Write;
        }
        debug_assert!(self.are_apart(), "a hold became stronger beside another");
        alone
    }

    pub(crate) fn release(&mut self, lock: u32) {
        self.held.remove(lock);
    }

    /// Somebody who waited and now holds its lines: (request, lock). After every release, until
    /// there is none.
    pub(crate) fn next(&mut self) -> Option<(u32, u32)> {
        let found = (0..self.waiting.len()).find(|&index| {
            let (_, wanted) = &self.waiting[index];
            let before = self.waiting.range(..index);
            self.is_free(&wanted.lines, wanted.hold)
                && !before
                    .into_iter()
                    .any(|(_, other)| other.is_in_the_way_of(&wanted.lines, wanted.hold))
        })?;
        let (request, wanted) = self.waiting.remove(found).expect("just found");
        let lock = self.held.insert(wanted);
        debug_assert!(self.are_apart(), "lines were given to somebody beside another");
        debug_assert!(!self.is_waiting(request), "a request waits once");
        Some((request, lock))
    }

    /// True if somebody holds `line`.
    pub(crate) fn holds(&self, line: u32) -> bool {
        self.held.iter().any(|(_, held)| held.lines.contains(&line))
    }
}

#[cfg(test)]
mod tests;
