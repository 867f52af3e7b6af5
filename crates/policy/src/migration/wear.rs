//! Budget of a day for what moves write to a pool, so that a placement cannot wear flash out: a
//! token bucket that fills by the day's budget and holds no more than one day's.
//!
//! It begins with an hour's worth, so that a restart gives nothing away. Only moves of a placement,
//! and fills of lines, are held to it: what clients write, and what administrators order, is theirs
//! to decide.

use thermocline_units::{Bytes, Nanos};

const DAY_S: f64 = 86_400.0;
/// Part of a day's budget that is there at the beginning.
const AT_FIRST: f64 = 1.0 / 24.0;

/// The budget of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WearBudget {
    per_day: Option<Bytes>,
    held: f64,
    at: Nanos,
}

impl WearBudget {
    /// A budget of so many bytes a day from `now` on; `None`: there is no bound.
    pub fn new(now: Nanos, per_day: Option<Bytes>) -> WearBudget {
        let held = per_day.map_or(0.0, |bytes| bytes.0 as f64 * AT_FIRST);
        WearBudget { per_day, held, at: now }
    }

    /// Bytes a day; `None`: there is no bound.
    pub fn per_day(&self) -> Option<Bytes> {
        self.per_day
    }

    /// True if a move of so many bytes may go there now. A chunk that is larger than a day's budget
    /// waits for all of it, and leaves a debt.
    pub fn allows(&mut self, now: Nanos, bytes: Bytes) -> bool {
        let Some(per_day) = self.per_day else { return true };
        let days = now.saturating_sub(self.at).as_secs_f64() / DAY_S;
        let most = per_day.0 as f64;
        self.held = (self.held + most * days).min(most);
        self.at = self.at.max(now);
        self.held >= (bytes.0 as f64).min(most)
    }

    /// Counts a move that goes there.
    pub fn spend(&mut self, bytes: Bytes) {
        if self.per_day.is_some() {
            self.held -= bytes.0 as f64;
        }
    }
}
