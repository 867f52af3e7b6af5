//! S3-FIFO (Yang et al., SOSP 2023) within a set: a small queue filters lines that come once, a
//! main queue keeps those that came again, and a few bits remember who left.
//!
//! 1. A hit adds one to the line's count, which stops at 3.
//! 2. A line that enters goes to main if the set remembers that it left (which it then forgets),
//!    otherwise to small; its count is 0. While the set has free slots, a line that finds small at
//!    its share goes to main.
//! 3. To make room, unless main holds more than its share, small's oldest are looked at: a count of
//!    2 or more sends a line to main with count 0; the first with less leaves, and is remembered.
//!    Otherwise main's oldest: a count above 0 is lowered by one and the line becomes main's
//!    newest; the first with 0 leaves.
//! 4. A line that its owner keeps is passed over and stays where it is. If neither queue has one to
//!    give by these rules, the oldest that may leave does.
//!
//! Differences from `s3-fifo`: queues are a set's, small is an eighth of it (two slots of sixteen),
//! and a set remembers as many lines as it has slots, each by 16 bits of its row: one line in some
//! 4,000 is taken for another.
//!
//! State: 5 B, a byte for queue and place, and two for who left: 8 B a cached line, and a byte a
//! set.

use super::{SetRule, SetSlots, Sets, WAYS, build};
use crate::registry::{Build, Entry};

pub(super) const ENTRY: Entry = Entry {
    name: "s3-fifo-sets",
    summary: "sets of few slots, each with S3-FIFO's queues and a memory of who left; no index",
    source: "Yang et al., SOSP 2023, within sets",
    settings: &[WAYS],
    build: Build::Cache(|geometry, settings| build(SetRule::S3Fifo, geometry, settings)),
};

const SMALL: u8 = 0;
const MAIN: u8 = 1;
/// Small's share of a set: one slot in eight, at least one.
const SMALL_PART: u32 = 8;
/// Hits in small that send a line to main.
const MOVE: u8 = 2;
/// Greatest count.
const COUNT_MAX: u8 = 3;

/// Rows that left each set, the last ones, by 16 bits; 0 is nobody.
#[derive(Debug, Clone)]
pub(super) struct Ghosts {
    tags: Vec<u16>,
    /// For each set the place that is written next, counted in slots of the set.
    next: Vec<u8>,
}

impl Ghosts {
    /// Ghosts of which none has left yet; no room for any where there are no `slots`.
    pub(super) fn new(slots: u32, sets: u32) -> Ghosts {
        let sets = if slots == 0 { 0 } else { sets };
        Ghosts { tags: vec![0; slots as usize], next: vec![0; sets as usize] }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.tags.capacity() as u64 * 2 + self.next.capacity() as u64
    }

    fn remember(&mut self, set: SetSlots, row: u32) {
        let next = &mut self.next[set.set() as usize];
        let place = set.next + u32::from(*next) * set.step;
        self.tags[place as usize] = tag(row);
        *next = ((u32::from(*next) + 1) % set.count()) as u8;
    }

    /// Forgets a row; true if it was remembered.
    fn take(&mut self, mut set: SetSlots, row: u32) -> bool {
        let found = set.find(|&place| self.tags[place as usize] == tag(row));
        found.inspect(|&place| self.tags[place as usize] = 0).is_some()
    }
}

fn tag(row: u32) -> u16 {
    let mixed = (u64::from(row) + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 48;
    (mixed as u16).max(1)
}

impl Sets {
    #[inline]
    pub(super) fn s3_hit(&mut self, slot: u32) {
        let count = self.rating(slot);
        self.rate(slot, (count + 1).min(COUNT_MAX));
    }

    pub(super) fn s3_is_near(&self, slot: u32) -> bool {
        self.rating(slot) > 0
    }

    /// `row` has taken a slot, which is in no queue yet.
    pub(super) fn s3_enter(&mut self, slot: u32, row: u32) {
        let set = self.beside(slot);
        let (small, main) = (self.order.length(set, SMALL), self.order.length(set, MAIN));
        let fills = small + main + 1 < set.count() && small >= small_share(set);
        let returns = self.ghosts.take(set, row);
        self.order.enter(set, slot, if returns || fills { MAIN } else { SMALL });
    }

    /// The line of `slot` leaves for another: it is remembered if it leaves from small.
    pub(super) fn s3_remember(&mut self, slot: u32) {
        if self.order.age_of(slot).is_some_and(|(queue, _)| queue == SMALL) {
            self.ghosts.remember(self.beside(slot), self.rows[slot as usize]);
        }
    }

    /// The slot of a full set whose line leaves; others may have changed queues.
    pub(super) fn s3_victim(
        &mut self,
        set: SetSlots,
        may_leave: impl Fn(&Sets, u32) -> bool,
    ) -> Option<u32> {
        let main_share = set.count() - small_share(set).min(set.count());
        let from_small = match self.order.length(set, MAIN) <= main_share {
            true => self.s3_small_victim(set, &may_leave),
            false => None,
        };
        from_small.or_else(|| self.s3_main_victim(set, &may_leave)).or_else(|| {
            let mut places = 0..set.count();
            places.find_map(|place| {
                let oldest = [SMALL, MAIN].map(|queue| self.order.at(set, queue, place));
                oldest.into_iter().flatten().find(|&slot| may_leave(self, slot))
            })
        })
    }

    fn s3_small_victim(
        &mut self,
        set: SetSlots,
        may_leave: &impl Fn(&Sets, u32) -> bool,
    ) -> Option<u32> {
        let mut place = 0;
        while let Some(slot) = self.order.at(set, SMALL, place) {
            if self.rating(slot) >= MOVE {
                self.s3_to_main(set, slot, 0);
            } else if may_leave(self, slot) {
                return Some(slot);
            } else {
                place += 1;
            }
        }
        None
    }

    fn s3_main_victim(
        &mut self,
        set: SetSlots,
        may_leave: &impl Fn(&Sets, u32) -> bool,
    ) -> Option<u32> {
        let mut place = 0;
        // Each step lowers a count or goes to the next place.
        while let Some(slot) = self.order.at(set, MAIN, place) {
            if !may_leave(self, slot) {
                place += 1;
            } else if self.rating(slot) > 0 {
                self.s3_to_main(set, slot, self.rating(slot) - 1);
            } else {
                return Some(slot);
            }
        }
        None
    }

    /// A line becomes main's newest, with another count.
    fn s3_to_main(&mut self, set: SetSlots, slot: u32, count: u8) {
        self.order.leave(set, slot);
        self.order.enter(set, slot, MAIN);
        self.rate(slot, count);
    }
}

fn small_share(set: SetSlots) -> u32 {
    (set.count() / SMALL_PART).max(1)
}
