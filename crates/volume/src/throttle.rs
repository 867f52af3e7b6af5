//! What keeps copies from getting in the way of clients.
//!
//! For each pool: bytes a second, requests in flight, and a place behind the foreground. A piece
//! goes when every pool that it touches lets it; held back by the foreground alone, it goes after a
//! bounded patience all the same, or as soon as bytes are owed from what is reserved for operations
//! (mClock's R tags: what they get while the foreground is idle is not counted against those), so
//! that no operation starves. A far pool serves many requests at once: nobody makes way there.

use crate::pools::Pools;
use crate::settings::Copying;
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

/// The throttle of a group: when a piece that it held back may go.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    wake: Option<Nanos>,
}

impl Throttle {
    /// Moment at which somebody whom it held back may go on; `None`: nobody waits for the time.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Everybody who waits asks again now.
    pub(crate) fn begin_round(&mut self) {
        self.wake = None;
    }

    /// Wakes those who wait at this moment at the latest.
    pub(crate) fn wake_at(&mut self, at: Nanos) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Asks if a piece of `bytes` may go to each pool of `touched` now; `held_since` is when it was
    /// first held back by the foreground. If it may, it is counted against the pools' allowance.
    pub(crate) fn hold_back(
        &mut self,
        pools: &mut Pools,
        copying: &Copying,
        now: Nanos,
        touched: &[PoolId],
        (bytes, held_since): (u32, Option<Nanos>),
    ) -> Held {
        if touched.iter().any(|&pool| pools[pool].copies_in_flight >= copying.outstanding) {
            return Held::Throttled; // Their completions come back here.
        }
        let at = touched.iter().map(|&pool| pools[pool].copy_time(now, bytes, copying)).max();
        if let Some(at) = at.filter(|&at| at > now) {
            self.wake_at(at);
            return Held::Throttled;
        }
        if touched.iter().any(|&pool| pools[pool].is_used(copying.yield_above)) {
            let since = held_since.unwrap_or(now);
            let patient = Nanos(since.0.saturating_add(copying.patience.0));
            let owed = touched.iter().map(|&pool| pools[pool].owed_at(copying)).max().flatten();
            let until = owed.map_or(patient, |owed| owed.min(patient));
            if until > now {
                self.wake_at(until);
                return Held::Yielding(since);
            }
            touched.iter().for_each(|&pool| pools[pool].repay(now, bytes, copying));
        }
        for &pool in touched {
            pools[pool].spend(bytes, copying);
        }
        Held::Free
    }
}
