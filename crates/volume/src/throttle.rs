//! What keeps copies from getting in the way of clients.
//!
//! For each pool: bytes a second, requests in flight, and a place behind the foreground. A piece
//! goes when every pool that it touches lets it; held back by the foreground alone, it goes after a
//! bounded patience all the same, so that no operation starves.

use crate::group::Group;
use thermocline_units::{Nanos, PoolId};

/// Whether a piece may go now.
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
    /// Whether a piece of `bytes` may go to each of `pools` now; `held_since` is when it was first
    /// held back by the foreground. If it may, it is counted against the pools' allowance.
    pub(crate) fn hold_back(
        &mut self,
        now: Nanos,
        pools: &[PoolId],
        bytes: u32,
        held_since: Option<Nanos>,
    ) -> Held {
        let copying = self.settings.copying;
        if pools.iter().any(|&pool| self.pool(pool).copies_in_flight >= copying.outstanding) {
            return Held::Throttled; // Their completions come back here.
        }
        let at =
            pools.iter().map(|&pool| self.pool_mut(pool).copy_time(now, bytes, &copying)).max();
        if let Some(at) = at.filter(|&at| at > now) {
            self.wake_at(at);
            return Held::Throttled;
        }
        if pools.iter().any(|&pool| self.pool(pool).in_flight > copying.yield_above) {
            let since = held_since.unwrap_or(now);
            let until = Nanos(since.0.saturating_add(copying.patience.0));
            if until > now {
                self.wake_at(until);
                return Held::Yielding(since);
            }
        }
        for &pool in pools {
            self.pool_mut(pool).spend(bytes, &copying);
        }
        Held::Free
    }

    fn wake_at(&mut self, at: Nanos) {
        let wake = &mut self.copier.wake;
        *wake = Some(wake.map_or(at, |wake| wake.min(at)));
    }
}
