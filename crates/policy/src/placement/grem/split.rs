//! The border between GReM's zones: where it is, and what moves it.
//!
//! 1. Burst feedback: the epoch's working set (chunks accessed) exceeds `burst` times its running
//!    mean: the short-term zone grows by one step. The mean then takes in the epoch with weight
//!    1/8.
//! 2. Performance feedback, in an epoch without a burst: the accesses to each zone's coldest step
//!    of chunks are what the zone would lose by shrinking. The zone with more of them, by more than
//!    a tenth, grows by one step.
//! 3. The long-term zone stays between `long-min` and `long-max` of flash.
//!
//! Our reading (decision 0017).

use crate::registry::{Setting, Settings, SettingsError};

pub(super) const LONG: Setting = Setting {
    name: "long",
    default: "0.5",
    unit: "fraction of flash",
    help: "size of the long-term zone at the start",
};
pub(super) const LONG_MIN: Setting = Setting {
    name: "long-min",
    default: "0.1",
    unit: "fraction of flash",
    help: "the long-term zone never shrinks below",
};
pub(super) const LONG_MAX: Setting = Setting {
    name: "long-max",
    default: "0.9",
    unit: "fraction of flash",
    help: "the long-term zone never grows above",
};
pub(super) const STEP: Setting = Setting {
    name: "step",
    default: "0.05",
    unit: "fraction of flash",
    help: "how far the border moves in an epoch; 0 keeps it fixed",
};
pub(super) const BURST: Setting = Setting {
    name: "burst",
    default: "1.5",
    unit: "times the mean working set",
    help: "an epoch that touches more chunks than this counts as a burst",
};

/// Weight of the newest epoch in the running mean of the working set.
const MEAN_WEIGHT: f64 = 1.0 / 8.0;
/// A zone must earn this much more at its margin to grow: keeps the border from jittering.
const ADVANTAGE: f64 = 1.1;

/// Feedback of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Feedback {
    /// Chunks accessed.
    pub(super) working_set: u64,
    /// Accesses to the long-term zone's coldest step of chunks.
    pub(super) long_hits: u64,
    /// The same of the short-term zone.
    pub(super) short_hits: u64,
}

/// Places by zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) long: usize,
    pub(super) short: usize,
    /// Places that change hands when the border moves.
    pub(super) step: usize,
}

/// The border.
#[derive(Debug)]
pub(super) struct Split {
    long: f64,
    long_min: f64,
    long_max: f64,
    step: f64,
    burst: f64,
    /// Mean working set so far; none before the first epoch with accesses.
    mean: Option<f64>,
}

impl Split {
    pub(super) fn read(settings: &Settings) -> Result<Split, SettingsError> {
        let long_min = settings.number("long-min", 0.0, 1.0)?;
        let long_max = settings.number("long-max", long_min, 1.0)?;
        Ok(Split {
            long: settings.number("long", long_min, long_max)?,
            long_min,
            long_max,
            step: settings.number("step", 0.0, 0.5)?,
            burst: settings.number("burst", 1.0, 1e9)?,
            mean: None,
        })
    }

    /// Moves the border by what the epoch says; the places of a flash of `capacity` chunks.
    pub(super) fn update(&mut self, capacity: u64, feedback: Feedback) -> Places {
        let working_set = feedback.working_set as f64;
        let mean = self.mean.unwrap_or(working_set);
        let direction = if working_set > self.burst * mean {
            -1.0
        } else {
            let (long, short) = (feedback.long_hits as f64, feedback.short_hits as f64);
            f64::from(long > ADVANTAGE * short) - f64::from(short > ADVANTAGE * long)
        };
        if self.mean.is_some() || feedback.working_set > 0 {
            self.mean = Some(mean + MEAN_WEIGHT * (working_set - mean));
        }
        self.long = (self.long + direction * self.step).clamp(self.long_min, self.long_max);
        let long = ((self.long * capacity as f64).round() as u64).min(capacity);
        let step = ((self.step * capacity as f64).round() as u64).clamp(1, capacity.max(1));
        Places { long: long as usize, short: (capacity - long) as usize, step: step as usize }
    }
}
