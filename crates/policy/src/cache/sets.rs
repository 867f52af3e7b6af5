//! Caches in sets of few slots, with a rule of replacement that looks at one set only.
//!
//! 1. A line can only be in one of `ways` slots, those of its set. Looking it up compares their
//!    rows, so that nothing is kept for lines that are not here.
//! 2. Which line of a set leaves is a [`SetRule`]'s matter: `srrip`, `lru` or `s3_fifo`, a file
//!    each.
//!
//! Numbers are cut into rows of as many as there are sets; within a row, neighbours are in
//! neighbouring sets, and each row is turned by a number of its own: what comes again at a power of
//! two (block groups of a file system) is spread. A slot's number counts sets first, so neighbours
//! that are in the same way are neighbours on the medium too.
//!
//! [`Sets`] is what the engine's block cache stands on: its owner may refuse slots as victims
//! and keep six bits about each. Where a line may be does not depend on the rule. State: 5 B a
//! cached line and what the rule adds, nothing for others. O(ways) an access; O(ways²) at worst
//! where `s3_fifo` moves lines.

mod lru;
mod order;
mod s3_fifo;
mod srrip;

use order::Order;
use s3_fifo::Ghosts;

use super::{CachePolicy, Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Entry, Geometry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

/// Registry entries: one a rule.
pub(crate) const ENTRIES: [Entry; 3] = [srrip::ENTRY, lru::ENTRY, s3_fifo::ENTRY];

/// The setting that all of them have.
const WAYS: Setting = Setting {
    name: "ways",
    default: "16",
    unit: "slots, 1 to 64",
    help: "slots that a line may be in; a cache of fewer lines is one set",
};
/// The largest value of it.
const WAYS_MAX: u32 = 64;

/// The rule for which line of a full set leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetRule {
    /// The line whose return is predicted latest, in two bits.
    Srrip,
    /// The line that was not accessed for longest.
    Lru,
    /// The oldest line of a small queue, unless it was hit; lines that return soon after they left
    /// are kept longer.
    S3Fifo,
}

impl SetRule {
    /// All rules.
    pub const ALL: [SetRule; 3] = [SetRule::Srrip, SetRule::Lru, SetRule::S3Fifo];

    /// Name in the registry.
    pub const fn name(self) -> &'static str {
        match self {
            SetRule::Srrip => srrip::ENTRY.name,
            SetRule::Lru => lru::ENTRY.name,
            SetRule::S3Fifo => s3_fifo::ENTRY.name,
        }
    }
}

impl std::str::FromStr for SetRule {
    type Err = String;

    fn from_str(name: &str) -> Result<SetRule, String> {
        let found = SetRule::ALL.into_iter().find(|rule| rule.name() == name);
        found.ok_or_else(|| {
            let names = SetRule::ALL.map(SetRule::name).join(", ");
            format!("`{name}` is no policy of a block cache; there are {names}")
        })
    }
}

/// No line is in the slot.
const EMPTY: u32 = u32::MAX;
/// Bits of a slot's state that are the rule's, a number from 0 to 3; the others are the owner's.
const RULE_BITS: u8 = 3;

/// Slots in sets; see the module.
#[derive(Debug, Clone)]
pub struct Sets {
    /// The row of the line in each slot.
    rows: Vec<u32>,
    /// The rule's two bits, and the owner's six above them.
    states: Vec<u8>,
    rule: SetRule,
    /// Queues within each set; empty for a rule that keeps no order.
    order: Order,
    /// Lines that left; empty for a rule that forgets them.
    ghosts: Ghosts,
    sets: u32,
    resident: u32,
}

/// The slots of one set, in ascending order.
#[derive(Debug, Clone, Copy)]
struct SetSlots {
    next: u32,
    end: u32,
    step: u32,
}

impl SetSlots {
    fn count(self) -> u32 {
        (self.end - self.next).div_ceil(self.step)
    }

    /// The number of its set.
    fn set(self) -> u32 {
        self.next % self.step
    }
}

impl Iterator for SetSlots {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let slot = self.next;
        (slot < self.end).then(|| {
            self.next = slot.saturating_add(self.step);
            slot
        })
    }
}

/// The slot a line was put in.
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
    /// When either is zero, or there are more than 64 ways.
    pub fn new(slots: u32, ways: u32, rule: SetRule) -> Sets {
        assert!(slots > 0 && ways > 0, "a cache has slots, and sets have ways");
        assert!(ways <= WAYS_MAX, "a place in a set has six bits");
        let (ordered, remembered) = match rule {
            SetRule::Srrip => (0, 0),
            SetRule::Lru => (slots, 0),
            SetRule::S3Fifo => (slots, slots),
        };
        let sets = slots.div_ceil(ways);
        Sets {
            rows: vec![EMPTY; slots as usize],
            states: vec![0; slots as usize],
            rule,
            order: Order::new(ordered),
            ghosts: Ghosts::new(remembered, sets),
            sets,
            resident: 0,
        }
    }

    /// The rule by which lines leave.
    pub fn rule(&self) -> SetRule {
        self.rule
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Lines that are in a slot.
    pub fn resident(&self) -> u32 {
        self.resident
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        let slots = self.rows.capacity() as u64 * 4 + self.states.capacity() as u64;
        slots + self.order.bytes() + self.ghosts.bytes()
    }

    /// Number of places that row `row` is turned by.
    #[inline]
    fn turn(&self, row: u32) -> u32 {
        let mixed = (u64::from(row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((mixed * u64::from(self.sets)) >> 32) as u32
    }

    /// The row of `line`, and the slots of its set.
    #[inline]
    fn set_of(&self, line: u32) -> (u32, SetSlots) {
        let row = line / self.sets;
        let set = (u64::from(line % self.sets) + u64::from(self.turn(row))) % u64::from(self.sets);
        (row, SetSlots { next: set as u32, end: self.slots(), step: self.sets })
    }

    /// The slots of the set that `slot` is of.
    fn beside(&self, slot: u32) -> SetSlots {
        SetSlots { next: slot % self.sets, end: self.slots(), step: self.sets }
    }

    /// The rule's number about `slot`, 0 to 3.
    #[inline]
    fn rating(&self, slot: u32) -> u8 {
        self.states[slot as usize] & RULE_BITS
    }

    #[inline]
    fn rate(&mut self, slot: u32, rating: u8) {
        debug_assert!(rating <= RULE_BITS, "a rule has two bits");
        let state = &mut self.states[slot as usize];
        *state = (*state & !RULE_BITS) | rating;
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

    /// True if `line` may be in `slot`.
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
        *state = (*state & RULE_BITS) | (marks << 2);
    }

    /// The line in `slot` was accessed.
    #[inline]
    pub fn hit(&mut self, slot: u32) {
        match self.rule {
            SetRule::Srrip => self.srrip_hit(slot),
            SetRule::Lru => self.lru_hit(slot),
            SetRule::S3Fifo => self.s3_hit(slot),
        }
    }

    /// True if the line in `slot` is expected again soon, by what came of late.
    pub fn is_near(&self, slot: u32) -> bool {
        match self.rule {
            SetRule::Srrip => self.srrip_is_near(slot),
            SetRule::Lru => self.lru_is_near(slot),
            SetRule::S3Fifo => self.s3_is_near(slot),
        }
    }

    /// The line in `slot` is the first to leave.
    pub fn expect_last(&mut self, slot: u32) {
        match self.rule {
            SetRule::Srrip => self.rate(slot, srrip::FAR),
            SetRule::Lru | SetRule::S3Fifo => {
                self.rate(slot, 0);
                self.order.make_oldest(self.beside(slot), slot);
            }
        }
    }

    /// Puts `line`, which is nowhere, into an empty slot of its set, or into one whose line
    /// `may_leave`; none: no line of the set may.
    ///
    /// # Panics
    /// When the line's number is that of no line ([`u32::MAX`]).
    pub fn place(&mut self, line: u32, may_leave: impl Fn(&Sets, u32) -> bool) -> Option<Placed> {
        assert!(line != u32::MAX, "the last number is no line's");
        let (row, mut slots) = self.set_of(line);
        let set = slots;
        if let Some(slot) = slots.find(|&slot| self.rows[slot as usize] == EMPTY) {
            self.put(row, slot);
            return Some(Placed { slot, evicted: None, marks: 0 });
        }
        let slot = match self.rule {
            SetRule::Srrip => self.srrip_victim(set, may_leave),
            SetRule::Lru => self.lru_victim(set, may_leave),
            SetRule::S3Fifo => self.s3_victim(set, may_leave),
        }?;
        let (evicted, marks) = (self.line_in(slot), self.marks(slot));
        if self.rule == SetRule::S3Fifo {
            self.s3_remember(slot);
        }
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
        self.states[slot as usize] = 0;
        self.resident += 1;
        match self.rule {
            SetRule::Srrip => self.rate(slot, srrip::LONG),
            SetRule::Lru => self.order.enter(self.beside(slot), slot, lru::QUEUE),
            SetRule::S3Fifo => self.s3_enter(slot, row),
        }
    }

    /// Empties `slot`.
    ///
    /// # Panics
    /// When it is empty.
    pub fn remove(&mut self, slot: u32) {
        assert!(self.rows[slot as usize] != EMPTY, "slot {slot} is empty");
        self.rows[slot as usize] = EMPTY;
        self.states[slot as usize] = 0;
        self.resident -= 1;
        if self.rule != SetRule::Srrip {
            self.order.leave(self.beside(slot), slot);
        }
    }
}

/// Builds the cache of a rule from its settings.
fn build(
    rule: SetRule,
    geometry: &Geometry,
    settings: &Settings,
) -> Result<Box<dyn CachePolicy>, SettingsError> {
    let ways = settings.count(WAYS.name, 1, WAYS_MAX.into())? as u32;
    Ok(Box::new(InSets(Sets::new(geometry.lines, ways, rule))))
}

/// A rule as a cache policy: every line is admitted.
struct InSets(Sets);

impl Replacement for InSets {
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
