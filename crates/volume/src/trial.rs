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
    fn mean_latency(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.0 as f64 / self.count as f64)
    }
}

/// Word of a trial on a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    /// It copies on.
    GoesOn,
    /// It waits for reads, until this moment at the latest.
    Waits(Nanos),
    /// The destination was slower.
    Lost,
}

impl Copy {
    /// Asks if the operation may copy on, where `share` percent of a move are tried first; `up`: it
    /// goes to a faster pool.
    pub(crate) fn try_out(&mut self, now: Nanos, share: u32, up: bool) -> Tried {
        match self.trial {
            Trial::Before if share > 0 && self.may_be_tried() && up => {
                let blocks = u64::from(self.presence.blocks());
                if self.presence.count() * 100 < blocks * u64::from(share) {
                    return Tried::GoesOn;
                }
                let until = Nanos(now.0 + PATIENCE.0);
                let (source, destination) = (Timed::default(), Timed::default());
                self.trial = Trial::Watching { until, source, destination };
                Tried::Waits(until)
            }
            Trial::Watching { until, source, destination } => {
                if now < until && destination.count < READS {
                    return Tried::Waits(until);
                }
                self.trial = Trial::Over;
                match (source.mean_latency(), destination.mean_latency()) {
                    (Some(source), Some(destination)) if destination > source => Tried::Lost,
                    _ => Tried::GoesOn,
                }
            }
            Trial::Before | Trial::Over => Tried::GoesOn,
        }
    }

    /// A read of the operation's chunk took so long on `pool`.
    pub(crate) fn note_trial(&mut self, pool: PoolId, took: Nanos) {
        if let Trial::Watching { source, destination, .. } = &mut self.trial {
            let side = if pool == self.destination.pool { destination } else { source };
            side.note(took);
        }
    }

    fn may_be_tried(&self) -> bool {
        self.proposed && self.goal.is_none() && self.what.kind == OperationKind::Migrate
    }
}
