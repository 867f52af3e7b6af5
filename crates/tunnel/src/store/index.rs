//! A hash table of numbers, whose keys live elsewhere: five bytes a slot.
//!
//! Open addressing with linear probing, in which whoever is nearer to its own place gives way
//! (Robin Hood hashing: Celis, Larson, Munro, Robin Hood hashing, FOCS 1985), and removal by moving
//! later numbers back. A byte beside each number says how far it lies behind its own place: so a
//! search knows without a look at any key where it can end, looks only at keys of one place, and a
//! removal looks at none. Keys lie all over memory, and a look at one is what costs time.
//!
//! Whoever asks brings a key's hash, and says of a number whether it is meant.

use thermocline_units::prefetch;

const EMPTY: u8 = 0;
/// A number lies in its own place.
const HOME: u8 = 1;
/// A number farther from its own place than this makes the table grow.
const FARTHEST: u8 = u8::MAX;
const SLOTS_MIN: usize = 64;
/// A table this many times as large as its count grows no more for numbers far from their places:
/// that would not part them.
const SPARSE: usize = 8;

/// Numbers, found by hashes of their keys.
pub(super) struct Index {
    numbers: Vec<u32>,
    /// [`EMPTY`], or [`HOME`] and the distance from there.
    distances: Vec<u8>,
    count: usize,
}

impl Index {
    pub(super) fn new() -> Index {
        Index { numbers: Vec::new(), distances: Vec::new(), count: 0 }
    }

    /// Numbers in the table.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the table.
    pub(super) fn memory(&self) -> usize {
        self.numbers.capacity() * size_of::<u32>() + self.distances.capacity()
    }

    /// Starts fetching the place of `hash`, which is to be asked for soon.
    pub(super) fn expect(&self, hash: u64) {
        let home = self.home(hash);
        prefetch(&self.distances, home);
        prefetch(&self.numbers, home);
    }

    /// The first number among those under `hash` (and of its place) that `is_meant`.
    pub(super) fn find(&self, hash: u64, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot(hash, is_meant).map(|slot| self.numbers[slot])
    }

    /// Adds `number`; `hash_of` tells the hash of every number in the table. False, and nothing is
    /// added, if too many numbers have nearly this hash.
    pub(super) fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) -> bool {
        if (self.count + 1) * 8 > self.numbers.len() * 7 {
            self.grow(&hash_of);
        }
        while !self.has_room(hash) {
            if self.numbers.len() > SPARSE * self.count {
                return false;
            }
            self.grow(&hash_of);
        }
        self.place(hash, number);
        self.count += 1;
        true
    }

    /// Takes out `number`, which is in the table under `hash` if it is there at all; false if it is
    /// not.
    pub(super) fn remove(&mut self, hash: u64, number: u32) -> bool {
        let Some(mut hole) = self.slot(hash, |other| other == number) else { return false };
        self.count -= 1;
        loop {
            let next = self.after(hole);
            if self.distances[next] <= HOME {
                break;
            }
            self.numbers[hole] = self.numbers[next];
            self.distances[hole] = self.distances[next] - 1;
            hole = next;
        }
        self.distances[hole] = EMPTY;
        true
    }

    fn slot(&self, hash: u64, is_meant: impl Fn(u32) -> bool) -> Option<usize> {
        if self.numbers.is_empty() {
            return None;
        }
        let (mut slot, mut distance) = (self.home(hash), HOME);
        // Whoever lies nearer to its place than the one that is looked for lies behind all of its.
        while self.distances[slot] >= distance {
            if self.distances[slot] == distance && is_meant(self.numbers[slot]) {
                return Some(slot);
            }
            slot = self.after(slot);
            distance = distance.checked_add(1)?;
        }
        None
    }

    /// True if a number can be placed so that none gets too far from its place: all behind it, up
    /// to an empty slot, move back by one.
    fn has_room(&self, hash: u64) -> bool {
        let mut slot = self.home(hash);
        while self.distances[slot] != EMPTY {
            if self.distances[slot] == FARTHEST {
                return false;
            }
            slot = self.after(slot);
        }
        true
    }

    fn place(&mut self, hash: u64, mut number: u32) {
        let (mut slot, mut distance) = (self.home(hash), HOME);
        while self.distances[slot] != EMPTY {
            if self.distances[slot] < distance {
                std::mem::swap(&mut self.numbers[slot], &mut number);
                std::mem::swap(&mut self.distances[slot], &mut distance);
            }
            slot = self.after(slot);
            distance += 1;
        }
        (self.numbers[slot], self.distances[slot]) = (number, distance);
    }

    /// Grows by an eighth, and further where numbers would get too far from their places; those for
    /// which that does not help are dropped.
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let mut slots = self.numbers.len();
        let old = std::mem::take(&mut self.numbers);
        let taken = std::mem::take(&mut self.distances);
        'larger: loop {
            slots = (slots + slots / 8).max(SLOTS_MIN);
            (self.numbers, self.distances) = (vec![0; slots], vec![EMPTY; slots]);
            let mut dropped = 0;
            for (&number, _) in old.iter().zip(&taken).filter(|(_, taken)| **taken != EMPTY) {
                let hash = hash_of(number);
                if self.has_room(hash) {
                    self.place(hash, number);
                } else if slots <= SPARSE * self.count {
                    continue 'larger;
                } else {
                    dropped += 1;
                }
            }
            self.count -= dropped;
            return;
        }
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.numbers.len() { 0 } else { slot + 1 }
    }

    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.numbers.len() as u128) >> 64) as usize
    }
}
