//! LRU within a set: the line that was not accessed for longest leaves.
//!
//! State: a byte for the place in the set's order, so 6 B a cached line in all.

use super::{SetRule, SetSlots, Sets, WAYS, build};
use crate::registry::{Build, Entry};

pub(super) const ENTRY: Entry = Entry {
    name: "lru-sets",
    summary: "sets of few slots, the least recently used of each leaves; needs no index",
    source: "textbook; processor caches",
    settings: &[WAYS],
    build: Build::Cache(|geometry, settings| build(SetRule::Lru, geometry, settings)),
};

/// The one queue of a set.
pub(super) const QUEUE: u8 = 0;

impl Sets {
    #[inline]
    pub(super) fn lru_hit(&mut self, slot: u32) {
        let set = self.beside(slot);
        self.order.leave(set, slot);
        self.order.enter(set, slot, QUEUE);
    }

    /// True if the least recently used line is of the newer half of its set.
    pub(super) fn lru_is_near(&self, slot: u32) -> bool {
        let newer_from = self.order.length(self.beside(slot), QUEUE) / 2;
        self.order.age_of(slot).is_some_and(|(_, place)| place >= newer_from)
    }

    pub(super) fn lru_victim(
        &self,
        set: SetSlots,
        may_leave: impl Fn(&Sets, u32) -> bool,
    ) -> Option<u32> {
        let mut places = 0..self.order.length(set, QUEUE);
        places.find_map(|place| {
            self.order.at(set, QUEUE, place).filter(|&slot| may_leave(self, slot))
        })
    }
}
