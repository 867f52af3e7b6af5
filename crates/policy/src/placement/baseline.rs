//! HintStor's baseline: the most accessed chunks of each interval go to the fastest pool.
//!
//! 1. An access adds one to its chunk's count of the running epoch and makes the chunk the most
//!    recently used.
//! 2. At the epoch's end the `k` most accessed chunks, no more than the fastest pool can hold,
//!    belong on the fastest pool: those that are elsewhere move there, the most accessed first.
//! 3. When the fastest pool is full, the least recently used chunk there that is not among the `k`
//!    moves down first, to the next pool with room.
//! 4. Counts start again from zero.
//!
//! Of equally accessed chunks one that is on the fastest pool already goes first, then the lower
//! id.
//!
//! Source: HintStor, Ge et al. 2022 §3.5, §3.7 and §4.1 (no hints, top-1,000 of the heat map each
//! interval, LRU eviction to the next pool). The source says nothing of chunks that are no longer
//! hot while there is room: here they stay.
//!
//! State: 33 B a chunk: 12 of address, 16 of count and last use, 4 in the epoch's list, 1 for where
//! it is. O(1) an access; O(chunks touched + chunks on the fastest pool) an epoch.

use super::chunks::Chunks;
use super::plan::Plan;
use super::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use std::cmp::Reverse;
use thermocline_units::Nanos;

const K: Setting = Setting {
    name: "k",
    default: "1000",
    unit: "chunks",
    help: "how many of an epoch's most accessed chunks go to the fastest pool",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "baseline",
    summary: "moves each epoch's most accessed chunks to the fastest pool, the least recent down",
    source: "HintStor's baseline, Ge et al. 2022 §3.7 and §4.1",
    settings: &[K],
    build: Build::Placement(|settings| Ok(Box::new(Baseline::new(settings)?))),
};

/// Top-k by count, LRU downward.
#[derive(Debug)]
struct Baseline {
    k: usize,
    chunks: Chunks,
    /// Uses by chunk; one line of memory an access.
    uses: Vec<Use>,
    accesses: u64,
    /// Chunks with a count above zero.
    touched: Vec<u32>,
    /// Verdicts of `look`, by chunk.
    standing: Vec<Standing>,
}

/// Use of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// Time of the last access, in accesses since the start; 0: never.
    last: u64,
    /// Accesses of the running epoch.
    count: u32,
}

/// Verdict on a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    /// Not on the fastest pool.
    #[default]
    Elsewhere,
    /// On the fastest pool.
    Resident,
    /// On the fastest pool, and it belongs there.
    Kept,
}

impl Baseline {
    fn new(settings: &Settings) -> Result<Baseline, SettingsError> {
        Ok(Baseline {
            k: settings.count("k", 1, u64::from(u32::MAX))? as usize,
            chunks: Chunks::default(),
            uses: Vec::new(),
            accesses: 0,
            touched: Vec::new(),
            standing: Vec::new(),
        })
    }

    /// Takes note of what is on the fastest pool, and returns it.
    fn look(&mut self, view: &dyn VolumeView) -> Vec<u32> {
        let mut residents = Vec::new();
        view.visit_pool(FLASH, &mut |chunk| residents.push(self.chunks.number(chunk)));
        let count = self.chunks.len() as usize;
        self.uses.resize(count, Use::default());
        self.standing.clear();
        self.standing.resize(count, Standing::Elsewhere);
        for &number in &residents {
            self.standing[number as usize] = Standing::Resident;
        }
        residents
    }

    /// The most accessed chunks that are not on the fastest pool, most accessed first; those that
    /// are there become `Kept`.
    fn choose(&mut self, capacity: u64) -> Vec<u32> {
        let count = self.k.min(usize::try_from(capacity).unwrap_or(usize::MAX));
        let mut touched = std::mem::take(&mut self.touched);
        let rank = |&number: &u32| {
            let away = self.standing[number as usize] == Standing::Elsewhere;
            (Reverse(self.uses[number as usize].count), away, self.chunks.id(number))
        };
        if count > 0 && count < touched.len() {
            touched.select_nth_unstable_by_key(count - 1, rank);
        }
        let length = count.min(touched.len());
        let top = &mut touched[..length];
        top.sort_unstable_by_key(rank);
        let mut arrivals = Vec::new();
        for &number in &*top {
            match &mut self.standing[number as usize] {
                Standing::Elsewhere => arrivals.push(number),
                resident => *resident = Standing::Kept,
            }
        }
        touched.iter().for_each(|&number| self.uses[number as usize].count = 0);
        touched.clear();
        self.touched = touched;
        arrivals
    }
}

impl Placement for Baseline {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        let number = self.chunks.number(access.chunk) as usize;
        if number >= self.uses.len() {
            self.uses.resize(number + 1, Use::default());
        }
        self.accesses += 1;
        let used = &mut self.uses[number];
        used.last = self.accesses;
        used.count = used.count.saturating_add(1);
        if used.count == 1 {
            self.touched.push(number as u32);
        }
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        let mut leaving = self.look(view);
        let arrivals = self.choose(view.capacity_chunks(FLASH));
        leaving.retain(|&number| self.standing[number as usize] == Standing::Resident);
        leaving.sort_unstable_by_key(|&number| {
            (self.uses[number as usize].last, self.chunks.id(number))
        });
        let mut plan = Plan::new(view);
        for &number in &arrivals {
            let chunk = self.chunks.id(number);
            plan.wish(chunk, view.pool_of(chunk), FLASH);
        }
        leaving.iter().rev().for_each(|&number| plan.may_yield(self.chunks.id(number), FLASH));
        plan.propose(budget, moves);
    }

    fn footprint(&self) -> Footprint {
        let vectors = self.uses.capacity() * size_of::<Use>()
            + self.touched.capacity() * 4
            + self.standing.capacity();
        Footprint { resident: 0, index: self.chunks.bytes() + vectors as u64 }
    }
}

#[cfg(test)]
mod tests;
