//! One LRU queue a VM through common slots, each with a quota.
//!
//! 1. A hit moves the line to the front of the queue of the VM that brought it in.
//! 2. A miss of a VM with a quota of 0 bypasses. Where free slots are lent, any other miss takes
//!    one while there is one, whatever the quota: nobody is served by an empty slot.
//! 3. Otherwise a miss of a VM at or above its quota evicts that VM's oldest line, and a miss of a
//!    VM below its quota takes a free slot, or else the oldest line of a VM above its own.
//!
//! Invariant: quotas sum to the capacity at most, so in case 3 a full cache has a VM above its
//! quota. A VM gets there by a smaller quota or by a loan, and is listed then.

use crate::Footprint;
use crate::cache::{Links, NONE, Outcome, Queue, Slots};
use thermocline_units::LineId;

/// The partitions of one cache.
#[derive(Debug)]
pub(super) struct Partitions {
    slots: Slots,
    links: Links,
    /// The queue that each slot is in.
    owner: Vec<u16>,
    queues: Vec<Queue>,
    quotas: Vec<u32>,
    /// VMs that came above their quota, and may still be; each once.
    over: Vec<u16>,
    /// True if free slots are lent beyond quotas.
    lends: bool,
    capacity: u32,
    resident: u32,
}

impl Partitions {
    /// `volumes` ≥ 1 empty partitions of equal quotas in `capacity` ≥ 1 lines.
    pub(super) fn new(capacity: u32, volumes: u32) -> Partitions {
        assert!(capacity > 0 && volumes > 0, "a cache holds a line, and serves a volume");
        let mut partitions = Partitions {
            slots: Slots::new(capacity),
            links: Links::new(capacity),
            owner: vec![0; capacity as usize],
            queues: vec![Queue::new(); volumes as usize],
            quotas: Vec::new(),
            over: Vec::new(),
            lends: false,
            capacity,
            resident: 0,
        };
        partitions.set_quotas(equal_parts(capacity, volumes));
        partitions
    }

    /// Lends free slots beyond quotas.
    pub(super) fn lending(mut self) -> Partitions {
        self.lends = true;
        self
    }

    pub(super) fn quotas(&self) -> &[u32] {
        &self.quotas
    }

    /// Sets one quota a VM; nothing is evicted yet.
    pub(super) fn set_quotas(&mut self, quotas: Vec<u32>) {
        assert_eq!(quotas.len(), self.queues.len(), "one quota a volume");
        let sum: u64 = quotas.iter().map(|q| u64::from(*q)).sum();
        assert!(sum <= self.capacity.into(), "quotas of {sum} lines exceed the cache");
        self.quotas = quotas;
        let over = (0..self.queues.len()).filter(|v| self.queues[*v].len > self.quotas[*v]);
        self.over = over.map(|v| v as u16).collect();
    }

    pub(super) fn reserve(&mut self, universe: u32) {
        self.slots.reserve(universe);
    }

    #[inline]
    pub(super) fn access(&mut self, line: LineId, volume: u32) -> Outcome {
        let slot = self.slots.slot(line);
        if slot != NONE {
            let owner = self.owner[slot as usize] as usize;
            self.links.move_to_front(&mut self.queues[owner], slot);
            return Outcome::HIT;
        }
        let vm = volume as usize;
        assert!(vm < self.queues.len(), "a tag's volume is below the geometry's volumes");
        if self.quotas[vm] == 0 {
            return Outcome::BYPASSED;
        }
        let mut outcome = Outcome::ADMITTED;
        if self.lends && self.resident < self.capacity {
            if self.queues[vm].len >= self.quotas[vm] && !self.over.contains(&(vm as u16)) {
                self.over.push(vm as u16);
            }
        } else if self.queues[vm].len >= self.quotas[vm] {
            outcome = Outcome::evicting(self.evict(vm));
        } else if self.resident == self.capacity {
            let victim = self.vm_above_quota();
            outcome = Outcome::evicting(self.evict(victim));
        }
        let slot = self.slots.take(line);
        self.owner[slot as usize] = vm as u16;
        self.links.push_front(&mut self.queues[vm], slot);
        self.resident += 1;
        outcome
    }

    /// A VM above its quota; the cache must be full and some VM below its own.
    fn vm_above_quota(&mut self) -> usize {
        loop {
            let vm = *self.over.last().expect("quotas sum to the capacity at most") as usize;
            if self.queues[vm].len > self.quotas[vm] {
                return vm;
            }
            self.over.pop();
        }
    }

    fn evict(&mut self, vm: usize) -> LineId {
        let slot = self.links.pop_back(&mut self.queues[vm]);
        self.resident -= 1;
        self.slots.release(slot)
    }

    pub(super) fn contains(&self, line: LineId) -> bool {
        self.slots.slot(line) != NONE
    }

    pub(super) fn invalidate(&mut self, line: LineId) -> bool {
        let slot = self.slots.slot(line);
        if slot == NONE {
            return false;
        }
        let owner = self.owner[slot as usize] as usize;
        self.links.remove(&mut self.queues[owner], slot);
        self.slots.release(slot);
        self.resident -= 1;
        true
    }

    pub(super) fn resident(&self) -> u32 {
        self.resident
    }

    /// Lines of one VM now.
    #[cfg(test)]
    pub(super) fn resident_of(&self, volume: u32) -> u32 {
        self.queues[volume as usize].len
    }

    pub(super) fn footprint(&self) -> Footprint {
        let (slots, index) = self.slots.bytes();
        let owners = self.owner.len() as u64 * 2;
        Footprint { resident: slots + self.links.bytes() + owners, index }
    }

    #[inline]
    pub(super) fn prefetch_far(&self, line: LineId) {
        self.slots.prefetch(line);
    }

    #[inline]
    pub(super) fn prefetch_near(&self, line: LineId) {
        let slot = self.slots.slot(line);
        if slot != NONE {
            self.links.prefetch(slot);
        }
    }
}

/// `capacity` in `parts` that differ by one at most and sum to it.
pub(super) fn equal_parts(capacity: u32, parts: u32) -> Vec<u32> {
    let until = |i: u32| u64::from(capacity) * u64::from(i) / u64::from(parts);
    (0..parts).map(|i| (until(i + 1) - until(i)) as u32).collect()
}
