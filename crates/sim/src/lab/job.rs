//! One replay of a run: what is fed, and the rows it fills.

use super::run::LabError;
use super::size::CacheSize;
use crate::processor::{Spent, Stopwatch};
use crate::replay::{CacheReplay, Counts, FlashReplay, SweepReplay};
use crate::workload::{Block, Names};
use thermocline_policy::Footprint;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::Bytes;

/// A replay under way.
pub(super) enum Replay {
    Cache(CacheReplay),
    Sweep(SweepReplay),
    Flash(FlashReplay),
}

/// One replay, and the rows it fills.
pub(super) struct Job {
    replay: Replay,
    /// Places by ascending capacity.
    pub(super) places: Vec<Place>,
    spent: Spent,
}

/// One row to fill.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) spec: PolicySpec,
    pub(super) size: CacheSize,
    /// Capacity in lines, or in chunks for placements.
    pub(super) capacity: u32,
    pub(super) unit: Bytes,
}

impl Job {
    /// Before the first request.
    pub(super) fn new(replay: Replay, places: Vec<Place>) -> Job {
        Job { replay, places, spent: Spent::default() }
    }

    /// Replays what comes next.
    pub(super) fn feed(&mut self, names: &Names, block: &Block) {
        let watch = Stopwatch::start();
        match &mut self.replay {
            Replay::Cache(replay) => replay.feed(names, block),
            Replay::Sweep(replay) => replay.feed(names, block),
            Replay::Flash(replay) => replay.feed(names, block),
        }
        self.spent += watch.spent();
    }

    /// That its policy failed, if it did: only policies from outside do.
    pub(super) fn failure(&self) -> Option<LabError> {
        let problem = match &self.replay {
            Replay::Cache(replay) => replay.failure(),
            Replay::Flash(replay) => replay.failure(),
            Replay::Sweep(_) => None,
        };
        let problem = problem?.to_string();
        Some(LabError::Failed { policy: self.places[0].spec.label.clone(), problem })
    }

    pub(super) fn finish(self) -> (Vec<Place>, Vec<Counts>, Footprint, Spent) {
        let (counts, footprint) = match self.replay {
            Replay::Cache(replay) => {
                let (counts, footprint) = replay.finish();
                (vec![counts], footprint)
            }
            Replay::Sweep(replay) => replay.finish(),
            Replay::Flash(replay) => {
                let (counts, footprint) = replay.finish();
                (vec![counts], footprint)
            }
        };
        (self.places, counts, footprint, self.spent)
    }
}
