//! Moving part of a chunk first, to see whether it pays (ChewAnalyzer, Ge 2017 §3.3.3).
//!
//! 1. A placement's move to a faster pool stops when the share that the tactic says
//!    ([`crate::tactics::TrialRule`]) has arrived.
//! 2. Reads of the chunk are timed, those that the destination serves and those of the rest.
//! 3. After enough of the first kind, or after the tactic's patience, the rest follows, or the move
//!    is given up, and its outcome is `Cancelled`.
//!
//! Nobody is tried twice in one operation. Without reads there is nothing to see, and the move goes
//! on.

use crate::tactics::{Chosen, TrialRule, Verdict};
use thermocline_units::Nanos;

/// The trial of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trial(State);

#[derive(Debug, Clone, Copy, Default)]
enum State {
    /// A move that has not come to its trial.
    #[default]
    Before,
    /// Reads are timed, until a moment.
    Watching { until: Nanos, source: Timed, destination: Timed },
    /// A move that has been judged, or needs no trial.
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
    /// Copies on.
    GoesOn,
    /// Waits for reads, until this moment at the latest.
    Waits(Nanos),
    /// The destination was slower.
    Lost,
}

impl Trial {
    /// Asks if the operation may copy on. It `is_tried` when the share that is moved first has
    /// arrived, and there is something to try; ask with false before.
    pub fn ask(&mut self, now: Nanos, is_tried: bool, tactic: &Chosen<dyn TrialRule>) -> Tried {
        match self.0 {
            State::Before if is_tried => {
                let until = Nanos(now.0.saturating_add(tactic.tactic().patience().0));
                let (source, destination) = (Timed::default(), Timed::default());
                self.0 = State::Watching { until, source, destination };
                Tried::Waits(until)
            }
            State::Watching { until, source, destination } => {
                let (over, reads) = (now >= until, destination.count);
                let (there, here) = (destination.mean_latency(), source.mean_latency());
                match tactic.ask(|tactic| tactic.judge(reads, here, there, over)) {
                    Verdict::Open if !over => Tried::Waits(until),
                    Verdict::Lost => {
                        self.0 = State::Over;
                        Tried::Lost
                    }
                    Verdict::Open | Verdict::GoesOn => {
                        self.0 = State::Over;
                        Tried::GoesOn
                    }
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
