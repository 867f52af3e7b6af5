//! The sources' algorithms transcribed with sets, line by line; slow and plain.
//!
//! Corrections carry the number of the line they mend. Nothing here is shared with the code under
//! test.

use std::collections::{BTreeMap, BTreeSet};
use thermocline_units::ChunkId;

pub(crate) type Set = BTreeSet<ChunkId>;

/// Access counts of whole epochs, newest last.
#[derive(Debug, Default, Clone)]
pub(crate) struct History {
    pub(crate) epochs: Vec<BTreeMap<ChunkId, u64>>,
}

impl History {
    pub(crate) fn accessed(&self) -> Set {
        self.epochs.last().map(|e| e.keys().copied().collect()).unwrap_or_default()
    }

    /// Eq. 18–20 at N = 8, λ = 1.
    pub(crate) fn temperature(&self, chunk: &ChunkId) -> f64 {
        const N: usize = 8;
        let c = |j: usize| {
            if (j as f64) < N as f64 / 2.0 + 1.0 {
                (N + 1 - j) as f64 / N as f64
            } else {
                1.0 / 2f64.powi(j as i32 - 3)
            }
        };
        let m = |j: usize| {
            let epoch = self.epochs.len().checked_sub(j).and_then(|i| self.epochs.get(i));
            epoch.and_then(|e| e.get(chunk)).copied().unwrap_or(0) as f64
        };
        (1..=N).map(|j| m(j) * c(j)).sum()
    }

    /// Access counts since the start, halved after every `period` epochs. Zeroes are left out.
    pub(crate) fn frequency(&self, period: usize) -> BTreeMap<ChunkId, u64> {
        let mut counts: BTreeMap<ChunkId, u64> = BTreeMap::new();
        for (i, epoch) in self.epochs.iter().enumerate() {
            epoch.iter().for_each(|(chunk, n)| *counts.entry(*chunk).or_default() += n);
            if (i + 1) % period == 0 && i + 1 < self.epochs.len() {
                counts.values_mut().for_each(|n| *n /= 2);
            }
        }
        counts.retain(|_, n| *n > 0);
        counts
    }
}

/// `count` chunks of `set`, highest `value` first; ties: on flash first, then the lower id.
pub(crate) fn highest(
    set: &Set,
    count: usize,
    flash: &Set,
    value: impl Fn(&ChunkId) -> f64,
) -> Set {
    let mut sorted: Vec<&ChunkId> = set.iter().collect();
    sorted.sort_by(|a, b| {
        value(b).total_cmp(&value(a)).then(flash.contains(b).cmp(&flash.contains(a))).then(a.cmp(b))
    });
    sorted.into_iter().take(count).copied().collect()
}

/// The `count` that `highest` would take last.
fn lowest(set: &Set, count: usize, flash: &Set, value: impl Fn(&ChunkId) -> f64) -> Set {
    set - &highest(set, set.len() - count, flash, value)
}

/// Algorithm 1. `private[i]` and `public` persist; their capacities are `share` and `room`.
#[derive(Debug, Default)]
pub(crate) struct G1 {
    pub(crate) corrected: bool,
    pub(crate) share: usize,
    pub(crate) room: usize,
    pub(crate) private: Vec<Set>,
    pub(crate) public: Set,
}

impl G1 {
    pub(crate) fn epoch(&mut self, history: &History, flash: &Set) -> Set {
        let popularity = |chunk: &ChunkId| history.temperature(chunk);
        let (mut extra, mut evict) = (Set::new(), Set::new());
        for (i, prv) in self.private.iter_mut().enumerate() {
            let all = history.accessed();
            let pop: Set = all.into_iter().filter(|b| b.volume.0 as usize == i).collect();
            let (pop_diff, prv_diff) = (&pop - prv, &*prv - &pop);
            if pop.len() < self.share {
                let mut j = pop_diff.len().min(prv.len()); // l. 13
                if self.corrected {
                    j = (prv.len() + pop_diff.len()).saturating_sub(self.share);
                }
                let item_l = lowest(prv, j, flash, popularity); // l. 14
                evict.extend(&item_l); // l. 15
                *prv = &(&*prv - &item_l) | &pop_diff; // l. 16-17
            } else {
                evict.extend(&prv_diff); // l. 19
                *prv = highest(&pop, self.share, flash, popularity); // l. 20-21
                extra.extend(&(&pop - prv)); // l. 22
            }
        }
        if self.corrected {
            self.private.iter().for_each(|prv| self.public = &self.public - prv);
        }
        if extra.len() >= self.room {
            self.public = highest(&extra, self.room, flash, popularity); // l. 26-27
        } else if extra.len() + evict.len() >= self.room {
            let j = self.room - extra.len(); // l. 29
            self.public = &extra | &highest(&evict, j, flash, popularity); // l. 30-31
        } else {
            let incoming = &extra | &evict;
            let (mut pool, mut j) = (self.public.clone(), incoming.len()); // l. 33
            if self.corrected {
                pool = &pool - &incoming;
                j = (pool.len() + incoming.len()).saturating_sub(self.room);
            }
            let item_l = lowest(&pool, j.min(pool.len()), flash, popularity); // l. 34
            self.public = &(&pool - &item_l) | &incoming; // l. 35-36
        }
        self.private.iter().fold(self.public.clone(), |all, prv| &all | prv) // l. 4-6
    }
}

/// Algorithm 2. The zones' capacities are `places` and `room`.
#[derive(Debug, Default)]
pub(crate) struct G2 {
    pub(crate) corrected: bool,
    pub(crate) places: usize,
    pub(crate) room: usize,
    pub(crate) period: usize,
    pub(crate) private: Set,
    pub(crate) public: Set,
}

impl G2 {
    pub(crate) fn epoch(&mut self, history: &History, flash: &Set) -> Set {
        let frequency = history.frequency(self.period);
        let keys: Set = frequency.keys().copied().collect();
        let item_h = highest(&keys, self.places, flash, |b| frequency[b] as f64); // l. 8, 11
        let mut evict = Set::new();
        if self.corrected {
            evict = &self.private - &item_h; // l. 12, mended
        } else if keys.len() > self.places {
            evict = &self.private & &item_h; // l. 12
        }
        self.private = item_h; // l. 13
        if keys.len() > self.places + self.room {
            self.compete(history, flash, &evict);
        } else if keys.len() > self.places {
            self.public = &keys - &self.private; // l. 17
        } else if self.corrected {
            self.public = &self.public - &self.private;
        }
        assert!(self.public.len() <= self.room, "the public zone is overfull");
        &self.private | &self.public // l. 4
    }

    fn compete(&mut self, history: &History, flash: &Set, evict: &Set) {
        let popularity = |chunk: &ChunkId| history.temperature(chunk);
        let mut public = &self.public - &self.private; // l. 19
        let pop = &history.accessed() - &self.private; // l. 20
        if pop.len() >= self.room {
            self.public = highest(&pop, self.room, flash, popularity); // l. 22-23
            return;
        }
        public = &(&public | evict) - &pop; // l. 25-26
        let room = self.room - pop.len();
        let j =
            if self.corrected { room } else { public.len().saturating_sub(pop.len()).min(room) };
        self.public = &highest(&public, j, flash, popularity) | &pop; // l. 27-29
    }
}
