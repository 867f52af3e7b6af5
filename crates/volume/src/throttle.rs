//! What keeps copies from getting in the way of clients.
//!
//! For each pool: bytes a second, requests in flight, and a place behind the foreground. A piece
//! goes when every pool that it touches lets it; held back by the foreground alone, it goes after a
//! bounded patience all the same, or as soon as bytes are owed from what is reserved for operations
//! (mClock's R tags: what they get while the foreground is idle is not counted against those), so
//! that no operation starves. A far pool serves many requests at once: nobody makes way there.

use crate::group::Group;
use thermocline_units::{Nanos, PoolId};

/// Answer to a piece that wants to go now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// It may.
    Free,
    /// Not yet: by bytes a second, or by requests in flight.
    Throttled,
    /// Not yet: the foreground is at the pool, since this moment.
    Yielding(Nanos),
}

impl Held {
    pub(crate) fn since(self) -> Option<Nanos> {
        match self {
            Held::Yielding(since) => Some(since),
            Held::Free | Held::Throttled => None,
        }
    }
}

impl Group {
    /// Asks if a piece of `bytes` may go to each of `pools` now; `held_since` is when it was first
    /// held back by the foreground. If it may, it is counted against the pools' allowance.
    pub(crate) fn hold_back(
        &mut self,
        now: Nanos,
        pools: &[PoolId],
        bytes: u32,
        held_since: Option<Nanos>,
    ) -> Held {
        let copying = self.paced();
        if pools.iter().any(|&pool| self.pool(pool).copies_in_flight >= copying.outstanding) {
            return Held::Throttled; // Their completions come back here.
        }
        let at =
            pools.iter().map(|&pool| self.pool_mut(pool).copy_time(now, bytes, &copying)).max();
        if let Some(at) = at.filter(|&at| at > now) {
            self.wake_at(at);
            return Held::Throttled;
        }
        if pools.iter().any(|&pool| self.pool(pool).is_used(copying.yield_above)) {
            let since = held_since.unwrap_or(now);
            let patient = Nanos(since.0.saturating_add(copying.patience.0));
            let owed = pools.iter().map(|&pool| self.pool(pool).owed_at(&copying)).max().flatten();
            let until = owed.map_or(patient, |owed| owed.min(patient));
            if until > now {
                self.wake_at(until);
                return Held::Yielding(since);
            }
            pools.iter().for_each(|&pool| self.pool_mut(pool).repay(now, bytes, &copying));
        }
        for &pool in pools {
            self.pool_mut(pool).spend(bytes, &copying);
        }
        Held::Free
    }

    pub(crate) fn wake_at(&mut self, at: Nanos) {
        let wake = &mut self.copier.wake;
        *wake = Some(wake.map_or(at, |wake| wake.min(at)));
    }
}
