//! `iops-only` and `edt-strawman`: ChewAnalyzer's two rivals, greedy and tier by tier.
//!
//! 1. An access counts for its chunk in the running epoch.
//! 2. At the epoch's end a chunk's weight is, for `iops-only`, its requests a second; for
//!    `edt-strawman`, its requests and bytes a second combined: the time that they would take the
//!    slowest pool.
//! 3. The heaviest chunks belong on the fastest pool, the next on the second, and so on (see
//!    `tiers`). A chunk that was not accessed keeps its place until that is needed.
//!
//! Source: Ge 2017 §3.5 (the baselines of ChewAnalyzer's evaluation). It calls the second one EDT
//! after Guerra et al., FAST 2011, but describes another: EDT weighs what an extent consumes of
//! each tier against what the tier costs. That one is `edt`; this is kept under a name of its own,
//! because the source's figures compare with it.
//!
//! State: 58 B a chunk (see `activity`). O(1) an access; O(chunks met) an epoch, O(n log n)
//! over those touched and those above the slowest pool.

use super::activity::{Activity, Counts};
use super::demand::Costs;
use super::{Budget, ChunkAccess, Move, Placement, VolumeView, tiers};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::{Nanos, PoolId};

pub(crate) const IOPS_ONLY: Entry = Entry {
    name: "iops-only",
    summary: "fills pool after pool with the chunks that had most requests in the epoch",
    source: "ChewAnalyzer's rival IOPS-only, Ge 2017 §3.5",
    settings: &[],
    build: Build::Placement(|_| Ok(Box::new(Greedy::by(Weight::Requests)))),
};

pub(crate) const EDT_STRAWMAN: Entry = Entry {
    name: "edt-strawman",
    summary: "the same by requests and bytes combined; what the source calls EDT, see `edt`",
    source: "ChewAnalyzer's rival EDT as Ge 2017 §3.5 describes it",
    settings: &[],
    build: Build::Placement(|_| Ok(Box::new(Greedy::by(Weight::Combined)))),
};

/// The weight of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Requests,
    Combined,
}

impl Weight {
    fn of(self, counts: &Counts, slowest: &Costs, per_second: f64) -> f64 {
        match self {
            Weight::Requests => counts.accesses() as f64,
            Weight::Combined => counts.demand(per_second).time(slowest),
        }
    }
}

/// The greedy rivals of ChewAnalyzer.
#[derive(Debug)]
struct Greedy {
    activity: Activity,
    weight: Weight,
}

impl Greedy {
    fn by(weight: Weight) -> Greedy {
        Greedy { activity: Activity::default(), weight }
    }
}

impl Placement for Greedy {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.activity.look(view);
        let slowest = Costs::of(&view.traits(PoolId(view.pool_count() - 1)));
        let (activity, per_second) = (&self.activity, 1.0 / view.epoch().as_secs_f64());
        let weight = |number| self.weight.of(activity.counts(number), &slowest, per_second);
        tiers::propose(activity, weight, view, budget, moves);
        self.activity.advance();
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.activity.bytes() }
    }
}

#[cfg(test)]
mod tests;
