//! The rate of copying while volumes have SLAs: an integral controller.
//!
//! 1. Every [`WINDOW`], each volume with an SLA that was asked enough has a share of
//!    late answers; `Copying::percentile` says how many may be late. The error of a volume is what
//!    is left of that share, −5 to 1 of it.
//! 2. The worst error counts: R(k) = R(k−1) + `GAIN` · E · R_max, never below the reservation and
//!    never above R_max, which is `Copying::rate_per_second`.
//! 3. Without an SLA in danger the rate grows to R_max; it begins there.
//!
//! Source: Aqueduct (Lu, Alvarez and Wilkes, FAST 2002). Differs: its error is of mean latencies
//! and of a contract in their units; here SLAs are of a percentile, so the share of late answers is
//! what is held. Its gain comes from an identified model; this one is low and fixed.

use super::Copying;
use std::collections::BTreeMap;
use thermocline_units::{Bytes, Nanos, VolumeId};

/// Interval at which the rate is set.
const WINDOW: Nanos = Nanos(1_000_000_000);
/// Answers in a window from which on a volume's share means something.
const ANSWERS: u64 = 20;
/// Share of the highest rate that an error of 1 changes in a window.
const GAIN: f64 = 0.1;
/// Errors below this are no worse: two windows bring the rate to its least.
const ERROR_LEAST: f64 = -5.0;
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
    /// Of these, answered later than the SLA says.
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
    pub fn next(&self, copying: &Copying, has_slas: bool) -> Option<Nanos> {
        (copying.percentile.is_some() && has_slas).then_some(self.next)
    }

    /// Sets the rate, where it is time. `answers` has the volumes with an SLA; none: the rate is
    /// what the settings say.
    pub fn set_rate(
        &mut self,
        now: Nanos,
        copying: &Copying,
        answers: impl Iterator<Item = Answered>,
    ) {
        let mut answers = answers.peekable();
        let Some(percentile) = copying.percentile.filter(|_| answers.peek().is_some()) else {
            self.rate = None;
            return;
        };
        if now < self.next {
            return;
        }
        self.next = Nanos(now.0 + WINDOW.0);
        let error = self.worst_error(answers, 1.0 - f64::from(percentile) / 100.0);
        let most = copying.rate_per_second.unwrap_or(UNLIMITED).0;
        let least = copying.reserve_per_second.map_or(most / LEAST, |rate| rate.0).min(most);
        let rate = self.rate.unwrap_or(Bytes(most)).0 as f64 + GAIN * error * most as f64;
        self.rate = Some(Bytes((rate as u64).clamp(least.max(1), most.max(1))));
    }

    /// 1 where nothing is in danger; less, down to [`ERROR_LEAST`], where more than `allowed` of a
    /// volume's answers were late.
    fn worst_error(&mut self, answers: impl Iterator<Item = Answered>, allowed: f64) -> f64 {
        let mut worst: f64 = 1.0;
        for Answered { volume, answered, late } in answers {
            let now = (answered, late);
            let before = self.before.insert(volume, now).unwrap_or((0, 0));
            let answered = now.0.saturating_sub(before.0);
            let late = now.1.saturating_sub(before.1);
            if answered >= ANSWERS {
                worst = worst.min((allowed - late as f64 / answered as f64) / allowed);
            }
        }
        worst.max(ERROR_LEAST)
    }
}
