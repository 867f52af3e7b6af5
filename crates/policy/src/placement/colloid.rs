//! Colloid as a placement: traffic is divided so that fast and slow pools are equally slow.
//!
//! 1. The default tier is the fastest pool, the alternate one is all the others. At an epoch's end
//!    each tier's occupancy (requests under way on the mean: arrivals × latency) and arrival rate
//!    are smoothed; their quotient is its latency, by Little's law. A tier that never had a request
//!    has its unloaded latency.
//! 2. p is the share of accesses that went to chunks on the default tier. When the latencies differ
//!    by less than `delta` of the default's, nothing moves.
//! 3. Otherwise p itself becomes a bound of the p that is sought: the lower one when the default
//!    tier is faster, the upper one when it is slower. A bound that the other contradicts, or that
//!    is nearer than `epsilon` to it, is opened again: the load has changed.
//! 4. Chunks move whose shares of the accesses sum to at most the distance to the middle of the
//!    bounds, hottest first. Where the default tier is full, a hot chunk changes places with the
//!    coldest of it, and the difference counts.
//! 5. No more bytes move than `limit` a second of the epoch.
//!
//! Source: Vuppalapati and Agarwal, "Tiered Memory Management: Access Latency is the Key!" (SOSP
//! 2024), the bisection of the paper, not the closed form of the published program. Differs: its
//! quantum of 10 ms is the epoch, so its smoothing of 1/16 a quantum is a setting with a larger
//! default; chunks in place of pages; more than two pools. Equal latencies are not the least mean
//! latency, which is where *marginal* latencies are equal.
//!
//! State: 58 B a chunk (see `activity`). O(1) an access; O(n log n) an epoch over the chunks
//! touched and those on the fastest pool.

use super::activity::Activity;
use super::plan::Plan;
use super::{Budget, ChunkAccess, FLASH, Move, Pattern, Placement, PoolChange, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use std::cmp::Reverse;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

const DELTA: Setting = Setting {
    name: "delta",
    default: "0.05",
    unit: "fraction of the latency",
    help: "latencies that differ by less count as equal",
};
const EPSILON: Setting = Setting {
    name: "epsilon",
    default: "0.01",
    unit: "share of accesses",
    help: "bounds nearer to each other are opened again",
};
const SMOOTHING: Setting = Setting {
    name: "smoothing",
    default: "0.5",
    unit: "fraction",
    help: "weight of the newest epoch in occupancy and arrivals; the source's 10 ms take 0.0625",
};
const LIMIT: Setting = Setting {
    name: "limit",
    default: "64MiB",
    unit: "bytes a second",
    help: "moved at most, over the length of an epoch",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "colloid",
    summary: "divides the accesses between the fastest pool and the rest by equal latency",
    source: "Colloid, SOSP 2024",
    settings: &[DELTA, EPSILON, SMOOTHING, LIMIT],
    build: Build::Placement(|settings| Ok(Box::new(Colloid::new(settings)?))),
};

/// A tier by Little's law.
#[derive(Debug, Clone, Copy, Default)]
struct Tier {
    /// Requests under way, smoothed.
    occupancy: f64,
    /// Requests a second, smoothed.
    arrivals: f64,
}

impl Tier {
    fn note(&mut self, occupancy: f64, arrivals: f64, weight: f64) {
        if self.arrivals == 0.0 {
            *self = Tier { occupancy, arrivals };
            return;
        }
        self.occupancy += (occupancy - self.occupancy) * weight;
        self.arrivals += (arrivals - self.arrivals) * weight;
    }

    /// Seconds a request; `unloaded` when there never was one.
    fn latency(self, unloaded: f64) -> f64 {
        if self.arrivals > 0.0 { self.occupancy / self.arrivals } else { unloaded }
    }
}

/// Bounds of the share that is sought.
#[derive(Debug, Clone, Copy)]
struct Bracket {
    low: f64,
    high: f64,
}

impl Bracket {
    /// Nothing is known.
    const WHOLE: Bracket = Bracket { low: 0.0, high: 1.0 };

    /// Learns that the default tier is faster, or slower, at share `p`; the share to go to.
    fn learn(&mut self, p: f64, default_is_faster: bool, epsilon: f64) -> f64 {
        if default_is_faster {
            self.low = p;
            if self.high <= self.low {
                self.high = 1.0;
            }
        } else {
            self.high = p;
            if self.low >= self.high {
                self.low = 0.0;
            }
        }
        if (self.high - self.low).abs() < epsilon {
            match default_is_faster {
                true => self.high = 1.0,
                false => self.low = 0.0,
            }
        }
        f64::midpoint(self.low, self.high)
    }
}

/// The placement `colloid`.
#[derive(Debug)]
struct Colloid {
    delta: f64,
    epsilon: f64,
    smoothing: f64,
    limit: Bytes,
    activity: Activity,
    default_tier: Tier,
    alternate: Tier,
    bracket: Bracket,
}

/// A chunk with its accesses of the epoch.
#[derive(Debug, Clone, Copy)]
struct Hot {
    chunk: ChunkId,
    home: PoolId,
    accesses: u64,
}

impl Colloid {
    fn new(settings: &Settings) -> Result<Colloid, SettingsError> {
        Ok(Colloid {
            delta: settings.number("delta", 0.0, 10.0)?,
            epsilon: settings.number("epsilon", 0.0, 1.0)?,
            smoothing: settings.number("smoothing", 1e-6, 1.0)?,
            limit: settings.bytes("limit")?,
            activity: Activity::default(),
            default_tier: Tier::default(),
            alternate: Tier::default(),
            bracket: Bracket::WHOLE,
        })
    }

    /// Takes the epoch's measurements in; the latencies of default and alternate tier in seconds.
    fn latencies(&mut self, view: &dyn VolumeView) -> (f64, f64) {
        let seconds = view.epoch().as_secs_f64();
        let little = |pool: PoolId| {
            let load = view.load(pool);
            let arrivals = load.requests() as f64 / seconds;
            (arrivals * load.latency().unwrap_or_default().as_secs_f64(), arrivals)
        };
        let (occupancy, arrivals) = little(FLASH);
        self.default_tier.note(occupancy, arrivals, self.smoothing);
        let others = (1..view.pool_count()).map(|pool| little(PoolId(pool)));
        let (occupancy, arrivals) =
            others.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        self.alternate.note(occupancy, arrivals, self.smoothing);
        let unloaded = |pool| view.traits(pool).of(Pattern::RandomRead).latency.as_secs_f64();
        let below = PoolId(1.min(view.pool_count() - 1));
        (self.default_tier.latency(unloaded(FLASH)), self.alternate.latency(unloaded(below)))
    }

    /// Chunks that count, hottest first; of equally hot ones the lower id.
    fn hottest(&self) -> Vec<Hot> {
        let hot = |number: u32| Hot {
            chunk: self.activity.chunks.id(number),
            home: self.activity.pool_of(number),
            accesses: self.activity.counts(number).accesses(),
        };
        let mut all: Vec<Hot> = self.activity.standing().map(hot).collect();
        all.sort_unstable_by_key(|hot| (Reverse(hot.accesses), hot.chunk));
        all
    }

    /// Number of chunks that may move in this epoch.
    fn bound(&self, view: &dyn VolumeView) -> u64 {
        (self.limit.0 as f64 * view.epoch().as_secs_f64() / view.chunk_size().0 as f64) as u64
    }
}

/// Wishes for `accesses` more on the fastest pool.
fn more(plan: &mut Plan, all: &[Hot], view: &dyn VolumeView, mut accesses: u64) {
    let mut free = view.capacity_chunks(FLASH).saturating_sub(view.used_chunks(FLASH));
    let mut coldest = all.iter().rev().filter(|hot| hot.home == FLASH).peekable();
    let mut leaving: Vec<&Hot> = Vec::new();
    for hot in all.iter().filter(|hot| hot.home != FLASH && hot.accesses > 0) {
        let cold = if free > 0 { 0 } else { coldest.peek().map_or(u64::MAX, |cold| cold.accesses) };
        if cold >= hot.accesses {
            break; // All that follow are colder.
        }
        let gained = hot.accesses - cold;
        if gained > accesses {
            continue;
        }
        accesses -= gained;
        plan.wish(hot.chunk, hot.home, FLASH);
        match free {
            0 => leaving.extend(coldest.next()),
            _ => free -= 1,
        }
    }
    leaving.iter().rev().for_each(|cold| plan.may_yield(cold.chunk, FLASH));
}

/// Wishes for `accesses` fewer on the fastest pool.
fn fewer(plan: &mut Plan, all: &[Hot], mut accesses: u64) {
    let mut leaving = Vec::new();
    for hot in all.iter().filter(|hot| hot.home == FLASH && hot.accesses > 0) {
        if hot.accesses <= accesses {
            accesses -= hot.accesses;
            leaving.push(hot.chunk);
        }
    }
    // What falls first is told last.
    leaving.iter().rev().for_each(|&chunk| plan.wish(chunk, FLASH, PoolId(1)));
}

impl Placement for Colloid {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    /// The alternate tier is all other pools; the default one is another where the fastest changes.
    fn pools_changed(&mut self, change: PoolChange) {
        self.alternate = Tier::default();
        self.bracket = Bracket::WHOLE;
        if let PoolChange::Joined(FLASH) | PoolChange::Left(FLASH) = change {
            self.default_tier = Tier::default();
        }
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.activity.look(view);
        let (ours, others) = self.latencies(view);
        let all = self.hottest();
        self.activity.advance();
        let total: u64 = all.iter().map(|hot| hot.accesses).sum();
        if total == 0 || view.pool_count() < 2 || (ours - others).abs() < self.delta * ours {
            return;
        }
        let on_default = all.iter().filter(|hot| hot.home == FLASH);
        let p = on_default.map(|hot| hot.accesses).sum::<u64>() as f64 / total as f64;
        let sought = self.bracket.learn(p, ours < others, self.epsilon);
        let accesses = ((sought - p).abs() * total as f64) as u64;
        let mut plan = Plan::new(view);
        match ours < others {
            true => more(&mut plan, &all, view, accesses),
            false => fewer(&mut plan, &all, accesses),
        }
        plan.propose(Budget { moves: budget.moves.min(self.bound(view)) }, moves);
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.activity.bytes() }
    }
}

#[cfg(test)]
mod tests;
