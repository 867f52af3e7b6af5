//! Moving part of a chunk first, to see whether it pays (ChewAnalyzer, Ge 2017 §3.3.3).
//!
//! 1. A placement's move to a faster pool stops when the share that `Copying::trial` says has
//!    arrived.
//! 2. Reads of the chunk are timed, those that the destination serves and those of the rest.
//! 3. After [`READS`] of the first kind, or after [`PATIENCE`], the rest follows, unless the
//!    destination was slower: then the move is given up, and its outcome is `Cancelled`.
//!
//! Nobody is tried twice in one operation. Without reads there is nothing to see, and the move goes
//! on.

use crate::copying::Copy;
use crate::group::Group;
use crate::operation::OperationKind;
use thermocline_units::{Nanos, PoolId};

/// Reads at the destination that are enough to judge.
const READS: u64 = 16;
/// Longest time that they are waited for.
const PATIENCE: Nanos = Nanos(1_000_000_000);

/// State of an operation's trial.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Trial {
    /// It has not come to it.
    #[default]
    Before,
    /// Reads are timed, until a moment.
    Watching { until: Nanos, source: Timed, destination: Timed },
    /// It has been judged, or needs no trial.
    Over,
}

/// Reads, and how long all of them took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timed {
    count: u64,
    sum: Nanos,
}

impl Timed {
    fn note(&mut self, took: Nanos) {
        self.count += 1;
        self.sum = Nanos(self.sum.0.saturating_add(took.0));
    }

    /// Mean in nanoseconds; `None` without any.
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.0 as f64 / self.count as f64)
    }
}

impl Group {
    /// True if an operation may copy on; false while its trial lasts, and when that was lost.
    pub(crate) fn passes_trial(&mut self, now: Nanos, index: u32) -> bool {
        let share = u64::from(self.settings.copying.trial);
        let copy = &self.copier.operations[index];
        let up = self.pools.ranks().compare_speed(copy.what.to, copy.source.pool).is_lt();
        let copy = &mut self.copier.operations[index];
        match copy.trial {
            Trial::Before if share > 0 && copy.may_be_tried() && up => {
                let blocks = u64::from(copy.presence.blocks());
                if copy.presence.count() * 100 < blocks * share {
                    return true;
                }
                let until = Nanos(now.0 + PATIENCE.0);
                let (source, destination) = (Timed::default(), Timed::default());
                copy.trial = Trial::Watching { until, source, destination };
                self.wake_at(until);
                false
            }
            Trial::Watching { until, source, destination } => {
                if now < until && destination.count < READS {
                    self.wake_at(until);
                    return false;
                }
                copy.trial = Trial::Over;
                let slower = match (source.mean(), destination.mean()) {
                    (Some(source), Some(destination)) => destination > source,
                    _ => false,
                };
                copy.cancelled |= slower;
                self.copier.trials_lost += u64::from(slower);
                !slower
            }
            Trial::Before | Trial::Over => true,
        }
    }

    /// A read of the operation's chunk took so long on `pool`.
    pub(crate) fn note_trial(&mut self, index: u32, pool: PoolId, took: Nanos) {
        let copy = &mut self.copier.operations[index];
        if let Trial::Watching { source, destination, .. } = &mut copy.trial {
            let side = if pool == copy.destination.pool { destination } else { source };
            side.note(took);
        }
    }
}

impl Copy {
    fn may_be_tried(&self) -> bool {
        self.proposed && self.goal.is_none() && self.what.kind == OperationKind::Migrate
    }
}
