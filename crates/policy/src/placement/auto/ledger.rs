//! Account of what moving has saved and spent: it bounds what moving may cost, and checks
//! predictions.
//!
//! 1. *Waited* is what users waited in all, as the machine measured it. *Saved* is what chunks that
//!    are elsewhere than at first would have cost more there, by what was asked of them. *Spent* is
//!    what copies are priced at.
//! 2. The bound: spent ≤ `spend` · waited + half of saved, each of them fading, by half in an hour
//!    ([`FADE`]). So users never wait longer than 1 + `spend` times what they would without any
//!    move, as far as prices are right, and what was gained lately can be lost again by half at
//!    most. It fades so that a month of gains does not pay for an hour in which moves cost more
//!    than they bring.
//! 3. A *deal* is a pair that was moved; for the time that its class was known to last it is held
//!    against what was promised. *Honour* is what came over what was promised, fading, at most 1;
//!    all promises are lowered by it.
//!
//! State: 32 B a deal, at most [`DEALS_MAX`].

use super::Decision;
use super::ghosts::Pair;
use super::pulse::Pulse;
use crate::placement::price::Price;
use crate::placement::{Account, PoolChange};
use std::collections::VecDeque;

/// Deals that are held against their promise at once.
const DEALS_MAX: usize = 4096;
/// Share of promises and returns that is kept from epoch to epoch.
const KEEP: f64 = 0.98;
/// Time in which what the bound counts fades by half, in seconds.
const FADE: f64 = 3600.0;
/// Honour is not below this: what is tried at a time when nothing comes costs little.
const HONOUR_MIN: f64 = 0.05;

#[derive(Debug, Clone, Copy)]
struct Deal {
    pair: Pair,
    promised: f32,
    until: u32,
}

/// Accounts of what moving has saved and spent.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    deals: VecDeque<Deal>,
    epoch: u32,
    /// Fading, seconds.
    promised: f64,
    came: f64,
    /// Seconds since the start.
    pub(super) waited: f64,
    pub(super) saved: f64,
    pub(super) spent: f64,
    pub(super) promised_in_all: f64,
    pub(super) came_in_all: f64,
    /// Chunks that came to another pool.
    pub(super) moved: u64,
    /// Waited, saved and spent, fading.
    lately: [f64; 3],
    /// Waited, saved and spent since the start, at the last settlement.
    settled: [f64; 3],
}

impl Ledger {
    /// Holds the deals of before against the epoch that ended.
    pub(super) fn settle(&mut self, pulse: &Pulse, prices: &[Price], seconds: f64) {
        self.epoch += 1;
        let epoch = self.epoch;
        self.promised *= KEEP;
        self.came *= KEEP;
        let (keep, now) = (0.5_f64.powf(seconds / FADE), [self.waited, self.saved, self.spent]);
        for (lately, (now, before)) in self.lately.iter_mut().zip(now.iter().zip(&self.settled)) {
            *lately = *lately * keep + (now - before);
        }
        self.settled = now;
        self.deals.retain(|deal| deal.until >= epoch);
        for Deal { pair, promised, .. } in &self.deals {
            // Only what really moved is held to its promise.
            let there = pulse.pool_of(pair.chunk) == usize::from(pair.to);
            if there && usize::from(pair.from.max(pair.to)) < prices.len() {
                let (promised, came) =
                    (f64::from(*promised) * seconds, pair.came(pulse, prices) * seconds);
                self.promised += promised;
                self.came += came;
                self.promised_in_all += promised;
                self.came_in_all += came;
            }
        }
    }

    /// Pools are at other places; a deal with one that is gone is held to nothing.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        let moved = std::mem::take(&mut self.deals).into_iter();
        let moved = moved.filter_map(|deal| Some(Deal { pair: deal.pair.after(change)?, ..deal }));
        self.deals = moved.collect();
    }

    /// Seconds that may still be spent.
    pub(super) fn purse(&self, spend: f64) -> f64 {
        let [waited, saved, spent] = self.lately;
        spend * waited + saved.max(0.0) / 2.0 - spent
    }

    /// Returns over promises, lately; 1 where nothing was promised.
    pub(super) fn honour(&self) -> f64 {
        if self.promised <= 0.0 {
            return 1.0;
        }
        (self.came / self.promised).clamp(HONOUR_MIN, 1.0)
    }

    /// Takes note of a pair that is to be moved, which promises so many seconds a second for so
    /// many epochs.
    pub(super) fn deal(&mut self, pair: Pair, promised: f64, epochs: u32) {
        if self.deals.len() == DEALS_MAX {
            self.deals.pop_front();
        }
        let until = self.epoch.saturating_add(epochs);
        self.deals.push_back(Deal { pair, promised: promised as f32, until });
    }

    /// The accounts for those who look on, with a decision.
    pub(super) fn account(&self, acts: bool, last: &Decision) -> Account {
        Account {
            acts,
            waited: self.waited,
            saved: self.saved,
            spent: self.spent,
            promised: self.promised_in_all,
            came: self.came_in_all,
            moved_chunks: self.moved,
            proposed: last.proposed,
            would_save: last.promised,
        }
    }

    /// All accounts but the count of moves, as numbers.
    pub(super) fn accounts(&self) -> [f64; 10] {
        let [waited, saved, spent] = self.lately;
        [
            self.promised,
            self.came,
            self.waited,
            self.saved,
            self.spent,
            self.promised_in_all,
            self.came_in_all,
            waited,
            saved,
            spent,
        ]
    }

    /// Accounts that go on from these numbers; deals under way are not known.
    pub(super) fn of(accounts: [f64; 10], moved: u64) -> Ledger {
        let [promised, came, waited, saved, spent, promised_in_all, came_in_all, lately @ ..] =
            accounts;
        Ledger {
            promised,
            came,
            waited,
            saved,
            spent,
            promised_in_all,
            came_in_all,
            moved,
            lately,
            settled: [waited, saved, spent],
            ..Ledger::default()
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.deals.capacity() * size_of::<Deal>()) as u64
    }
}
