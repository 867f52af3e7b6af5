//! The rate of copying while volumes have SLAs: an integral controller.
//!
//! 1. Every [`WINDOW`], each volume with an SLA that was asked enough has a share of late answers;
//!    the largest share counts.
//! 2. The tactic ([`crate::tactics::CopyRate`]) sets the rate by it, between the reservation and
//!    `Copying::rate_per_second`.
//! 3. The rate begins at the most.

use super::Copying;
use crate::tactics::{Chosen, CopyRate, Pace};
use std::collections::BTreeMap;
use thermocline_units::{Bytes, Nanos, VolumeId};

/// Interval at which the rate is set.
const WINDOW: Nanos = Nanos(1_000_000_000);
/// Answers in a window from which on a volume's share means something.
const ANSWERS: u64 = 20;
/// The least rate, in parts of the highest, where nothing is reserved.
const LEAST: u64 = 64;
/// Rate that stands for "no limit".
const UNLIMITED: Bytes = Bytes::from_gib(1);

/// Answers to a volume that has an SLA, since it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The volume.
    pub volume: VolumeId,
    /// Requests that were answered.
    pub answered: u64,
    /// Those of them answered later than the SLA says.
    pub late: u64,
}

/// Rate of moves that the SLAs of volumes allow.
#[derive(Debug, Default)]
pub struct RateControl {
    /// Bytes a second; `None`: what the settings say.
    rate: Option<Bytes>,
    /// Moment at which it is set anew.
    next: Nanos,
    /// Requests that had been answered, and of these late, when it was set last.
    before: BTreeMap<VolumeId, (u64, u64)>,
}

impl RateControl {
    /// The throttle's settings, at the rate of now.
    pub fn paced(&self, copying: &Copying) -> Copying {
        Copying { rate_per_second: self.rate.or(copying.rate_per_second), ..*copying }
    }

    /// Moment at which the rate is set anew; `None` when nothing is to be kept: no volume has an
    /// SLA (`has_slas`), or the rate does not follow from them.
    pub fn next(&self, tactic: &Chosen<dyn CopyRate>, has_slas: bool) -> Option<Nanos> {
        (has_slas && tactic.any(|tactic| tactic.percentile().is_some())).then_some(self.next)
    }

    /// Sets the rate, where it is time. `answers` has the volumes with an SLA; none: the rate is
    /// what the settings say.
    pub fn set_rate(
        &mut self,
        now: Nanos,
        copying: &Copying,
        tactic: &Chosen<dyn CopyRate>,
        answers: impl Iterator<Item = Answered>,
    ) {
        let mut answers = answers.peekable();
        let follows = tactic.any(|tactic| tactic.percentile().is_some());
        if !follows || answers.peek().is_none() {
            self.rate = None;
            return;
        }
        if now < self.next {
            return;
        }
        self.next = Nanos(now.0 + WINDOW.0);
        let late = self.worst_late(answers);
        let most = copying.rate_per_second.unwrap_or(UNLIMITED).0;
        let least = copying.reserve_per_second.map_or(most / LEAST, |rate| rate.0).min(most);
        let rate = self.rate.unwrap_or(Bytes(most));
        let pace = Pace { rate, least: Bytes(least), most: Bytes(most), late };
        let rate = tactic.ask(|tactic| tactic.rate(&pace));
        // A shadow alone may be why it was asked.
        self.rate = tactic.tactic().percentile().map(|_| rate);
    }

    /// Share of late answers since the last time of the volume with most; 0 where none was asked
    /// enough.
    fn worst_late(&mut self, answers: impl Iterator<Item = Answered>) -> f64 {
        let mut worst: f64 = 0.0;
        for Answered { volume, answered, late } in answers {
            let now = (answered, late);
            let before = self.before.insert(volume, now).unwrap_or((0, 0));
            let answered = now.0.saturating_sub(before.0);
            let late = now.1.saturating_sub(before.1);
            if answered >= ANSWERS {
                worst = worst.max(late as f64 / answered as f64);
            }
        }
        worst
    }
}
