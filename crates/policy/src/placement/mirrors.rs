//! Mirrored chunks: who answers for blocks that two pools hold, and when that changes.
//!
//! The fast loop beside a placement's slow one: a [`Router`] is asked every [`ROUTING_PERIOD`],
//! from what each pool did since, and names a share of requests for the slower side. The machine
//! spreads them. Rules that routers share stand here: smoothed latencies, and steps of a ratio
//! towards balance.

use super::{Pattern, PoolLoad, PoolTraits};
use thermocline_units::Nanos;

/// How often a router is asked. MOST's loop turns every 200 ms, Orthus's every 25.
pub const ROUTING_PERIOD: Nanos = Nanos(100_000_000);

/// Shares of requests that go to the slower side of a mirrored chunk, in millionths, at most
/// 1,000,000. Whole numbers, so that a recording says exactly what was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// Of reads.
    pub reads: u32,
    /// Of writes.
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

/// What is known of a pool between two looks.
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

    /// What one more request a second costs all of them, in seconds: L + x · dL/dx.
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

/// No pool is taken for busier than this: the curve has no end at 1.
const BUSY_MAX: f64 = 0.98;

/// Seconds of a random read that is alone.
fn alone(traits: &PoolTraits) -> f64 {
    traits.of(Pattern::RandomRead).latency.as_secs_f64()
}
