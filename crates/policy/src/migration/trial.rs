//! Moving part of a chunk first, to see whether it pays (ChewAnalyzer, Ge 2017 §3.3.3).
//!
//! 1. A placement's move to a faster pool stops when the share that [`super::Copying::trial`] says
//!    has arrived.
//! 2. Reads of the chunk are timed, those that the destination serves and those of the rest.
//! 3. After [`READS`] of the first kind, or after [`PATIENCE`], the rest follows, unless the
//!    destination was slower: then the move is given up, and its outcome is `Cancelled`.
//!
//! Nobody is tried twice in one operation. Without reads there is nothing to see, and the move goes
//! on.

use thermocline_units::Nanos;

/// Reads at the destination that are enough to judge.
const READS: u64 = 16;
/// Longest time that they are waited for.
const PATIENCE: Nanos = Nanos(1_000_000_000);

/// The trial of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trial(State);

#[derive(Debug, Clone, Copy, Default)]
enum State {
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
struct Timed {
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
pub enum Tried {
    /// It copies on.
    GoesOn,
    /// It waits for reads, until this moment at the latest.
    Waits(Nanos),
    /// The destination was slower.
    Lost,
}

impl Trial {
    /// Asks if the operation may copy on. It `is_tried` when the share that is moved first has
    /// arrived, and there is something to try; ask with false before.
    pub fn ask(&mut self, now: Nanos, is_tried: bool) -> Tried {
        match self.0 {
            State::Before if is_tried => {
                let until = Nanos(now.0 + PATIENCE.0);
                let (source, destination) = (Timed::default(), Timed::default());
                self.0 = State::Watching { until, source, destination };
                Tried::Waits(until)
            }
            State::Watching { until, source, destination } => {
                if now < until && destination.count < READS {
                    return Tried::Waits(until);
                }
                self.0 = State::Over;
                match (source.mean_latency(), destination.mean_latency()) {
                    (Some(source), Some(destination)) if destination > source => Tried::Lost,
                    _ => Tried::GoesOn,
                }
            }
            State::Before | State::Over => Tried::GoesOn,
        }
    }

    /// A read of the operation's chunk took so long, at the destination or at the source.
    pub fn note(&mut self, at_destination: bool, took: Nanos) {
        if let State::Watching { source, destination, .. } = &mut self.0 {
            let side = if at_destination { destination } else { source };
            side.note(took);
        }
    }
}
