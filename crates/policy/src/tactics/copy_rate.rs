//! The rate of copying while volumes have SLAs.
//!
//! Source: Aqueduct (Lu, Alvarez and Wilkes, FAST 2002). Differs: its error is of mean latencies
//! and of a contract in their units; here SLAs are of a percentile, so the share of late answers is
//! what is held. Its gain comes from an identified model; this one is low and fixed.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry, Setting};
use std::sync::Arc;
use thermocline_units::Bytes;

/// Errors below this are no worse: two seconds bring the rate to its least.
const ERROR_LEAST: f64 = -5.0;

/// Facts that a rate follows from, once a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Bytes a second until now.
    pub rate: Bytes,
    /// The least and the most that it may be.
    pub least: Bytes,
    /// The most.
    pub most: Bytes,
    /// Share of late answers of the volume with most, 0 to 1.
    pub late: f64,
}

/// Choice of the rate at which operations copy.
pub trait CopyRate: Send + Sync {
    /// Hundredths of a volume's answers that shall be in time, 1 to 99; `None`: the rate is what
    /// the settings of copying say, and follows from nothing.
    fn percentile(&self) -> Option<u32>;

    /// Bytes a second from now on.
    fn rate(&self, pace: &Pace) -> Bytes;
}

struct FixedRate;

impl CopyRate for FixedRate {
    fn percentile(&self) -> Option<u32> {
        None
    }

    fn rate(&self, pace: &Pace) -> Bytes {
        pace.most
    }
}

struct Aqueduct {
    percentile: u32,
    gain: f64,
}

impl CopyRate for Aqueduct {
    fn percentile(&self) -> Option<u32> {
        Some(self.percentile)
    }

    /// R(k) = R(k−1) + gain · E · R_max. E is the part of the allowed late answers that is left: 1
    /// where nothing was late, 0 where as many were as may be, down to [`ERROR_LEAST`].
    fn rate(&self, pace: &Pace) -> Bytes {
        let allowed = 1.0 - f64::from(self.percentile) / 100.0;
        let error = ((allowed - pace.late) / allowed).max(ERROR_LEAST);
        let rate = pace.rate.0 as f64 + self.gain * error * pace.most.0 as f64;
        Bytes((rate as u64).clamp(pace.least.0.max(1), pace.most.0.max(1)))
    }
}

const PERCENTILE: Setting = Setting {
    name: "percentile",
    default: "95",
    unit: "per cent of answers",
    help: "so many of a volume's answers shall keep its SLA",
};
const GAIN: Setting = Setting {
    name: "gain",
    default: "0.1",
    unit: "fraction of the highest rate",
    help: "change of the rate in a second by an error of 1",
};

pub(super) const FIXED_RATE: Entry = Entry {
    name: "fixed-rate",
    summary: "copies go as fast as the settings of moves allow, whatever the SLAs of volumes",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::CopyRate, |_| Ok(Tactic::CopyRate(Arc::new(FixedRate)))),
};

pub(super) const AQUEDUCT: Entry = Entry {
    name: "aqueduct",
    summary: "copies slow down while more answers are late than the SLAs of volumes allow",
    source: "Aqueduct (Lu, Alvarez and Wilkes, FAST 2002)",
    settings: &[PERCENTILE, GAIN],
    build: Build::Tactic(Kind::CopyRate, |settings| {
        let percentile = settings.count("percentile", 1, 99)? as u32;
        let gain = settings.number("gain", 0.001, 1.0)?;
        Ok(Tactic::CopyRate(Arc::new(Aqueduct { percentile, gain })))
    }),
};
