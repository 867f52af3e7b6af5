//! A hash table of numbers, whose keys live elsewhere: four bytes a slot.
//!
//! Open addressing with linear probing; removal moves later numbers back, so that nothing marks
//! where something was. Whoever asks brings a key's hash, and says of a number whether it is meant.

const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 64;

/// Numbers below 2^32 − 1, found by hashes of their keys.
pub(super) struct Index {
    slots: Vec<u32>,
    count: usize,
}

impl Index {
    pub(super) fn new() -> Index {
        Index { slots: Vec::new(), count: 0 }
    }

    /// Numbers in the table.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the table.
    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// The first number among those under `hash` (and their neighbours) that `is_meant`.
    pub(super) fn find(&self, hash: u64, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot(hash, is_meant).map(|slot| self.slots[slot])
    }

    /// Adds `number`; `hash_of` tells the hash of every number in the table.
    pub(super) fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        assert!(number != EMPTY, "the greatest number marks empty slots");
        if (self.count + 1) * 8 > self.slots.len() * 7 {
            self.grow(hash_of);
        }
        self.place(hash, number);
        self.count += 1;
    }

    /// Takes out `number`, which is in the table under `hash` if it is there at all; false if it is
    /// not. `hash_of` as for inserting.
    pub(super) fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) -> bool {
        let Some(mut hole) = self.slot(hash, |other| other == number) else { return false };
        self.count -= 1;
        let slots = self.slots.len();
        let mut slot = hole;
        loop {
            slot = (slot + 1) % slots;
            let other = self.slots[slot];
            if other == EMPTY {
                break;
            }
            // It may move back unless its own place lies behind the hole.
            let from_home = (slot + slots - self.home(hash_of(other))) % slots;
            let from_hole = (slot + slots - hole) % slots;
            if from_home >= from_hole {
                self.slots[hole] = other;
                hole = slot;
            }
        }
        self.slots[hole] = EMPTY;
        true
    }

    fn slot(&self, hash: u64, is_meant: impl Fn(u32) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.home(hash);
        while self.slots[slot] != EMPTY {
            if is_meant(self.slots[slot]) {
                return Some(slot);
            }
            slot = (slot + 1) % self.slots.len();
        }
        None
    }

    fn place(&mut self, hash: u64, number: u32) {
        let mut slot = self.home(hash);
        while self.slots[slot] != EMPTY {
            slot = (slot + 1) % self.slots.len();
        }
        self.slots[slot] = number;
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let slots = (self.slots.len() * 5 / 4).max(SLOTS_MIN);
        let numbers = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        for number in numbers.into_iter().filter(|&number| number != EMPTY) {
            self.place(hash_of(number), number);
        }
    }

    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }
}
