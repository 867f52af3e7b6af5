//! Measures: what is offered to each function, and what a packet costs on each worker.
//!
//! Invariant: a measured cost is above 0; without measures the stated one stands.

use crate::lane::Took;
use crate::work::Place;
use std::collections::BTreeMap;
use thermocline_policy::accel::FunctionId;
use thermocline_units::Nanos;

/// Weight of a new measure in the mean.
const WEIGHT: f64 = 0.125;

/// Counters of demand, and means of costs.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Packets of each function since the last look.
    came: Vec<u64>,
    /// Packets a second, at the last look.
    offered: Vec<f64>,
    looked: Nanos,
    /// Length of the last period, seconds.
    seconds: f64,
    costs: BTreeMap<(FunctionId, Place), f64>,
}

impl Meter {
    /// Counts a packet for the functions of its chain.
    pub(crate) fn came(&mut self, chain: &[FunctionId]) {
        for function in chain {
            if self.came.len() <= function.index() {
                self.came.resize(function.index() + 1, 0);
            }
            self.came[function.index()] += 1;
        }
        assert!(chain.iter().all(|function| self.came[function.index()] > 0), "it was counted");
    }

    /// Ends a period, and begins the next.
    pub(crate) fn look(&mut self, now: Nanos) {
        let seconds = now.saturating_sub(self.looked).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        self.offered = self.came.iter().map(|came| *came as f64 / seconds).collect();
        self.came.fill(0);
        (self.looked, self.seconds) = (now, seconds);
        assert!(self.offered.iter().all(|rate| rate.is_finite()), "a rate is a number");
    }

    /// Length of the last period, seconds; 0 before the first one has ended.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Packets a second over the last period.
    pub(crate) fn offered(&self, function: FunctionId) -> f64 {
        self.offered.get(function.index()).copied().unwrap_or(0.0)
    }

    /// Notes what a packet took.
    pub(crate) fn measured(&mut self, function: FunctionId, place: Place, took: Took) {
        let (Took::Exactly(took_ns) | Took::AtMost(took_ns)) = took;
        assert!(took_ns.is_finite() && took_ns >= 0.0, "a time is not negative");
        let took_ns = took_ns.max(1.0);
        let mean = self.costs.entry((function, place)).or_insert(took_ns);
        match took {
            Took::Exactly(_) => *mean += (took_ns - *mean) * WEIGHT,
            Took::AtMost(_) => *mean = mean.min(took_ns),
        }
    }

    /// Nanoseconds a packet, if it has run there.
    pub(crate) fn cost(&self, function: FunctionId, place: Place) -> Option<f64> {
        self.costs.get(&(function, place)).copied()
    }
}
