//! Random admission at a flash-write budget: the probability is steered so that the bytes written
//! to flash follow a target rate.
//!
//! 1. Within an epoch each miss is admitted with probability p. Bytes offered (misses), and bytes
//!    written (admissions and write hits) are counted.
//! 2. At the end of an epoch the target for the next is what keeps the whole run at `rate`: the
//!    rate plus what was written too little (or minus what was written too much) so far, spread
//!    over `horizon`; never below zero.
//! 3. p becomes (target − written by hits) ÷ offered, with the rates of the epoch that ended; after
//!    the first epoch it changes by at most the `step` share an epoch. It stays within 0.0001 and
//!    1.
//!
//! Source: CacheLib's DynamicRandom admission (Berg et al., OSDI 2020). Differences: lines are
//! equal, so that p does not depend on size; p follows the offered instead of the admitted bytes
//! (the same on average, and defined when nothing was admitted); write hits count against the
//! budget, because they wear flash too. Without ends of epochs (a trace without times) p stays
//! where it began.
//!
//! The null model of any wear-aware policy: compare at equal flash writes.
//!
//! State: about 130 B.

use super::super::Tag;
use super::Admission;
use crate::Footprint;
use crate::registry::{Build, Entry, Geometry, Setting, Settings, SettingsError};
use thermocline_units::{LineId, Nanos, Rng};

pub(crate) const ENTRY: Entry = Entry {
    name: "budget",
    summary: "admits misses at random, as often as a flash-write budget allows",
    source: "DynamicRandom of CacheLib, OSDI 2020",
    settings: &[
        Setting {
            name: "rate",
            default: "5MiB",
            unit: "bytes a second",
            help: "flash writes to aim at, admissions and write hits together",
        },
        Setting {
            name: "p",
            default: "0.1",
            unit: "probability",
            help: "share of misses admitted until the first epoch ends; 0.0001 to 1",
        },
        Setting {
            name: "step",
            default: "0.25",
            unit: "fraction",
            help: "how much the probability may change in one epoch; 0.01 to 10",
        },
        Setting {
            name: "horizon",
            default: "1d",
            unit: "duration",
            help: "time in which writes below or above the budget are made up for",
        },
    ],
    build: Build::Admission(|geometry, settings| Ok(Box::new(Budget::read(geometry, settings)?))),
};

const PROBABILITY_MIN: f64 = 0.0001;

/// Admits at random within a budget.
#[derive(Debug)]
struct Budget {
    rng: Rng,
    probability: f64,
    line_bytes: f64,
    /// Bytes a second.
    rate: f64,
    step: f64,
    horizon_s: f64,
    epoch: Epoch,
    /// Bytes written in all epochs that have ended.
    written: f64,
    epochs_ended: u64,
    last_end: Nanos,
}

/// Bytes in the current epoch.
#[derive(Debug, Default)]
struct Epoch {
    offered: f64,
    admitted: f64,
    written_by_hits: f64,
}

impl Budget {
    fn read(geometry: &Geometry, settings: &Settings) -> Result<Budget, SettingsError> {
        Ok(Budget {
            rng: Rng::seeded(geometry.seed),
            probability: settings.number("p", PROBABILITY_MIN, 1.0)?,
            line_bytes: geometry.line_bytes.0 as f64,
            rate: settings.bytes("rate")?.0 as f64,
            step: settings.number("step", 0.01, 10.0)?,
            horizon_s: settings.duration("horizon")?.as_secs_f64().max(1.0),
            epoch: Epoch::default(),
            written: 0.0,
            epochs_ended: 0,
            last_end: Nanos(0),
        })
    }

    /// The bytes a second that the next epoch should write.
    fn target(&self, now: Nanos) -> f64 {
        let owed = self.rate * now.as_secs_f64() - self.written;
        (self.rate + owed / self.horizon_s).max(0.0)
    }

    fn steer(&mut self, target: f64, seconds: f64) {
        let wanted = if self.epoch.offered > 0.0 {
            (target * seconds - self.epoch.written_by_hits) / self.epoch.offered
        } else {
            self.probability
        };
        let (low, high) = match self.epochs_ended {
            0 => (0.0, 1.0),
            _ => (self.probability / (1.0 + self.step), self.probability * (1.0 + self.step)),
        };
        self.probability = wanted.clamp(low, high).clamp(PROBABILITY_MIN, 1.0);
    }
}

impl Admission for Budget {
    fn reserve(&mut self, _universe: u32) {}

    fn on_hit(&mut self, _line: LineId, tag: Tag) {
        if tag.is_write() {
            self.epoch.written_by_hits += self.line_bytes;
        }
    }

    fn admit(&mut self, _line: LineId, _tag: Tag) -> bool {
        self.epoch.offered += self.line_bytes;
        let admitted = self.rng.unit_f64() < self.probability;
        if admitted {
            self.epoch.admitted += self.line_bytes;
        }
        admitted
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: size_of::<Budget>() as u64, index: 0 }
    }

    fn end_epoch(&mut self, now: Nanos) {
        let seconds = Nanos(now.0.saturating_sub(self.last_end.0)).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        self.written += self.epoch.admitted + self.epoch.written_by_hits;
        let target = self.target(now);
        self.steer(target, seconds);
        self.epoch = Epoch::default();
        self.epochs_ended += 1;
        self.last_end = now;
    }
}

#[cfg(test)]
mod tests;
