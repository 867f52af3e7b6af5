//! Budget of retries: a bucket that every arrival and every second fill a little.
//!
//! A retry takes 1. The bucket holds at most what ten seconds of the floor bring, or
//! [`HELD_MIN`]: a long calm does not save up for a storm.
//!
//! State: 24 B. O(1).

use crate::tactics::{Chosen, RetryRule};
use thermocline_units::Nanos;

/// Seconds of the floor that the bucket holds.
const HELD_S: f64 = 10.0;
/// Least number of tokens that it can hold, so that a floor of 0 leaves room for shares.
const HELD_MIN: f64 = 10.0;

/// Retries that may be made.
#[derive(Debug)]
pub struct RetryBudget {
    held: f64,
    filled: Nanos,
}

impl RetryBudget {
    /// A full one.
    pub fn new(now: Nanos, floor_per_s: f64) -> RetryBudget {
        RetryBudget { held: held_max(floor_per_s), filled: now }
    }

    /// A request has arrived.
    pub fn arrived(&mut self, share: f64, floor_per_s: f64) {
        self.held = (self.held + share).min(held_max(floor_per_s));
    }

    /// Takes one retry; `false` when the tactic allows none.
    pub fn take(&mut self, now: Nanos, floor_per_s: f64, tactic: &Chosen<dyn RetryRule>) -> bool {
        let seconds = now.saturating_sub(self.filled).as_secs_f64();
        self.filled = self.filled.max(now);
        self.held = (self.held + seconds * floor_per_s).min(held_max(floor_per_s));
        let allowed = tactic.ask(|tactic| tactic.allows(self.held));
        if allowed {
            self.held = (self.held - 1.0).max(0.0);
        }
        allowed
    }
}

fn held_max(floor_per_s: f64) -> f64 {
    (floor_per_s * HELD_S).max(HELD_MIN)
}
