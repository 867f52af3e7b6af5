//! SRRIP in sets (Jaleel et al., ISCA 2010): predicts how soon a line comes again, in two bits, and
//! keeps no order and no index.
//!
//! 1. A line can only be in one of `ways` slots, those of its set. Looking it up compares their
//!    rows, so that nothing is kept for lines that are not here.
//! 2. A new line is predicted to come again in the long run (2 of 3), a hit line soon (0).
//! 3. The victim is a line of the set with the farthest prediction; all of the set then age by as
//!    much as it lacked to 3. A line that came only once leaves before one that came again, so a
//!    scan does little harm.
//!
//! Numbers are cut into rows of as many as there are sets; within a row, neighbours are in
//! neighbouring sets, and each row is turned by a number of its own: what comes again at a power of
//! two (block groups of a file system) is spread. A slot's number counts sets first, so neighbours
//! that are in the same way are neighbours on the medium too.
//!
//! [`Sets`] is what the engine's block cache stands on: its owner may refuse slots as victims
//! and keep six bits about each. State: 5 B a cached line, nothing for others. O(ways) an access.

use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "srrip",
    summary: "sets of few slots, each line's return predicted in two bits; needs no index",
    source: "Jaleel et al., ISCA 2010",
    settings: &[Setting {
        name: "ways",
        default: "16",
        unit: "slots, 1 to 64",
        help: "slots that a line may be in; a cache of fewer lines is one set",
    }],
    build: Build::Cache(|geometry, settings| {
        let ways = settings.count("ways", 1, 64)? as u32;
        Ok(Box::new(Srrip(Sets::new(geometry.lines, ways))))
    }),
};

/// No line is in the slot.
const EMPTY: u32 = u32::MAX;
/// The farthest prediction.
const FAR: u8 = 3;
/// The prediction for a line that came once.
const LONG: u8 = 2;
/// Bits of the prediction in a slot's state; the others are the owner's.
const PREDICTION: u8 = 3;

/// Slots in sets; see the module.
#[derive(Debug, Clone)]
pub struct Sets {
    /// The row of the line in each slot.
    rows: Vec<u32>,
    /// The prediction, and the owner's six bits above it.
    states: Vec<u8>,
    sets: u32,
    resident: u32,
}

/// Where a line was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The slot.
    pub slot: u32,
    /// The line that was there before.
    pub evicted: Option<u32>,
    /// The owner's bits about that line; none when there was none.
    pub marks: u8,
}

impl Sets {
    /// `slots` empty slots, at least one; `ways` of them to a set, or all if they are fewer.
    ///
    /// # Panics
    /// When either is zero.
    pub fn new(slots: u32, ways: u32) -> Sets {
        assert!(slots > 0 && ways > 0, "a cache has slots, and sets have ways");
        Sets {
            rows: vec![EMPTY; slots as usize],
            states: vec![0; slots as usize],
            sets: slots.div_ceil(ways),
            resident: 0,
        }
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Lines that are in a slot.
    pub fn resident(&self) -> u32 {
        self.resident
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.rows.capacity() as u64 * 4 + self.states.capacity() as u64
    }

    /// How far row `row` is turned.
    #[inline]
    fn turn(&self, row: u32) -> u32 {
        let mixed = (u64::from(row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((mixed * u64::from(self.sets)) >> 32) as u32
    }

    /// The row of `line`, and the slots of its set.
    #[inline]
    fn set_of(&self, line: u32) -> (u32, impl Iterator<Item = u32> + use<>) {
        let row = line / self.sets;
        let set = (u64::from(line % self.sets) + u64::from(self.turn(row))) % u64::from(self.sets);
        (row, (set as u32..self.slots()).step_by(self.sets as usize))
    }

    /// The slot that `line` is in. Changes nothing.
    #[inline]
    pub fn find(&self, line: u32) -> Option<u32> {
        let (row, mut slots) = self.set_of(line);
        slots.find(|&slot| self.rows[slot as usize] == row)
    }

    /// The line in `slot`.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn line_in(&self, slot: u32) -> Option<u32> {
        let row = self.rows[slot as usize];
        let column = || {
            let turned = u64::from(slot % self.sets) + u64::from(self.sets - self.turn(row));
            (turned % u64::from(self.sets)) as u32
        };
        (row != EMPTY).then(|| row * self.sets + column())
    }

    /// Whether `line` may be in `slot`.
    pub fn fits(&self, line: u32, slot: u32) -> bool {
        slot < self.slots() && self.set_of(line).1.any(|of_set| of_set == slot)
    }

    /// The owner's bits about `slot`, 0 to 63; none are set when a line is put there.
    #[inline]
    pub fn marks(&self, slot: u32) -> u8 {
        self.states[slot as usize] >> 2
    }

    /// Replaces the owner's bits.
    ///
    /// # Panics
    /// When they are more than six.
    #[inline]
    pub fn set_marks(&mut self, slot: u32, marks: u8) {
        assert!(marks < 64, "an owner has six bits");
        let state = &mut self.states[slot as usize];
        *state = (*state & PREDICTION) | (marks << 2);
    }

    /// The line in `slot` was accessed: it is expected again soon.
    #[inline]
    pub fn hit(&mut self, slot: u32) {
        self.states[slot as usize] &= !PREDICTION;
    }

    /// Whether the line in `slot` was hit, and is expected again soon.
    pub fn is_near(&self, slot: u32) -> bool {
        self.states[slot as usize] & PREDICTION == 0
    }

    /// The line in `slot` is the first to leave.
    pub fn expect_last(&mut self, slot: u32) {
        self.states[slot as usize] |= FAR;
    }

    /// Puts `line`, which is nowhere, into an empty slot of its set, or into one whose line
    /// `may_leave`; none: no line of the set may.
    ///
    /// # Panics
    /// When the line's number is that of no line ([`u32::MAX`]).
    pub fn place(&mut self, line: u32, may_leave: impl Fn(&Sets, u32) -> bool) -> Option<Placed> {
        assert!(line != u32::MAX, "the last number is no line's");
        let (row, slots) = self.set_of(line);
        let mut victim: Option<(u8, u32)> = None;
        for slot in slots {
            if self.rows[slot as usize] == EMPTY {
                self.put(row, slot);
                return Some(Placed { slot, evicted: None, marks: 0 });
            }
            let prediction = self.states[slot as usize] & PREDICTION;
            let farther = victim.is_none_or(|(farthest, _)| prediction > farthest);
            if farther && may_leave(self, slot) {
                victim = Some((prediction, slot));
            }
        }
        let (prediction, slot) = victim?;
        self.age(line, FAR - prediction);
        let (evicted, marks) = (self.line_in(slot), self.marks(slot));
        self.remove(slot);
        self.put(row, slot);
        Some(Placed { slot, evicted, marks })
    }

    /// Puts `line` into a slot that is known to be its own.
    ///
    /// # Panics
    /// When the slot is not of the line's set, or not empty.
    pub fn restore(&mut self, line: u32, slot: u32) {
        assert!(self.fits(line, slot), "line {line} cannot be in slot {slot}");
        assert!(self.rows[slot as usize] == EMPTY, "slot {slot} has a line already");
        self.put(line / self.sets, slot);
    }

    fn put(&mut self, row: u32, slot: u32) {
        self.rows[slot as usize] = row;
        self.states[slot as usize] = LONG;
        self.resident += 1;
    }

    fn age(&mut self, line: u32, by: u8) {
        for slot in self.set_of(line).1 {
            let state = &mut self.states[slot as usize];
            let aged = (*state & PREDICTION).saturating_add(by).min(FAR);
            *state = (*state & !PREDICTION) | aged;
        }
    }

    /// Empties `slot`.
    ///
    /// # Panics
    /// When it is empty.
    pub fn remove(&mut self, slot: u32) {
        let row = &mut self.rows[slot as usize];
        assert!(*row != EMPTY, "slot {slot} is empty");
        *row = EMPTY;
        self.states[slot as usize] = 0;
        self.resident -= 1;
    }
}

/// The rule as a cache policy: every line is admitted.
struct Srrip(Sets);

impl Replacement for Srrip {
    fn reserve(&mut self, _universe: u32) {}

    #[inline]
    fn access(&mut self, line: LineId) -> Outcome {
        if let Some(slot) = self.0.find(line.0) {
            self.0.hit(slot);
            return Outcome::HIT;
        }
        let placed = self.0.place(line.0, |_, _| true).expect("any line may leave");
        match placed.evicted {
            Some(victim) => Outcome::evicting(LineId(victim)),
            None => Outcome::ADMITTED,
        }
    }

    fn contains(&self, line: LineId) -> bool {
        self.0.find(line.0).is_some()
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let slot = self.0.find(line.0);
        slot.into_iter().for_each(|slot| self.0.remove(slot));
        slot.is_some()
    }

    fn resident(&self) -> u32 {
        self.0.resident()
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: self.0.bytes(), index: 0 }
    }
}

#[cfg(test)]
mod tests;
