//! Parts of flow tables whose size is fixed when they are made: entries, an index, queues by age.
//!
//! Each knows nothing of the others: they share slot numbers. Memory is reserved at once and is
//! touched as it is used. Per slot: the entry, 8 bytes of links in the queues, 10.7 bytes of index,
//! and 4 bytes when it is free again.

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries in numbered slots.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    max: usize,
}

impl<T: Copy> Arena<T> {
    pub(crate) fn new(max: usize) -> Arena<T> {
        assert!(max < NONE as usize, "slots are numbered with 32 bits");
        Arena { slots: Vec::with_capacity(max), free: Vec::new(), max }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn room(&self) -> usize {
        self.max - self.len()
    }

    /// Puts an entry into a free slot; `None` if there is none.
    pub(crate) fn insert(&mut self, entry: T) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = entry;
            return Some(slot);
        }
        if self.slots.len() == self.max {
            return None;
        }
        self.slots.push(entry);
        Some(self.slots.len() as u32 - 1)
    }

    /// Frees a slot that is in use.
    pub(crate) fn remove(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.slots[slot as usize]
    }

    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<T>() + self.free.capacity() * 4
    }
}

impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    hash: u32,
    /// Slot + 1; 0: empty. So an index that was never touched is zeroed memory.
    slot: u32,
}

/// A hash index from keys to slots, which the caller compares: open addressing, linear probing, and
/// deletion that closes the gap.
#[derive(Debug)]
pub(crate) struct Index {
    cells: Vec<Cell>,
}

impl Index {
    pub(crate) fn new(max: usize) -> Index {
        Index { cells: vec![Cell { hash: 0, slot: 0 }; max * 4 / 3 + 8] }
    }

    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.cells.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    /// The slot with this hash for which `is_it` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let cell = self.cells[at];
            if cell.slot == 0 {
                return None;
            }
            if cell.hash == hash && is_it(cell.slot - 1) {
                return Some(cell.slot - 1);
            }
            at = self.next(at);
        }
    }

    /// Adds a slot that is not in it. The caller never adds more than `max`.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        let mut at = self.home(hash);
        while self.cells[at].slot != 0 {
            at = self.next(at);
        }
        self.cells[at] = Cell { hash, slot: slot + 1 };
    }

    /// Removes a slot that is in it.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let mut gap = self.home(hash);
        while self.cells[gap].slot != slot + 1 {
            assert!(self.cells[gap].slot != 0, "slot {slot} is not in the index");
            gap = self.next(gap);
        }
        let len = self.cells.len();
        let mut at = self.next(gap);
        while self.cells[at].slot != 0 {
            let home = self.home(self.cells[at].hash);
            // The cell may move back to the gap unless its home lies behind the gap.
            if (at + len - home) % len >= (at + len - gap) % len {
                self.cells[gap] = self.cells[at];
                gap = at;
            }
            at = self.next(at);
        }
        self.cells[gap] = Cell { hash: 0, slot: 0 };
    }

    pub(crate) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>()
    }
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
    len: usize,
}

/// Queues of slots, each slot in at most one: the longest idle first.
#[derive(Debug)]
pub(crate) struct Queues<const N: usize> {
    links: Vec<Link>,
    queues: [Queue; N],
}

impl<const N: usize> Queues<N> {
    pub(crate) fn new(max: usize) -> Queues<N> {
        let empty = Queue { first: NONE, last: NONE, len: 0 };
        Queues { links: Vec::with_capacity(max), queues: [empty; N] }
    }

    pub(crate) fn first(&self, queue: usize) -> Option<u32> {
        Some(self.queues[queue].first).filter(|&slot| slot != NONE)
    }

    pub(crate) fn len(&self, queue: usize) -> usize {
        self.queues[queue].len
    }

    /// The slot behind another one in its queue.
    pub(crate) fn after(&self, slot: u32) -> Option<u32> {
        Some(self.links[slot as usize].after).filter(|&slot| slot != NONE)
    }

    /// Adds a slot that is in no queue, as the one that was active last.
    pub(crate) fn push(&mut self, queue: usize, slot: u32) {
        let at = slot as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, Link { before: NONE, after: NONE });
        }
        let end = &mut self.queues[queue];
        self.links[at] = Link { before: end.last, after: NONE };
        match end.last {
            NONE => end.first = slot,
            last => self.links[last as usize].after = slot,
        }
        end.last = slot;
        end.len += 1;
    }

    /// Takes a slot out of its queue.
    pub(crate) fn remove(&mut self, queue: usize, slot: u32) {
        let Link { before, after } = self.links[slot as usize];
        let end = &mut self.queues[queue];
        match before {
            NONE => end.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => end.last = before,
            after => self.links[after as usize].before = before,
        }
        end.len -= 1;
    }

    /// Puts all slots of a queue into the order of a key; ties stay as they are.
    pub(crate) fn sort_by_key<K: Ord>(&mut self, queue: usize, key: impl Fn(u32) -> K) {
        let mut slots: Vec<u32> =
            std::iter::successors(self.first(queue), |&slot| self.after(slot)).collect();
        slots.sort_by_key(|&slot| key(slot));
        self.queues[queue] = Queue { first: NONE, last: NONE, len: 0 };
        for slot in slots {
            self.push(queue, slot);
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }
}

/// A hash of words under a key: a multiplication of 64 by 64 bits a word, folded. Whoever does not
/// know the key cannot choose colliding words easily; it is no hash for secrets.
#[inline]
pub(crate) fn hash(key: u64, words: &[u64]) -> u32 {
    let mut state = key;
    for word in words {
        let product = u128::from(state ^ word) * 0x9e37_79b9_7f4a_7c15;
        state = ((product >> 64) as u64 ^ product as u64).wrapping_add(key.rotate_left(29));
    }
    (state >> 32) as u32 ^ state as u32
}

#[cfg(test)]
mod tests;
