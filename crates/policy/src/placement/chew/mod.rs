//! ChewAnalyzer: chunks are classified level by level until there is a pool for them.
//!
//! 1. An epoch's accesses give each chunk an intensity, and shares of writes, of random accesses,
//!    and of overwrites (see `activity`). A chunk that was not accessed keeps its group and its
//!    place.
//! 2. Those that were are classified, and given pools (see `classify`) by a library ([`library`]).
//! 3. Rises go heaviest first. A chunk whose pool is slower than where it is leaves only when its
//!    place is needed, the lightest first, those that were not accessed before them; with
//!    `demote=always` it goes in any case.
//!
//! Source: Ge 2017 ch. 3, Algorithm 1 with the case study of §3.4. As printed the first chunk that
//! fails sends all of its level to the next, placed or not, and any level that succeeds ends the
//! search: this is the reading that can run. The source's performance of a pool (IOPS, throughput
//! for sequential chunks on disks) is the pool's share of time here (see `demand`). When something
//! moves, deadlines and proactive parts are the machine's. ChewAnalyzer++ is `runs`.
//!
//! State: 82 B a chunk: 58 of activity, 24 of the last verdict, from which `explain` tells. O(1) an
//! access; O(chunks met × levels) an epoch, O(n log n) over those that some pool takes.

pub mod analysis;
mod classify;
pub mod library;
mod pools;
mod reasons;
mod runs;
mod settings;
mod spelling;
mod taxonomy;

pub(super) use runs::ENTRY as RUNS;
pub use settings::{Accept, Demote, Measured, Options};

use self::classify::Classifier;
use self::library::{Library, LibraryError};
use self::pools::Status;
use self::settings::{
    ACCEPT, DEMOTE, LIBRARY, LOW, OF, OVERWRITE, PEAK, RANDOM, TOP, VERY, WEAR, WRITE, read,
    scaled_from,
};
use super::activity::Activity;
use super::plan::Plan;
use super::{Budget, ChunkAccess, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::{ChunkId, Nanos, PoolId};

pub(crate) const ENTRY: Entry = Entry {
    name: "chew",
    summary: "classifies chunks by intensity, writes, randomness and overwrites until a pool fits",
    source: "ChewAnalyzer, Ge 2017 ch. 3",
    settings: &[LIBRARY, TOP, LOW, VERY, OF, WRITE, RANDOM, WEAR, OVERWRITE, PEAK, ACCEPT, DEMOTE],
    build: Build::Placement(|settings| {
        let (library, options) = read(settings)?;
        let options = Options { of: scaled_from(settings)?, ..options };
        Ok(Box::new(Chew::new(library, options)))
    }),
};

/// A placement by `library`; settings of the registry do not concern it.
///
/// # Errors
/// When the library cannot be used; the message says why.
pub fn build(library: Library, options: Options) -> Result<Box<dyn Placement>, LibraryError> {
    library.check()?;
    Ok(Box::new(Chew::new(library, options)))
}

/// ChewAnalyzer: places chunks by a library of patterns.
#[derive(Debug)]
struct Chew {
    classifier: Classifier,
    activity: Activity,
}

impl Chew {
    fn new(library: Library, options: Options) -> Chew {
        let classifier = Classifier::new(library, options);
        Chew { classifier, activity: Activity::default() }
    }

    /// Wishes what brings the chunks where the verdicts say.
    fn plan(&self, view: &dyn VolumeView, touched: &[u32]) -> Plan {
        let (classifier, activity) = (&self.classifier, &self.activity);
        let to = |number: u32| classifier.verdict(number).to;
        let moving = |number: &u32| to(*number) != activity.pool_of(*number);
        let mut plan = Plan::new(view);
        let moving = touched.iter().copied().filter(moving);
        for number in classifier.heaviest_first(activity, moving) {
            let (chunk, from) = (activity.chunks.id(number), activity.pool_of(number));
            wish(&mut plan, classifier.options.demote, chunk, (from, to(number)));
        }
        for number in activity.idle() {
            plan.may_yield(activity.chunks.id(number), activity.pool_of(number));
        }
        plan
    }
}

/// Wishes that a chunk goes from one pool to another.
fn wish(plan: &mut Plan, demote: Demote, chunk: ChunkId, (from, to): (PoolId, PoolId)) {
    match demote {
        Demote::Needed if to > from => plan.may_fall(chunk, from, to),
        _ => plan.wish(chunk, from, to),
    }
}

impl Placement for Chew {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.activity.look(view);
        self.classifier.begin(view, self.activity.chunks.len() as usize);
        let touched: Vec<u32> = self.activity.touched().collect();
        let (peak, numbers) = (self.classifier.options.peak, touched.iter().copied());
        let mut status = Status::of(view, &self.activity, numbers, peak);
        self.classifier.judge(&self.activity, &touched, &mut status);
        self.plan(view, &touched).propose(budget, moves);
        self.activity.advance();
    }

    fn explain(&self, chunk: ChunkId) -> Vec<String> {
        let number = self.activity.chunks.find(chunk);
        number.map_or_else(Vec::new, |number| self.classifier.reasons(number))
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.activity.bytes() + self.classifier.bytes() }
    }
}

#[cfg(test)]
mod tests;
