//! Mirrored chunks: who answers for blocks that two pools hold, and when that changes.
//!
//! The fast loop beside a placement's slow one: a [`Router`] is asked every [`ROUTING_PERIOD`],
//! from what each pool did since, and names a share of requests for the slower side. The machine
//! spreads them. Rules that routers share stand here: smoothed latencies, and steps of a ratio
//! towards balance.

use super::{FLASH, Pattern, PoolChange, PoolLoad, PoolTraits, VolumeView};
use thermocline_units::{Nanos, PoolId};

/// Time between two questions to a router. MOST's loop turns every 200 ms, Orthus's every 25.
pub const ROUTING_PERIOD: Nanos = Nanos(100_000_000);

/// Shares of requests that go to the slower side of a mirrored chunk, in millionths, at most
/// 1,000,000. Whole numbers, so that a recording says exactly what was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// Share of reads.
    pub reads: u32,
    /// Share of writes.
    pub writes: u32,
}

impl Route {
    /// The same share, 0 to 1, of both.
    pub(super) fn all(share: f64) -> Route {
        let share = Route::millionths(share);
        Route { reads: share, writes: share }
    }

    /// A share, 0 to 1, of reads only.
    pub(super) fn reads(share: f64) -> Route {
        Route { reads: Route::millionths(share), writes: 0 }
    }

    fn millionths(share: f64) -> u32 {
        (share.clamp(0.0, 1.0) * 1e6).round() as u32
    }
}

/// Divides requests between the sides of mirrored chunks.
pub trait Router {
    /// The shares from now on; `loads`: what every pool did for clients since the last call, from
    /// the fastest to the slowest.
    fn route(&mut self, loads: &[PoolLoad]) -> Route;
}

/// Figures of a pool between two looks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    /// Requests a second, smoothed.
    pub(super) rate: f64,
    /// Seconds a request, smoothed; 0 before the first.
    pub(super) latency: f64,
    /// The highest rate that was ever seen.
    peak: f64,
}

impl Meter {
    /// Takes in what a pool did in `seconds`; the newest counts `weight`.
    pub(super) fn note(&mut self, load: &PoolLoad, seconds: f64, weight: f64) {
        let rate = load.requests() as f64 / seconds;
        self.rate += (rate - self.rate) * weight;
        self.peak = self.peak.max(self.rate);
        if let Some(latency) = load.latency() {
            let latency = latency.as_secs_f64();
            let weight = if self.latency == 0.0 { 1.0 } else { weight };
            self.latency += (latency - self.latency) * weight;
        }
    }

    /// Seconds a request; as if alone, before the first.
    pub(super) fn latency_of(&self, traits: &PoolTraits) -> f64 {
        if self.latency > 0.0 { self.latency } else { alone(traits) }
    }

    /// Cost of one more request a second to all of them, in seconds: L + x · dL/dx.
    ///
    /// The curve is that of a queue, L = s + k · ρ/(1−ρ), ρ = x/µ: s is the profile's latency
    /// alone, µ its rate, or the highest that was seen if that is more, k what the measured latency
    /// says.
    pub(super) fn marginal(&self, traits: &PoolTraits) -> f64 {
        let (alone, latency) = (alone(traits), self.latency_of(traits));
        let most = (traits.of(Pattern::RandomRead).per_second as f64).max(self.peak / BUSY_MAX);
        let busy = (self.rate / most).clamp(0.0, BUSY_MAX);
        // L − s = k·ρ/(1−ρ), and x·dL/dx = k·ρ/(1−ρ)²: the wait, once more for its slope.
        latency + (latency - alone).max(0.0) / (1.0 - busy)
    }
}

/// The pool whose load is shared with the fastest.
pub(super) const SECOND: PoolId = PoolId(1);
/// Weight of the newest 100 ms in latencies and rates.
const NEWEST: f64 = 0.3;

/// The quantity to be equal on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Balanced {
    /// Seconds a request (MOST).
    Latency,
    /// Cost of one more request to all of them (ours).
    Marginal,
}

/// Load that the loop found last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// The fastest pool is the dearer one.
    Over,
    /// The fastest pool could take more.
    Under,
    Even,
}

/// MOST's fast loop between the fastest pool and the next: `step` more of the requests go to the
/// slower side while the faster is dearer by more than `theta`, and so much less while it is
/// cheaper.
#[derive(Debug)]
pub(super) struct Balance {
    balanced: Balanced,
    theta: f64,
    step: f64,
    share: f64,
    meters: [Meter; 2],
    /// Traits of both pools; known from the first epoch on.
    traits: Option<[PoolTraits; 2]>,
    pub(super) load: Load,
}

impl Balance {
    /// Pools are at other places. What was measured of the two sides is forgotten where one of them
    /// is another pool, and nothing is diverted until more is known.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        let (PoolChange::Joined(at) | PoolChange::Left(at)) = change;
        if at <= SECOND {
            *self = Balance::new(self.balanced, self.theta, self.step);
        }
    }

    /// Nothing is diverted at first.
    pub(super) fn new(balanced: Balanced, theta: f64, step: f64) -> Balance {
        let (meters, traits) = (Default::default(), None);
        Balance { balanced, theta, step, share: 0.0, meters, traits, load: Load::Under }
    }

    /// Learns what both pools can do; there must be two.
    pub(super) fn look(&mut self, view: &dyn VolumeView) {
        self.traits = Some([view.traits(FLASH), view.traits(SECOND)]);
    }

    /// The share of requests, 0 to 1, that go to the slower side.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// True if the mirrors that there are can take no more.
    pub(super) fn diverts_all(&self) -> bool {
        self.share >= 1.0
    }

    /// Costs of both pools' requests, in seconds; `None` before anything is known.
    fn costs(&self) -> Option<[f64; 2]> {
        let traits = self.traits.as_ref()?;
        let cost = |pool: usize| match self.balanced {
            Balanced::Marginal => self.meters[pool].marginal(&traits[pool]),
            Balanced::Latency => self.meters[pool].latency_of(&traits[pool]),
        };
        Some([cost(0), cost(1)])
    }

    fn weigh(&mut self) {
        let Some([fast, slow]) = self.costs() else { return };
        (self.load, self.share) = if fast > (1.0 + self.theta) * slow {
            (Load::Over, (self.share + self.step).min(1.0))
        } else if fast < (1.0 - self.theta) * slow {
            (Load::Under, (self.share - self.step).max(0.0))
        } else {
            (Load::Even, self.share)
        };
    }
}

impl Router for Balance {
    fn route(&mut self, loads: &[PoolLoad]) -> Route {
        for (meter, load) in self.meters.iter_mut().zip(loads) {
            meter.note(load, ROUTING_PERIOD.as_secs_f64(), NEWEST);
        }
        self.weigh();
        Route::all(self.share)
    }
}

/// Chunks that a pool can hold; a pool without an end counts as what is on it.
pub(super) fn slots(view: &dyn VolumeView, pool: PoolId) -> u64 {
    let capacity = view.capacity_chunks(pool);
    if capacity > u64::from(u32::MAX) { view.used_chunks(pool) } else { capacity }
}

/// Slots of such a share of all, 0 to 1.
pub(super) fn of_all_slots(view: &dyn VolumeView, share: f64) -> u64 {
    let all: u64 = (0..view.pool_count()).map(|pool| slots(view, PoolId(pool))).sum();
    (all as f64 * share) as u64
}

/// No pool is taken for busier than this: the curve has no end at 1.
const BUSY_MAX: f64 = 0.98;

/// Seconds of a random read that is alone.
fn alone(traits: &PoolTraits) -> f64 {
    traits.of(Pattern::RandomRead).latency.as_secs_f64()
}
