//! The slots of one pool: which are taken, and which free ones are known to read as zeroes.
//!
//! A slot is taken from its allocation until the map that frees it is durable and the last request
//! on it has ended; whoever frees it answers for both. Two bits a slot.

/// Slots above which assertions do not look at all of them.
pub(crate) const CHECKED_MAX: u32 = 4096;

/// The slots of one pool.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    taken: Vec<u64>,
    clean: Vec<u64>,
    total: u32,
    used: u32,
    /// Slot at which the next search starts: allocation runs upward, so that neighbours stay
    /// neighbours.
    cursor: u32,
}

impl Slots {
    /// `total` free slots, all reading as zeroes or none known to.
    pub(crate) fn new(total: u32, clean: bool) -> Slots {
        let words = total.div_ceil(64) as usize;
        Slots {
            taken: vec![0; words],
            clean: vec![if clean { u64::MAX } else { 0 }; words],
            total,
            used: 0,
            cursor: 0,
        }
    }

    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Adds slots at the end, which are taken until [`Slots::release`]; those from `clean_from` on
    /// read as zeroes.
    pub(crate) fn grow(&mut self, total: u32, clean_from: u32) {
        assert!(total >= self.total, "a pool never shrinks");
        let words = total.div_ceil(64) as usize;
        self.taken.resize(words, 0);
        self.clean.resize(words, 0);
        for slot in self.total..total {
            let (word, bit) = ((slot / 64) as usize, 1 << (slot % 64));
            self.taken[word] |= bit;
            match slot >= clean_from {
                true => self.clean[word] |= bit,
                false => self.clean[word] &= !bit,
            }
        }
        self.used += total - self.total;
        self.total = total;
        self.check_invariants();
        assert!(self.used <= self.total, "no more slots are taken than there are");
    }

    /// Lets go of a slot that [`Slots::grow`] has added, and nothing has used.
    pub(crate) fn release(&mut self, slot: u32) {
        assert!(self.is_taken(slot), "slot {slot} is let go twice");
        self.taken[(slot / 64) as usize] &= !(1 << (slot % 64));
        self.used -= 1;
        self.check_invariants();
    }

    /// Checks that as many slots are taken as are counted, and none beyond the last. Done in small
    /// pools only, as tests have them: it looks at all slots.
    fn check_invariants(&self) {
        if self.total > CHECKED_MAX {
            return;
        }
        let taken = || self.taken.iter().map(|word| word.count_ones()).sum::<u32>();
        debug_assert_eq!(taken(), self.used, "each slot that is taken is counted");
        let last = self.taken.last().filter(|_| !self.total.is_multiple_of(64));
        debug_assert!(last.is_none_or(|word| word >> (self.total % 64) == 0), "none beyond");
    }

    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    pub(crate) fn free(&self) -> u32 {
        self.total - self.used
    }

    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        self.taken[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// Takes a free slot: (slot, whether it reads as zeroes). O(1) amortised, O(slots / 64) at
    /// worst.
    pub(crate) fn take(&mut self) -> Option<(u32, bool)> {
        if self.free() == 0 {
            return None;
        }
        let words = self.taken.len();
        let first = (self.cursor / 64) as usize;
        for step in 0..=words {
            let word = (first + step) % words;
            let mut free = !self.taken[word];
            if step == 0 {
                free &= u64::MAX << (self.cursor % 64);
            }
            if free == 0 {
                continue;
            }
            let slot = word as u32 * 64 + free.trailing_zeros();
            if slot >= self.total {
                continue;
            }
            let clean = self.clean[word] >> (slot % 64) & 1 == 1;
            self.claim(slot);
            assert!(self.is_taken(slot), "what is handed out is taken");
            self.cursor = if slot + 1 == self.total { 0 } else { slot + 1 };
            return Some((slot, clean));
        }
        None
    }

    /// Takes this slot; it is no longer known to read as zeroes.
    ///
    /// # Panics
    /// When it is taken already: two chunks on one slot.
    pub(crate) fn claim(&mut self, slot: u32) {
        assert!(
            slot < self.total && !self.is_taken(slot),
            "slot {slot} is taken or beyond the pool"
        );
        self.taken[(slot / 64) as usize] |= 1 << (slot % 64);
        self.clean[(slot / 64) as usize] &= !(1 << (slot % 64));
        self.used += 1;
        self.check_invariants();
        assert!(self.used <= self.total, "no more slots are taken than there are");
    }

    /// Gives a slot back; `clean` says that it reads as zeroes.
    ///
    /// # Panics
    /// When it was not taken.
    pub(crate) fn give_back(&mut self, slot: u32, clean: bool) {
        assert!(self.is_taken(slot), "slot {slot} is given back twice");
        self.taken[(slot / 64) as usize] &= !(1 << (slot % 64));
        if clean {
            self.clean[(slot / 64) as usize] |= 1 << (slot % 64);
        }
        self.used -= 1;
        self.check_invariants();
    }
}

#[cfg(test)]
mod tests;
