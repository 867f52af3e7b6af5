//! Throttle that keeps copies from getting in the way of clients.
//!
//! For each pool: bytes a second, requests in flight (by what its device serves at the same time
//! and by the queue of its clients), and a place behind the foreground. A piece goes when every
//! pool that it touches lets it; held back by the foreground alone, it goes when a tactic says
//! ([`crate::tactics::Yielding`]): after a bounded patience, or as soon as bytes are owed from what
//! is reserved for operations (mClock's R tags: what they get while the foreground is idle is not
//! counted against those), so that no operation starves. A far pool serves many requests at once:
//! nobody makes way there.

use super::{Allowance, Copying};
use crate::tactics::{Chosen, HeldBack, Yielding};
use thermocline_units::{Nanos, PoolId};

/// Pools as the throttle sees them.
pub trait Pools {
    /// Copy requests in flight on a pool.
    fn copies_in_flight(&self, pool: PoolId) -> u32;
    /// Requests that its device serves at the same time, at least 1; `None`: nobody knows.
    fn at_once(&self, pool: PoolId) -> Option<u32>;
    /// Requests of clients in flight on a pool; none counts where it is far.
    fn clients_in_flight(&self, pool: PoolId) -> u32;
    /// Allowance of operations there.
    fn allowance(&mut self, pool: PoolId) -> &mut Allowance;
}

/// Answer to a piece that wants to go now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// A piece that may go.
    Free,
    /// Not yet: by bytes a second, or by requests in flight.
    Throttled,
    /// Not yet: the foreground is at the pool, since this moment.
    Yielding(Nanos),
}

impl Held {
    /// Time from which on it yields; `None`: it does not.
    pub fn since(self) -> Option<Nanos> {
        match self {
            Held::Yielding(since) => Some(since),
            Held::Free | Held::Throttled => None,
        }
    }
}

/// The throttle of a group: when a piece that it held back may go.
#[derive(Debug, Default)]
pub struct Throttle {
    wake: Option<Nanos>,
}

impl Throttle {
    /// Moment at which somebody whom it held back may go on; `None`: nobody waits for the time.
    pub fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Everybody who waits asks again now.
    pub fn begin_round(&mut self) {
        self.wake = None;
    }

    /// Wakes those who wait at this moment at the latest.
    pub fn wake_at(&mut self, at: Nanos) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// True if `bytes` that are at hand may be written to `pool` now: they are then counted against
    /// its allowance. They wait for nobody, because the buffer is not kept.
    pub fn takes_now(
        &mut self,
        pools: &mut impl Pools,
        copying: &Copying,
        now: Nanos,
        pool: PoolId,
        bytes: u32,
    ) -> bool {
        let takes =
            has_place(pools, copying, pool) && pools.allowance(pool).time_for(now, copying) <= now;
        if takes {
            pools.allowance(pool).spend(bytes, copying);
        }
        takes
    }

    /// Asks if a piece of `bytes` may go to each pool of `touched` now; `held_since` is when it was
    /// first held back by the foreground. If it may, it is counted against the pools' allowance.
    pub fn hold_back(
        &mut self,
        pools: &mut impl Pools,
        copying: &Copying,
        now: Nanos,
        touched: &[PoolId],
        (bytes, held_since): (u32, Option<Nanos>),
        tactic: &Chosen<dyn Yielding>,
    ) -> Held {
        if touched.iter().any(|&pool| !has_place(pools, copying, pool)) {
            return Held::Throttled; // Their completions come back here.
        }
        let at = touched.iter().map(|&pool| pools.allowance(pool).time_for(now, copying)).max();
        if let Some(at) = at.filter(|&at| at > now) {
            self.wake_at(at);
            return Held::Throttled;
        }
        let is_used = |&pool: &PoolId| {
            pools.clients_in_flight(pool) > copying.yields_above(pools.at_once(pool))
        };
        if touched.iter().any(is_used) {
            let since = held_since.unwrap_or(now);
            let owed_at =
                touched.iter().map(|&pool| pools.allowance(pool).owed_at(copying)).max().flatten();
            let piece = HeldBack { now, since, patience: copying.patience, owed_at };
            let until = tactic.ask(|tactic| tactic.goes_at(&piece));
            if until > now {
                self.wake_at(until);
                return Held::Yielding(since);
            }
            touched.iter().for_each(|&pool| pools.allowance(pool).repay(now, bytes, copying));
        }
        for &pool in touched {
            pools.allowance(pool).spend(bytes, copying);
        }
        Held::Free
    }
}

/// True if one more copy request may be in flight on a pool.
fn has_place(pools: &impl Pools, copying: &Copying, pool: PoolId) -> bool {
    let most = copying.most_in_flight(pools.at_once(pool), pools.clients_in_flight(pool));
    pools.copies_in_flight(pool) < most
}
