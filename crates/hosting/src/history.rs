//! The last five minutes, second by second: the growth of totals.

use thermocline_admin::past::Seconds;
use thermocline_units::Nanos;

const SECOND: Nanos = Nanos::from_secs(1);

/// Totals since a start, and the growth of a second: the same figures.
pub(super) trait Growing: Clone + Default {
    /// Growth since `before`, as second `number`.
    fn since(&self, before: &Self, number: u64) -> Self;
}

/// Seconds, and the totals at the end of the last one.
#[derive(Debug, Default)]
pub(super) struct History<T: Growing> {
    seconds: Seconds<T>,
    before: T,
    ends: Nanos,
}

impl<T: Growing> History<T> {
    /// True if the second is over.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.ends
    }

    /// Ends a second that is over. One that was looked at late is longer than the others.
    pub(super) fn note(&mut self, now: Nanos, totals: T) {
        // The first look begins the first second.
        if self.ends > Nanos(0) {
            let number = self.seconds.number();
            self.seconds.end(totals.since(&self.before, number));
        }
        self.before = totals;
        self.ends = Nanos(now.0 + SECOND.0);
    }

    /// The seconds from this number on, as far as they are remembered.
    pub(super) fn from(&self, number: u64) -> Vec<T> {
        self.seconds.from(number)
    }
}

#[cfg(test)]
mod tests;
