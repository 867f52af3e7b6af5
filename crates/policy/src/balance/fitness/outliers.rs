//! Passive detection: a backend whose requests fail is left alone for a while.
//!
//! 1. So many failures in a row eject it; or, at the end of a window, a share of failures that the
//!    others together are far from. A fault that all have is not a backend's.
//! 2. It stays out for `ejection`, twice as long each time, up to `ejection_max`. A window in which
//!    it served and was not ejected forgives one ejection.
//! 3. When its time is up it comes back and must earn trust again: failures in a row are counted
//!    anew, the length of the next ejection is not.
//!
//! How many may be out at once is for the dispatcher, which knows them all. What is one too many,
//! and for how long a backend is out, says a tactic ([`crate::tactics::Ejection`]).
//!
//! State: 48 B a backend.

use crate::tactics::{Chosen, Ejection, Failures};
use thermocline_units::Nanos;

/// Ejections that are remembered at most; each doubles the next one.
pub(crate) const EJECTIONS_MAX: u32 = 16;

/// Rules by which failing requests take a backend out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outliers {
    /// Failures in a row; 0 switches this off.
    pub consecutive: u32,
    /// The window over which shares of failures are taken.
    pub interval: Nanos,
    /// Failures among a backend's requests in a window, in per cent, that take it out when the
    /// others together have less than half that share; 0 switches this off.
    pub failed_percent: u8,
    /// Requests in a window below which shares mean nothing.
    pub requests_min: u32,
    /// Length of the first ejection; each further one is twice as long.
    pub ejection: Nanos,
    /// The longest ejection.
    pub ejection_max: Nanos,
    /// Backends that may be ejected at the same time, in per cent, rounded down; one always may,
    /// where there are two.
    pub ejected_percent_max: u8,
}

impl Default for Outliers {
    fn default() -> Outliers {
        Outliers {
            consecutive: 5,
            interval: Nanos::from_secs(10),
            failed_percent: 50,
            requests_min: 20,
            ejection: Nanos::from_secs(10),
            ejection_max: Nanos::from_secs(300),
            ejected_percent_max: 50,
        }
    }
}

/// The record of one backend's requests.
#[derive(Debug, Clone, Default)]
pub struct Record {
    in_a_row: u32,
    requests: u32,
    failures: u32,
    ejections: u32,
    out_until: Option<Nanos>,
}

/// Requests and failures of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Requests.
    pub requests: u64,
    /// Failures among these.
    pub failures: u64,
}

impl Window {
    /// Share of failures, 0 to 1; 0 without requests.
    pub fn failed_share(self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.failures as f64 / self.requests as f64 }
    }

    /// This window without `other`.
    pub fn without(self, other: Window) -> Window {
        Window {
            requests: self.requests - other.requests,
            failures: self.failures - other.failures,
        }
    }

    /// Adds another window of the same time.
    pub fn add(&mut self, other: Window) {
        self.requests += other.requests;
        self.failures += other.failures;
    }
}

impl Record {
    /// Until when it is out.
    pub fn out_until(&self) -> Option<Nanos> {
        self.out_until
    }

    /// A request ended well.
    pub fn served(&mut self) {
        self.in_a_row = 0;
        self.requests += 1;
    }

    /// A request failed; `true` when that is one too many in a row.
    pub fn failed(&mut self, rules: &Outliers, ejection: &Chosen<dyn Ejection>) -> bool {
        self.in_a_row += 1;
        self.requests += 1;
        self.failures += 1;
        ejection.ask(|tactic| tactic.ejects_at_once(self.in_a_row, rules))
    }

    /// The window so far.
    pub fn window(&self) -> Window {
        Window { requests: self.requests.into(), failures: self.failures.into() }
    }

    /// True if its failures stand out from those of `all`, itself included.
    pub fn stands_out(
        &self,
        all: Window,
        rules: &Outliers,
        ejection: &Chosen<dyn Ejection>,
    ) -> bool {
        let window = Failures { own: self.window(), all };
        ejection.ask(|tactic| tactic.ejects(&window, rules))
    }

    /// A new window; one in which it served is forgiven.
    pub fn begin_window(&mut self) {
        if self.out_until.is_none() && self.requests > self.failures {
            self.ejections = self.ejections.saturating_sub(1);
        }
        self.requests = 0;
        self.failures = 0;
    }

    /// Takes it out; until when.
    pub fn eject(
        &mut self,
        now: Nanos,
        rules: &Outliers,
        ejection: &Chosen<dyn Ejection>,
    ) -> Nanos {
        let time = ejection.ask(|tactic| tactic.length(self.ejections, rules));
        let until = Nanos(now.0.saturating_add(time.0));
        self.ejections = (self.ejections + 1).min(EJECTIONS_MAX);
        self.out_until = Some(until);
        self.in_a_row = 0;
        until
    }

    /// Ejections that are not forgiven.
    pub fn ejections(&self) -> u32 {
        self.ejections
    }

    /// Goes on from what another has seen of it; it is not out for longer than it could be.
    pub fn go_on(
        &mut self,
        now: Nanos,
        out_for: Option<Nanos>,
        ejections: u32,
        outliers: &Outliers,
    ) {
        self.ejections = ejections.min(EJECTIONS_MAX);
        let until = |time: Nanos| Nanos(now.0.saturating_add(time.min(outliers.ejection_max).0));
        self.out_until = out_for.map(until);
    }

    /// Brings it back when its time is up; `true` when it was.
    pub fn return_if_due(&mut self, now: Nanos) -> bool {
        let due = self.out_until.is_some_and(|until| until <= now);
        if due {
            self.out_until = None;
        }
        due
    }
}
