//! Two queues within each set: for each slot its queue and its place there, in one byte.
//!
//! Places count from the oldest, 0, and have no holes; what enters or leaves renumbers its set,
//! which is a few bytes.

use super::SetSlots;

/// Bit of the byte that says which of the two queues.
const QUEUE: u8 = 0x40;
/// Mark of a slot in no queue.
const NOWHERE: u8 = u8::MAX;

/// Queue and place of each slot.
#[derive(Debug, Clone)]
pub(super) struct Order {
    places: Vec<u8>,
}

impl Order {
    /// All of `slots` slots are in no queue; queues are 0 and 1.
    pub(super) fn new(slots: u32) -> Order {
        Order { places: vec![NOWHERE; slots as usize] }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.places.capacity() as u64
    }

    /// The queue that a slot is in, and its place there.
    #[inline]
    pub(super) fn age_of(&self, slot: u32) -> Option<(u8, u32)> {
        let byte = self.places[slot as usize];
        (byte != NOWHERE).then(|| (u8::from(byte & QUEUE != 0), u32::from(byte & !QUEUE)))
    }

    /// Slots of the set in a queue.
    pub(super) fn length(&self, set: SetSlots, queue: u8) -> u32 {
        set.filter(|&slot| self.age_of(slot).is_some_and(|(own, _)| own == queue)).count() as u32
    }

    /// The slot at a place of a queue, counted from the oldest.
    pub(super) fn at(&self, mut set: SetSlots, queue: u8, place: u32) -> Option<u32> {
        set.find(|&slot| self.age_of(slot) == Some((queue, place)))
    }

    /// A slot that is in no queue becomes the newest of one.
    pub(super) fn enter(&mut self, set: SetSlots, slot: u32, queue: u8) {
        debug_assert_eq!(self.places[slot as usize], NOWHERE, "it is in one queue only");
        let place = self.length(set, queue) as u8;
        self.places[slot as usize] = place | if queue == 0 { 0 } else { QUEUE };
    }

    /// A slot leaves its queue, if it is in one.
    pub(super) fn leave(&mut self, set: SetSlots, slot: u32) {
        let Some((queue, place)) = self.age_of(slot) else { return };
        self.places[slot as usize] = NOWHERE;
        for other in set {
            if self.age_of(other).is_some_and(|(own, newer)| own == queue && newer > place) {
                self.places[other as usize] -= 1;
            }
        }
    }

    /// A slot becomes the oldest of queue 0.
    pub(super) fn make_oldest(&mut self, set: SetSlots, slot: u32) {
        self.leave(set, slot);
        for other in set {
            if self.age_of(other).is_some_and(|(own, _)| own == 0) {
                self.places[other as usize] += 1;
            }
        }
        self.places[slot as usize] = 0;
    }
}
