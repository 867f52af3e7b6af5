//! A hash table from keys to numbers, with open addressing and 4 bytes a place.
//!
//! It stores numbers only; its owner keeps the key of each number. Between 70 and 88 % of the
//! places are used, so a number takes 4.6 to 5.7 bytes. Keys are mixed with a secret, because
//! guests choose contents, and so hashes.

/// One more than a number; 0 is a free place.
#[derive(Debug)]
pub(crate) struct Index {
    places: Vec<u32>,
    count: usize,
    secret: u64,
}

impl Index {
    pub(crate) fn new(secret: u64) -> Index {
        Index { places: vec![0; 64], count: 0, secret }
    }

    fn home(&self, key: u64) -> usize {
        let mixed = (key ^ self.secret).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(self.secret | 1);
        ((u128::from(mixed ^ (mixed >> 29)) * self.places.len() as u128) >> 64) as usize
    }

    fn next(&self, place: usize) -> usize {
        if place + 1 == self.places.len() { 0 } else { place + 1 }
    }

    /// The number with this key for which `is_it` is true.
    #[inline]
    pub(crate) fn find(&self, key: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut place = self.home(key);
        while self.places[place] != 0 {
            let number = self.places[place] - 1;
            if is_it(number) {
                return Some(number);
            }
            place = self.next(place);
        }
        None
    }

    /// Adds a number that is not in the table.
    pub(crate) fn insert(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) {
        if (self.count + 1) * 8 > self.places.len() * 7 {
            let larger = self.places.len() + self.places.len() / 4 + 1;
            let old = std::mem::replace(&mut self.places, vec![0; larger]);
            old.into_iter().filter(|&place| place != 0).for_each(|place| {
                self.put(key_of(place - 1), place - 1);
            });
        }
        self.put(key, number);
        self.count += 1;
    }

    fn put(&mut self, key: u64, number: u32) {
        let mut place = self.home(key);
        while self.places[place] != 0 {
            place = self.next(place);
        }
        self.places[place] = number + 1;
    }

    /// Removes a number if it is in the table. Later numbers move up, so that no marks are needed.
    pub(crate) fn remove(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) {
        let mut place = self.home(key);
        while self.places[place] != number + 1 {
            if self.places[place] == 0 {
                return;
            }
            place = self.next(place);
        }
        self.count -= 1;
        let mut hole = place;
        loop {
            place = self.next(place);
            if self.places[place] == 0 {
                break;
            }
            let home = self.home(key_of(self.places[place] - 1));
            // It may move up unless its home lies behind the hole, seen in the order of probing.
            let stays = if hole <= place {
                hole < home && home <= place
            } else {
                hole < home || home <= place
            };
            if !stays {
                self.places[hole] = self.places[place];
                hole = place;
            }
        }
        self.places[hole] = 0;
    }

    pub(crate) fn clear(&mut self) {
        self.places.fill(0);
        self.count = 0;
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.places.capacity() as u64 * 4
    }
}

/// Appends an item to an array whose capacity grows by an eighth, because half-empty arrays would
/// be most of the memory of an entry.
pub(crate) fn push_tight<T>(items: &mut Vec<T>, item: T) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len() / 8 + 64);
    }
    items.push(item);
}
