//! A table from addresses within one volume to what is known of them.
//!
//! Open addressing with linear probing, at most three quarters full, doubled when fuller; nothing
//! is ever removed. Four neighbouring addresses share a home of four slots, so that a request of
//! several pages costs one miss of the processor's caches for every four. The hash is fixed: the
//! same requests make the same table in every run.

use thermocline_units::prefetch;

/// Entry of a table for one address.
pub(super) trait Slot: Copy {
    /// A slot that no address has taken.
    const VACANT: Self;

    /// True if no address has taken it.
    fn is_vacant(&self) -> bool;

    /// The address that has taken it.
    fn key(&self) -> u64;
}

/// Addresses that share a home.
const NEIGHBOURS: u64 = 4;
/// Slots of a table that holds something; a power of two.
const SLOTS_MIN: usize = 16;
/// The table grows beyond this part full: 3/4. Fuller tables probe longer, emptier ones miss more.
const FULL_MAX: (usize, usize) = (3, 4);

/// A table by address.
#[derive(Debug, Clone)]
pub(super) struct Table<S> {
    slots: Vec<S>,
    used: usize,
}

impl<S> Default for Table<S> {
    fn default() -> Table<S> {
        Table { slots: Vec::new(), used: 0 }
    }
}

impl<S: Slot> Table<S> {
    /// Number of addresses held.
    pub(super) fn len(&self) -> u64 {
        self.used as u64
    }

    /// Starts loading the home of `key` into the processor's caches.
    #[inline]
    pub(super) fn prefetch(&self, key: u64) {
        if !self.slots.is_empty() {
            prefetch(&self.slots, self.home(key));
        }
    }

    /// The slot of `key`: the one it has, or a vacant one. The caller makes a vacant one its own.
    #[inline]
    pub(super) fn slot(&mut self, key: u64) -> &mut S {
        if self.used * FULL_MAX.1 >= self.slots.len() * FULL_MAX.0 {
            self.grow();
        }
        let at = self.find(key);
        self.used += usize::from(self.slots[at].is_vacant());
        &mut self.slots[at]
    }

    /// Everything held, in an order that depends on the table's size.
    pub(super) fn iter(&self) -> impl Iterator<Item = &S> {
        self.slots.iter().filter(|slot| !slot.is_vacant())
    }

    #[inline]
    fn find(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        while !self.slots[at].is_vacant() && self.slots[at].key() != key {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        let hash = (key / NEIGHBOURS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let homes_log2 = self.slots.len().trailing_zeros() - NEIGHBOURS.trailing_zeros();
        ((hash >> (u64::BITS - homes_log2)) * NEIGHBOURS + key % NEIGHBOURS) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = vec![S::VACANT; (self.slots.len() * 2).max(SLOTS_MIN)];
        let smaller = std::mem::replace(&mut self.slots, bigger);
        for slot in smaller.into_iter().filter(|slot| !slot.is_vacant()) {
            let at = self.find(slot.key());
            self.slots[at] = slot;
        }
    }
}
