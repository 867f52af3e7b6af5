//! Finds blocks by hash: four bytes a slot, in shards that grow one at a time.
//!
//! Open addressing with linear probing; the keys live in the table of blocks. A store of a TiB has
//! 268 million entries: growing one table of that size would stall a write for seconds, growing one
//! of [`SHARDS`] takes a millisecond.

/// Tables that the hashes are spread over.
const SHARDS: usize = 4096;
const SLOTS_MIN: usize = 8;

#[derive(Debug, Default, Clone)]
struct Shard {
    slots: Vec<u32>,
    count: u32,
}

/// Numbers of blocks by short hash. 0 is no number.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Vec<Shard>,
}

fn shard_of(hash: u64) -> usize {
    (hash >> 52) as usize
}

/// Slot from which probing for a hash begins, in a shard of `slots` slots.
fn home(hash: u64, slots: usize) -> usize {
    (((hash << 12 >> 32) * slots as u64) >> 32) as usize
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { shards: vec![Shard::default(); SHARDS] }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.count as usize).sum()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let slots: usize = self.shards.iter().map(|shard| shard.slots.capacity()).sum();
        slots * size_of::<u32>() + SHARDS * size_of::<Shard>()
    }

    /// The first number in the probe sequence of `hash` for which `is_meant` is true.
    pub(crate) fn find(&self, hash: u64, mut is_meant: impl FnMut(u32) -> bool) -> Option<u32> {
        let shard = &self.shards[shard_of(hash)];
        if shard.count == 0 {
            return None;
        }
        let slots = shard.slots.len();
        let mut at = home(hash, slots);
        while shard.slots[at] != 0 {
            if is_meant(shard.slots[at]) {
                return Some(shard.slots[at]);
            }
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
        None
    }

    /// Adds a number; `hash_of` returns the hash of any number in the index.
    pub(crate) fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let shard = &mut self.shards[shard_of(hash)];
        if (shard.count as usize + 1) * 8 > shard.slots.len() * 7 {
            let slots = (shard.slots.len() * 6 / 5).max(shard.slots.len() + SLOTS_MIN);
            let old = std::mem::replace(&mut shard.slots, vec![0; slots]);
            for number in old.into_iter().filter(|&number| number != 0) {
                place(&mut shard.slots, hash_of(number), number);
            }
        }
        place(&mut shard.slots, hash, number);
        shard.count += 1;
    }

    /// Removes a number; returns false if it was not in the index.
    pub(crate) fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) -> bool {
        let shard = &mut self.shards[shard_of(hash)];
        if shard.count == 0 {
            return false;
        }
        let slots = shard.slots.len();
        let mut hole = home(hash, slots);
        while shard.slots[hole] != number {
            if shard.slots[hole] == 0 {
                return false;
            }
            hole = (hole + 1) % slots;
        }
        let mut at = hole;
        loop {
            at = (at + 1) % slots;
            let other = shard.slots[at];
            if other == 0 {
                break;
            }
            let from_home = (at + slots - home(hash_of(other), slots)) % slots;
            if from_home >= (at + slots - hole) % slots {
                shard.slots[hole] = other;
                hole = at;
            }
        }
        shard.slots[hole] = 0;
        shard.count -= 1;
        true
    }
}

fn place(slots: &mut [u32], hash: u64, number: u32) {
    let mut at = home(hash, slots.len());
    while slots[at] != 0 {
        at = if at + 1 == slots.len() { 0 } else { at + 1 };
    }
    slots[at] = number;
}

#[cfg(test)]
mod tests;
