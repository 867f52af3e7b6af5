//! Events that each request could cause, told now and then.

use std::collections::BTreeMap;
use thermocline_units::Nanos;

/// Time between two events about the same.
const TOLD_EVERY: Nanos = Nanos::from_secs(10);

/// Times at which each of some things was told.
#[derive(Debug)]
pub(crate) struct Reminders<K>(BTreeMap<K, Nanos>);

impl<K> Default for Reminders<K> {
    fn default() -> Reminders<K> {
        Reminders(BTreeMap::new())
    }
}

impl<K: Ord> Reminders<K> {
    /// True if it is to be told now, because it was not told lately; it counts as told then.
    pub(crate) fn is_due(&mut self, what: K, now: Nanos) -> bool {
        let told = self.0.get(&what);
        let is_due = told.is_none_or(|&at| now.saturating_sub(at) >= TOLD_EVERY);
        if is_due {
            self.0.insert(what, now);
        }
        is_due
    }
}
