//! HeMem's hotness: two small counters a chunk, a global cooling clock, hot chunks up in the order
//! in which they became hot.
//!
//! 1. An access adds one to its chunk's reads or writes. A chunk with `hot-reads` reads or
//!    `hot-writes` writes is hot.
//! 2. When a counter reaches `cooling`, the cooling clock ticks: all counters halve, each when its
//!    chunk is looked at next, once for every tick that it missed.
//! 3. A chunk that is hot queues for the fastest pool, first come first served; it leaves the queue
//!    when it has cooled down or is there.
//! 4. At the epoch's end those in the queue rise while there is room or a chunk on the fastest pool
//!    that is not hot: the one with the fewest accesses left, then the higher id, goes down first,
//!    to the next pool with room. Hot chunks are never displaced.
//!
//! Source: HeMem (Raybuck et al., SOSP 2021) by its published program; what block tiering of today
//! is compared with (MOST, FAST 2026). Differs: HeMem moves every 10 ms at a bounded rate, here the
//! epoch and the machine's throttle say when and how fast; its cold list is first in first out as
//! well; it knows two tiers, here whatever is below the fastest counts as one.
//!
//! State: 25 B a chunk: 12 of address, 8 of counters, 4 in the queue, 1 for whether it is hot and
//! where. O(1) an access; O(queue + chunks on the fastest pool) an epoch.

use super::chunks::Chunks;
use super::plan::Plan;
use super::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use std::cmp::Reverse;
use thermocline_units::Nanos;

const HOT_READS: Setting = Setting {
    name: "hot-reads",
    default: "8",
    unit: "accesses",
    help: "reads from which on a chunk is hot",
};
const HOT_WRITES: Setting = Setting {
    name: "hot-writes",
    default: "4",
    unit: "accesses",
    help: "writes from which on a chunk is hot",
};
const COOLING: Setting = Setting {
    name: "cooling",
    default: "18",
    unit: "accesses",
    help: "when a counter reaches this, all counters halve",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "hemem",
    summary: "moves chunks up that reach so many reads or writes before a global cooling",
    source: "HeMem, SOSP 2021",
    settings: &[HOT_READS, HOT_WRITES, COOLING],
    build: Build::Placement(|settings| Ok(Box::new(Hemem::new(settings)?))),
};

/// Heat of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Heat {
    /// Ticks of the cooling clock that the counters have seen.
    cooled: u32,
    reads: u16,
    writes: u16,
}

impl Heat {
    /// Catches up with the cooling clock.
    #[inline]
    fn cool(&mut self, clock: u32) {
        let missed = clock.wrapping_sub(self.cooled).min(15);
        self.cooled = clock;
        self.reads >>= missed;
        self.writes >>= missed;
    }
}

/// HeMem's hotness of chunks.
#[derive(Debug)]
struct Hemem {
    hot_reads: u16,
    hot_writes: u16,
    cooling: u16,
    clock: u32,
    chunks: Chunks,
    heat: Vec<Heat>,
    queued: Vec<bool>,
    /// Chunks that became hot, in that order.
    queue: Vec<u32>,
}

impl Hemem {
    fn new(settings: &Settings) -> Result<Hemem, SettingsError> {
        let count = |key| Ok(settings.count(key, 1, 60_000)? as u16);
        Ok(Hemem {
            hot_reads: count("hot-reads")?,
            hot_writes: count("hot-writes")?,
            cooling: count("cooling")?,
            clock: 0,
            chunks: Chunks::default(),
            heat: Vec::new(),
            queued: Vec::new(),
            queue: Vec::new(),
        })
    }

    fn is_hot(&self, heat: &Heat) -> bool {
        heat.reads >= self.hot_reads || heat.writes >= self.hot_writes
    }

    /// The chunk's heat as of now.
    fn cooled(&mut self, number: u32) -> Heat {
        let heat = &mut self.heat[number as usize];
        heat.cool(self.clock);
        *heat
    }

    fn cover(&mut self, number: u32) {
        let count = number as usize + 1;
        if self.heat.len() < count {
            self.heat.resize(count, Heat { cooled: self.clock, ..Heat::default() });
            self.queued.resize(count, false);
        }
    }

    /// Chunks on the fastest pool that are not hot, those with most accesses left first.
    fn cold_residents(&mut self, view: &dyn VolumeView) -> Vec<u32> {
        let mut residents = Vec::new();
        view.visit_pool(FLASH, &mut |chunk| residents.push(self.chunks.number(chunk)));
        residents.iter().for_each(|&number| self.cover(number));
        let mut cold: Vec<u32> = residents
            .into_iter()
            .filter(|&number| {
                let heat = self.cooled(number);
                !self.is_hot(&heat)
            })
            .collect();
        cold.sort_unstable_by_key(|&number| {
            let heat = &self.heat[number as usize];
            (Reverse(u32::from(heat.reads) + u32::from(heat.writes)), self.chunks.id(number))
        });
        cold
    }
}

impl Placement for Hemem {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        let number = self.chunks.number(access.chunk);
        self.cover(number);
        let heat = &mut self.heat[number as usize];
        heat.cool(self.clock);
        let counter = if access.write { &mut heat.writes } else { &mut heat.reads };
        *counter += 1;
        if *counter >= self.cooling {
            self.clock = self.clock.wrapping_add(1);
        }
        let heat = *heat;
        if self.is_hot(&heat) && !self.queued[number as usize] {
            self.queued[number as usize] = true;
            self.queue.push(number);
        }
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        let cold = self.cold_residents(view);
        let mut plan = Plan::new(view);
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|&number| {
            let heat = self.cooled(number);
            let chunk = self.chunks.id(number);
            let home = view.pool_of(chunk);
            let waits = self.is_hot(&heat) && home != FLASH && view.holds(chunk);
            if waits {
                plan.wish(chunk, home, FLASH);
            }
            self.queued[number as usize] = waits;
            waits
        });
        self.queue = queue;
        cold.iter().for_each(|&number| plan.may_yield(self.chunks.id(number), FLASH));
        plan.propose(budget, moves);
    }

    fn footprint(&self) -> Footprint {
        let vectors = self.heat.capacity() * size_of::<Heat>()
            + self.queued.capacity()
            + self.queue.capacity() * 4;
        Footprint { resident: 0, index: self.chunks.bytes() + vectors as u64 }
    }
}

#[cfg(test)]
mod tests;
