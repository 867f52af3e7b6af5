//! Distribution of accesses over things: so many things with so many accesses each.
//!
//! State: 8 KiB, and a tree entry for every distinct weight from 1024 up.

use std::collections::BTreeMap;

/// Weights below this are counted in an array; nearly all are.
const SMALL: u64 = 1024;

/// Things by weight.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranking {
    /// Numbers of things by weight; empty or `SMALL` long.
    small: Vec<u64>,
    large: BTreeMap<u64, u64>,
    things: u64,
}

impl FromIterator<u64> for Ranking {
    fn from_iter<I: IntoIterator<Item = u64>>(weights: I) -> Ranking {
        let mut ranking = Ranking::default();
        weights.into_iter().for_each(|weight| ranking.add(weight, 1));
        ranking
    }
}

impl Ranking {
    fn add(&mut self, weight: u64, things: u64) {
        if weight < SMALL {
            self.small.resize(SMALL as usize, 0);
            self.small[weight as usize] += things;
        } else {
            *self.large.entry(weight).or_default() += things;
        }
        self.things += things;
    }

    /// Counts everything that `other` counted.
    pub(super) fn merge(&mut self, other: &Ranking) {
        other.descending().for_each(|(weight, things)| self.add(weight, things));
    }

    /// The part of all weight that lies on the heaviest things: the heaviest `percent` % of them,
    /// rounded up to a whole number. `None` when there is no weight.
    pub(super) fn share_of_top(&self, percent: u64) -> Option<f64> {
        let mut left = (self.things * percent).div_ceil(100);
        let (mut top, mut all) = (0_u128, 0_u128);
        for (weight, things) in self.descending() {
            let taken = things.min(left);
            left -= taken;
            top += u128::from(weight) * u128::from(taken);
            all += u128::from(weight) * u128::from(things);
        }
        (all > 0).then(|| top as f64 / all as f64)
    }

    /// The part of all things that have less weight than `bound`. `None` when there are none.
    pub(super) fn share_below(&self, bound: f64) -> Option<f64> {
        let below = self.descending().filter(|(weight, _)| (*weight as f64) < bound);
        let below: u64 = below.map(|(_, things)| things).sum();
        (self.things > 0).then(|| below as f64 / self.things as f64)
    }

    /// Weights with how many things have them, heaviest first.
    fn descending(&self) -> impl Iterator<Item = (u64, u64)> {
        let small = self.small.iter().enumerate().rev();
        let small = small.map(|(weight, things)| (weight as u64, *things));
        let large = self.large.iter().rev().map(|(weight, things)| (*weight, *things));
        large.chain(small).filter(|(_, things)| *things > 0)
    }
}
