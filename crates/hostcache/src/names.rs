//! The server's tracker: numbers of contents, and which hosts hold them.
//!
//! 1. The store names a content by a number that it never uses again in its run. A *place* of this
//!    table stands for one such number while any host holds the content, and for a while after.
//! 2. Hosts get a [`ContentId`]: the place, its generation and the server's run. A place that is
//!    given to other content gets a new generation. A place whose generations are used up is never
//!    used again. So a number of a former generation or run is recognised and ignored.
//! 3. When the table is full, a clock hand goes round and frees places that no host holds.
//!
//! State: 18 B a place with up to 64 hosts, and 4.6 to 5.7 B of index; 8 B more for each further
//! 64 hosts.

use crate::index::{Index, push_tight};
use crate::messages::ContentId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// A place without content.
const FREE: u64 = u64::MAX;
/// Places that the hand looks at before the table grows instead.
const HAND_STEPS: usize = 64;

#[derive(Debug)]
pub(crate) struct Names {
    numbers: Vec<u64>,
    generations: Vec<u16>,
    /// Bits of the hosts that hold it, `words` a place.
    holders: Vec<u64>,
    words: usize,
    by_number: Index,
    run: u16,
    hand: usize,
    /// Number of places from which on places without holders are reused.
    places_min: usize,
}

impl Names {
    pub(crate) fn new(hosts_max: usize, places_min: usize, run: u16, secret: u64) -> Names {
        Names {
            numbers: Vec::new(),
            generations: Vec::new(),
            holders: Vec::new(),
            words: hosts_max.div_ceil(64).max(1),
            by_number: Index::new(secret),
            run,
            hand: 0,
            places_min,
        }
    }

    pub(crate) fn id(&self, place: u32) -> ContentId {
        let generation = u64::from(self.generations[place as usize]);
        ContentId(u64::from(place) << 32 | generation << 16 | u64::from(self.run))
    }

    /// The place that a number stands for, unless it is of a former generation or run.
    pub(crate) fn place(&self, id: ContentId) -> Option<u32> {
        let (place, generation, run) = ((id.0 >> 32) as u32, (id.0 >> 16) as u16, id.0 as u16);
        let known = self.generations.get(place as usize) == Some(&generation) && run == self.run;
        (known && self.numbers[place as usize] != FREE).then_some(place)
    }

    pub(crate) fn number(&self, place: u32) -> u64 {
        self.numbers[place as usize]
    }

    pub(crate) fn find(&self, number: u64) -> Option<u32> {
        self.by_number.find(number, |place| self.numbers[place as usize] == number)
    }

    /// The place of a content, a new one if it has none. `leaving` is called with a place that
    /// loses its content; places for which `is_kept` is true keep theirs.
    pub(crate) fn take(
        &mut self,
        number: u64,
        is_kept: impl Fn(u32) -> bool,
        leaving: impl FnOnce(u32),
    ) -> u32 {
        if let Some(place) = self.find(number) {
            return place;
        }
        let place = match self.given_up(is_kept) {
            Some(place) => {
                leaving(place);
                place
            }
            None => self.new_place(),
        };
        self.numbers[place as usize] = number;
        let numbers = &self.numbers;
        self.by_number.insert(number, place, |place| numbers[place as usize]);
        place
    }

    fn new_place(&mut self) -> u32 {
        push_tight(&mut self.numbers, FREE);
        push_tight(&mut self.generations, 1);
        for _ in 0..self.words {
            push_tight(&mut self.holders, 0);
        }
        self.numbers.len() as u32 - 1
    }

    fn given_up(&mut self, is_kept: impl Fn(u32) -> bool) -> Option<u32> {
        if self.numbers.len() < self.places_min {
            return None;
        }
        for _ in 0..HAND_STEPS {
            self.hand = (self.hand + 1) % self.numbers.len();
            let place = self.hand as u32;
            if self.holder_count(place) > 0 || is_kept(place) {
                continue;
            }
            if self.numbers[self.hand] != FREE {
                self.forget(place);
            }
            let generation = &mut self.generations[self.hand];
            let used_up = *generation == u16::MAX;
            if !used_up {
                if !mutant("a_number_is_used_again") {
                    *generation += 1;
                }
                met("a place was given to other content");
                return Some(place);
            }
        }
        None
    }

    fn forget(&mut self, place: u32) {
        let numbers = &self.numbers;
        self.by_number.remove(numbers[place as usize], place, |place| numbers[place as usize]);
        self.numbers[place as usize] = FREE;
    }

    fn word(&self, place: u32, host: usize) -> (usize, u64) {
        (place as usize * self.words + host / 64, 1 << (host % 64))
    }

    pub(crate) fn holds(&self, place: u32, host: usize) -> bool {
        let (word, bit) = self.word(place, host);
        self.holders[word] & bit != 0
    }

    pub(crate) fn set_holder(&mut self, place: u32, host: usize, holds: bool) {
        let (word, bit) = self.word(place, host);
        if holds {
            self.holders[word] |= bit;
        } else {
            self.holders[word] &= !bit;
        }
    }

    fn words_of(&self, place: u32) -> &[u64] {
        let from = place as usize * self.words;
        &self.holders[from..from + self.words]
    }

    pub(crate) fn holder_count(&self, place: u32) -> u32 {
        self.words_of(place).iter().map(|word| word.count_ones()).sum()
    }

    /// Indices of the hosts that hold a content.
    pub(crate) fn holders(&self, place: u32) -> impl Iterator<Item = usize> + '_ {
        let bits = |(at, &word): (usize, &u64)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        };
        self.words_of(place).iter().enumerate().flat_map(bits)
    }

    /// Forgets all contents that a host holds.
    pub(crate) fn forget_host(&mut self, host: usize) {
        for place in 0..self.numbers.len() as u32 {
            self.set_holder(place, host, false);
        }
    }

    pub(crate) fn places(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        let words = self.numbers.capacity() + self.holders.capacity();
        words as u64 * 8 + self.generations.capacity() as u64 * 2 + self.by_number.bytes()
    }
}
