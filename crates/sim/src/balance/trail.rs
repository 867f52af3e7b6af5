//! Arrivals at a site and departures, kept for as long as a report may still ask for them.
//!
//! Counts up to two moments are wanted: that of the last report and that of the one before. Both
//! only move forward, so each entry is passed twice. State: 8 B an event in between.

use std::collections::VecDeque;
use thermocline_units::Nanos;

/// Times of events, in order.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Events after the earlier moment.
    times: VecDeque<Nanos>,
    /// Events up to the earlier moment.
    before: u64,
    /// Number of `times` up to the later moment.
    between: usize,
}

impl Trail {
    /// An event, not before the last.
    pub(super) fn push(&mut self, at: Nanos) {
        self.times.push_back(at);
    }

    /// Moves to the two moments, neither back; counts of events up to and at each.
    pub(super) fn count(&mut self, earlier: Option<Nanos>, later: Option<Nanos>) -> [u64; 2] {
        if let Some(later) = later {
            while self.times.get(self.between).is_some_and(|time| *time <= later) {
                self.between += 1;
            }
        }
        if let Some(earlier) = earlier {
            while self.between > 0 && self.times.front().is_some_and(|time| *time <= earlier) {
                self.times.pop_front();
                self.before += 1;
                self.between -= 1;
            }
        }
        [self.before, self.before + self.between as u64]
    }
}
