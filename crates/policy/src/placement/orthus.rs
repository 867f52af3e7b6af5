//! Orthus: a cache that lets some of its hits be served by what is below it (non-hierarchical
//! caching).
//!
//! The fastest pool is a cache of whole chunks: the hottest are mirrored there.
//!
//! 1. *Classic*: data is admitted, every request to a cached block goes to the cache. When the miss
//!    ratio has changed by no more than `stable` in 100 ms and is not above `misses`, tuning
//!    begins.
//! 2. *Tuning*: nothing is admitted. Three shares of cached reads for the cache are tried for 100
//!    ms each, la − `step`, la and la + `step`, from la = 1; the one with the least mean latency is
//!    the next la. Writes go to the cache as ever.
//! 3. Back to classic when the miss ratio is 0.2 above what it was, or la stayed 1 twice.
//! 4. At the end of an epoch of classic mode the chunks with the most accesses, older ones for
//!    less, belong in the cache, as many as it holds; the others leave it: newer blocks are written
//!    back.
//!
//! Source: Wu et al., "The Storage Hierarchy is Not a Hierarchy" (FAST 2021), the rules of its
//! block cache. Differs: chunks in place of 4 KiB blocks, and an epoch's hottest in place of every
//! miss; 100 ms in place of 25; mean latency as what is sought, because the source's throughput
//! says nothing of a load that does not depend on it.
//!
//! State: 63 B a chunk, 16 B a mirrored one (`warmth`). O(1) an access, O(n log n) an epoch.

use super::chunks::Chunks;
use super::mirrors::{Route, Router};
use super::plan::Rooms;
use super::warmth::{Warm, Warmth};
use super::{Budget, ChunkAccess, FLASH, Move, Placement, PoolLoad, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::Nanos;

const STABLE: Setting = Setting {
    name: "stable",
    default: "0.001",
    unit: "share of accesses",
    help: "the miss ratio is stable when it changes by no more in 100 ms",
};
const MISSES: Setting = Setting {
    name: "misses",
    default: "0.2",
    unit: "share of accesses",
    help: "a miss ratio above this is not tuned with",
};
const STEP: Setting = Setting {
    name: "step",
    default: "0.02",
    unit: "share of reads",
    help: "how far from the present share others are tried",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "orthus",
    summary: "caches the hottest chunks on the fastest pool and diverts some of their reads below",
    source: "Orthus, FAST 2021",
    settings: &[STABLE, MISSES, STEP],
    build: Build::Placement(|settings| Ok(Box::new(Orthus::new(settings)?))),
};

/// The miss ratio may rise by so much before tuning ends.
const DRIFT: f64 = 0.2;
/// Times that la may stay 1 before tuning ends.
const STAYS: u32 = 2;

/// State of the loop.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Classic {
        /// The last miss ratio; `None`: nothing was accessed yet.
        misses: Option<f64>,
    },
    Tuning {
        /// The miss ratio at its beginning.
        base: f64,
        /// Share of cached reads that the cache serves.
        la: f64,
        /// Mean latencies of the shares that were tried, in seconds.
        tried: [f64; 3],
        count: usize,
        /// Times that la stayed 1.
        stayed: u32,
    },
}

/// The fast loop.
#[derive(Debug)]
struct Tuner {
    stable: f64,
    misses: f64,
    step: f64,
    mode: Mode,
    /// Accesses since the last turn: to cached chunks, and all.
    hits: u64,
    accesses: u64,
}

impl Tuner {
    /// The share that is tried as number `count`.
    fn tried(&self, la: f64, count: usize) -> f64 {
        (la + self.step * (count as f64 - 1.0)).clamp(0.0, 1.0)
    }

    fn turn(&mut self, misses: f64, latency: f64) {
        self.mode = match self.mode {
            Mode::Classic { misses: Some(before) }
                if (misses - before).abs() <= self.stable && misses <= self.misses =>
            {
                Mode::Tuning { base: misses, la: 1.0, tried: [0.0; 3], count: 0, stayed: 0 }
            }
            Mode::Classic { .. } => Mode::Classic { misses: Some(misses) },
            Mode::Tuning { base, .. } if misses > base + DRIFT => {
                Mode::Classic { misses: Some(misses) }
            }
            Mode::Tuning { base, la, mut tried, count, stayed } => {
                tried[count] = latency;
                if count < 2 {
                    Mode::Tuning { base, la, tried, count: count + 1, stayed }
                } else {
                    self.choose(base, la, tried, stayed)
                }
            }
        };
    }

    fn choose(&self, base: f64, la: f64, tried: [f64; 3], stayed: u32) -> Mode {
        // Of equal ones the present share, then the larger one.
        let best = [1, 2, 0].into_iter().min_by(|&a, &b| tried[a].total_cmp(&tried[b]));
        let la = self.tried(la, best.unwrap_or(1));
        let stayed = if la >= 1.0 { stayed + 1 } else { 0 };
        match stayed >= STAYS {
            true => Mode::Classic { misses: None },
            false => Mode::Tuning { base, la, tried: [0.0; 3], count: 0, stayed },
        }
    }
}

impl Router for Tuner {
    fn route(&mut self, loads: &[PoolLoad]) -> Route {
        let (hits, accesses) = (std::mem::take(&mut self.hits), std::mem::take(&mut self.accesses));
        let requests: u64 = loads.iter().map(PoolLoad::requests).sum();
        if accesses > 0 && requests > 0 {
            let time = |load: &PoolLoad| {
                load.latency().unwrap_or_default().as_secs_f64() * load.requests() as f64
            };
            let latency = loads.iter().map(time).sum::<f64>() / requests as f64;
            self.turn(1.0 - hits as f64 / accesses as f64, latency);
        }
        match self.mode {
            Mode::Classic { .. } => Route::default(),
            Mode::Tuning { la, count, .. } => Route::reads(1.0 - self.tried(la, count)),
        }
    }
}

/// Orthus: a cache that lets some hits be served by the pool below.
#[derive(Debug)]
struct Orthus {
    tuner: Tuner,
    warmth: Warmth,
    /// Chunks that were ever cached, and whether each is now.
    chunks: Chunks,
    cached: Vec<bool>,
}

impl Orthus {
    fn new(settings: &Settings) -> Result<Orthus, SettingsError> {
        Ok(Orthus {
            tuner: Tuner {
                stable: settings.number("stable", 0.0, 1.0)?,
                misses: settings.number("misses", 0.0, 1.0)?,
                step: settings.number("step", 0.0, 1.0)?,
                mode: Mode::Classic { misses: None },
                hits: 0,
                accesses: 0,
            },
            warmth: Warmth::default(),
            chunks: Chunks::default(),
            cached: Vec::new(),
        })
    }

    fn note_cached(&mut self, ranked: &[Warm]) {
        self.cached.fill(false);
        for warm in ranked.iter().filter(|warm| is_cached(warm)) {
            let number = self.chunks.number(warm.chunk) as usize;
            if number >= self.cached.len() {
                self.cached.resize(number + 1, false);
            }
            self.cached[number] = true;
        }
    }
}

fn is_cached(warm: &Warm) -> bool {
    warm.home == FLASH || warm.mirror == Some(FLASH)
}

impl Placement for Orthus {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.warmth.record(access);
        let number = self.chunks.find(access.chunk);
        let cached = number.and_then(|number| self.cached.get(number as usize));
        self.tuner.accesses += 1;
        self.tuner.hits += u64::from(cached.copied().unwrap_or(false));
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        let ranked = self.warmth.ranked(view);
        self.note_cached(&ranked);
        if view.pool_count() < 2 || matches!(self.tuner.mode, Mode::Tuning { .. }) {
            return;
        }
        let belong = view.capacity_chunks(FLASH).min(ranked.len() as u64) as usize;
        let (inside, outside) = ranked.split_at(belong);
        let mut rooms = Rooms::of(view);
        let mut proposed = Vec::new();
        let mut leaving = outside.iter().rev().filter(|warm| is_cached(warm));
        for hot in inside.iter().filter(|warm| !is_cached(warm) && warm.warmth > 0.0) {
            while !rooms.has_room(FLASH) {
                let Some(cold) = leaving.next() else { break };
                let below = if cold.home == FLASH { rooms.below(FLASH) } else { Some(cold.home) };
                let Some(to) = below else { continue };
                if cold.home == FLASH {
                    rooms.take(to);
                }
                rooms.give_back(FLASH);
                proposed.push(Move::to(cold.chunk, to));
            }
            if !rooms.has_room(FLASH) {
                break;
            }
            rooms.take(FLASH);
            proposed.push(Move::mirror(hot.chunk, FLASH));
        }
        moves.extend(proposed.into_iter().take(budget.moves.try_into().unwrap_or(usize::MAX)));
    }

    fn router(&mut self) -> Option<&mut dyn Router> {
        Some(&mut self.tuner)
    }

    fn footprint(&self) -> Footprint {
        let own = self.chunks.bytes() + self.cached.capacity() as u64;
        Footprint { resident: 0, index: self.warmth.bytes() + own }
    }
}

#[cfg(test)]
mod tests;
