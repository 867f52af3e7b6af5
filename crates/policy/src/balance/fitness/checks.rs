//! Health of a backend by active checks: rise and fall by results in a row, and when the next is
//! due.
//!
//! Checks of a backend are an interval apart, more or less by [`JITTER`]: backends that were added
//! together, and several balancers that were started together, drift apart.

use thermocline_units::{Nanos, Rng};

/// Part of the interval by which a check may come sooner or later.
const JITTER: f64 = 0.2;

/// Rules for results of active checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Checks {
    /// Time between checks of a backend, on average.
    pub interval: Nanos,
    /// Successes in a row that bring a backend back. The first check of a new one decides alone.
    pub rise: u32,
    /// Failures in a row that take a backend out.
    pub fall: u32,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { interval: Nanos::from_secs(2), rise: 2, fall: 3 }
    }
}

/// One backend's checks.
#[derive(Debug, Clone)]
pub struct Health {
    fit: Option<bool>,
    /// Results in a row that speak against `fit`.
    against: u32,
    due: Nanos,
}

impl Health {
    /// Nothing known; the first check is due at once.
    pub fn new(now: Nanos) -> Health {
        Health { fit: None, against: 0, due: now }
    }

    /// `None` before the first result.
    pub fn fit(&self) -> Option<bool> {
        self.fit
    }

    /// Takes another's verdict for its own, while it has none. The next check is due as before.
    pub fn believe(&mut self, fit: Option<bool>) {
        self.fit = self.fit.or(fit);
    }

    /// True if a check is due; if so, the next is an interval later.
    pub fn take_due(&mut self, now: Nanos, checks: &Checks, rng: &mut Rng) -> bool {
        if now < self.due {
            return false;
        }
        let factor = 1.0 - JITTER + 2.0 * JITTER * rng.unit_f64();
        self.due = Nanos(now.0 + (checks.interval.0 as f64 * factor) as u64);
        true
    }

    /// A result; `true` when it changed the verdict.
    pub fn checked(&mut self, passed: bool, checks: &Checks) -> bool {
        let Some(fit) = self.fit else {
            self.fit = Some(passed);
            return true;
        };
        if passed == fit {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let enough = if passed { checks.rise } else { checks.fall };
        if self.against < enough.max(1) {
            return false;
        }
        self.fit = Some(passed);
        self.against = 0;
        true
    }
}
