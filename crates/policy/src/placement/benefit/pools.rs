//! A pool under load: what waiting costs on it, and what one more chunk adds.
//!
//! The chunks on a pool take the share ρ of its time and would wait B seconds a second if it were
//! idle. Under load they wait B / (1 − ρ/c), as in M/M/1, with c what the pool bears in what its
//! traits say. Then a chunk with share u and idle wait b adds b / (1 − ρ/c) for itself and B ·
//! (u/c) / (1 − ρ/c)² for the others, its marginal cost.
//!
//! c is learnt: an epoch's mean latency is g times that of an idle pool, so 1 − ρ/c = 1/g. Where g
//! is below [`NOTICEABLE`] the epoch says nothing. Beyond [`FULLEST`] of what it bears a pool
//! counts as that full, and the more there is, the dearer.

use crate::placement::demand::{Costs, Demand};
use crate::placement::{Pattern, PoolLoad, PoolTraits};
use thermocline_units::Nanos;

/// Latency over that of an idle pool, from which on an epoch tells what a pool bears.
const NOTICEABLE: f64 = 1.3;
/// Share of what it bears.
const FULLEST: f64 = 0.98;
/// Load that a pool may bear, in its traits.
const BEARABLE: std::ops::RangeInclusive<f64> = 0.02..=4.0;
/// Weight of the newest epoch in what a pool bears.
const NEWEST: f64 = 0.5;
const GIB: f64 = 1_073_741_824.0;

/// Load of a chunk on a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    /// Share of its time.
    pub(super) time: f64,
    /// Seconds of waiting a second, on the idle pool.
    wait: f64,
    /// Seconds of waiting a second that its writes are worth.
    wear: f64,
}

/// A pool under load.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    service: Costs,
    alone: Costs,
    /// Seconds of waiting that a byte written is worth.
    wear: f64,
    /// Bytes a second of streams.
    reads: f64,
    writes: f64,
    /// ρ, B and c.
    time: f64,
    wait: f64,
    bears: f64,
}

impl Default for Loaded {
    fn default() -> Loaded {
        let nothing = Costs::of(&PoolTraits::assumed(thermocline_units::PoolId(0), 1));
        Loaded {
            service: nothing,
            alone: nothing,
            wear: 0.0,
            reads: 1.0,
            writes: 1.0,
            time: 0.0,
            wait: 0.0,
            bears: 1.0,
        }
    }
}

impl Share {
    /// A part of it, 0 to 1.
    pub(super) fn part(self, part: f64) -> Share {
        Share { time: self.time * part, wait: self.wait * part, wear: self.wear * part }
    }
}

impl Loaded {
    /// Empties it; what it bears is kept. A GiB written is worth `wear` seconds if it wears out.
    pub(super) fn reset(&mut self, traits: &PoolTraits, wear: f64) {
        let stream = |pattern| traits.of(pattern).per_second as f64 * 4096.0;
        *self = Loaded {
            service: Costs::of(traits),
            alone: Costs::waiting(traits),
            wear: if traits.overwrites.is_some() { wear / GIB } else { 0.0 },
            reads: stream(Pattern::SequentialRead),
            writes: stream(Pattern::SequentialWrite),
            time: 0.0,
            wait: 0.0,
            bears: self.bears,
        };
    }

    /// Load of a demand on it.
    #[inline]
    pub(super) fn share(&self, demand: &Demand) -> Share {
        Share {
            time: demand.time(&self.service),
            wait: demand.time(&self.alone),
            wear: demand.written_bytes() * self.wear,
        }
    }

    pub(super) fn join(&mut self, share: Share) {
        self.time += share.time;
        self.wait += share.wait;
    }

    pub(super) fn leave(&mut self, share: Share) {
        self.time = (self.time - share.time).max(0.0);
        self.wait = (self.wait - share.wait).max(0.0);
    }

    /// Takes in what the machine measured in the epoch.
    pub(super) fn learn(&mut self, load: &PoolLoad, traits: &PoolTraits, epoch: Nanos) {
        let alone = |pattern| traits.of(pattern).latency.as_secs_f64();
        let idle = load.reads as f64 * alone(Pattern::RandomRead)
            + load.writes as f64 * alone(Pattern::RandomWrite);
        let Some(latency) = load.latency().filter(|_| idle > 0.0) else { return };
        let slower = latency.as_secs_f64() * load.requests() as f64 / idle;
        if slower < NOTICEABLE || self.time <= 0.0 || epoch.0 == 0 {
            return;
        }
        let bears = self.time / (1.0 - 1.0 / slower);
        let bears = bears.clamp(*BEARABLE.start(), *BEARABLE.end());
        self.bears += (bears - self.bears) * NEWEST;
    }

    /// Slowdown of a request against the wait on the idle pool, and of all of them together, when
    /// chunks take `time` of it.
    fn slower(&self, time: f64) -> f64 {
        let full = time / self.bears;
        let over = (full - FULLEST).max(0.0);
        (1.0 + over / (1.0 - FULLEST)) / (1.0 - full.min(FULLEST))
    }

    /// Seconds a second that all users wait more when a chunk joins.
    pub(super) fn cost(&self, share: Share) -> f64 {
        let with = (self.wait + share.wait) * self.slower(self.time + share.time);
        with - self.wait * self.slower(self.time) + share.wear
    }

    /// Seconds a second that all users wait less when a chunk that is here leaves.
    pub(super) fn saved_without(&self, share: Share) -> f64 {
        let without =
            (self.wait - share.wait).max(0.0) * self.slower((self.time - share.time).max(0.0));
        self.wait * self.slower(self.time) - without + share.wear
    }

    /// Seconds that reading, and writing, so many bytes takes it, at its present load; and wear.
    pub(super) fn reading(&self, bytes: f64) -> f64 {
        bytes / self.reads * self.slower(self.time)
    }

    /// The same for writing.
    pub(super) fn writing(&self, bytes: f64) -> f64 {
        bytes / self.writes * self.slower(self.time) + bytes * self.wear
    }
}
