//! A backend that comes (back) gets its share in steps: caches are cold, and connections few.
//!
//! How the share grows over the length of the slow start says a tactic
//! ([`crate::tactics::ShareRule`]); in steps, so that the rule is not told of a new weight with
//! every request.
//!
//! State: 24 B a backend. O(1).

use crate::tactics::{Chosen, ShareRule};
use thermocline_units::Nanos;

/// One backend's slow start.
#[derive(Debug, Clone, Default)]
pub struct SlowStart {
    since: Option<Nanos>,
    /// Time that it had taken before, at another dispatcher.
    before: Nanos,
}

impl SlowStart {
    /// Begins one of `length`; 0: there is none.
    pub fn begin(&mut self, now: Nanos, length: Nanos) {
        *self = SlowStart { since: (length.0 > 0).then_some(now), before: Nanos(0) };
    }

    /// Goes on from one that has taken `before` elsewhere.
    pub fn go_on(&mut self, now: Nanos, length: Nanos, before: Nanos) {
        self.begin(now, length);
        self.before = before;
    }

    /// True while it lasts.
    pub fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Time that it has taken so far; `None`: it is over.
    pub fn taken(&self, now: Nanos) -> Option<Nanos> {
        let since = now.saturating_sub(self.since?);
        Some(Nanos(since.0.saturating_add(self.before.0)))
    }

    /// Share of the backend's weight that counts now, in (0, 1]; ends it when its time is up.
    pub fn share(&mut self, now: Nanos, length: Nanos, tactic: &Chosen<dyn ShareRule>) -> f64 {
        let Some(taken) = self.taken(now) else { return 1.0 };
        let part = taken.as_secs_f64() / length.as_secs_f64().max(f64::MIN_POSITIVE);
        if part >= 1.0 {
            self.since = None;
            return 1.0;
        }
        tactic.ask(|tactic| tactic.share(part))
    }
}
