//! Trial of a move: a part of the chunk comes first, and its reads decide whether the rest follows
//! (ChewAnalyzer, Ge 2017 §3.3.3).

use super::{Kind, Tactic};
use crate::registry::{Build, Entry, Setting};
use std::sync::Arc;
use thermocline_units::Nanos;

/// Outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not over yet.
    Open,
    /// The rest follows.
    GoesOn,
    /// The move is given up.
    Lost,
}

/// Choice whether a move goes on after a part of it.
pub trait TrialRule: Send + Sync {
    /// Hundredths of a chunk that come before the trial, 1 to 100; 0: there is none.
    fn share(&self) -> u32;

    /// Longest time of a trial.
    fn patience(&self) -> Nanos;

    /// The verdict on so many reads at the destination, on mean latencies in nanoseconds at source
    /// and destination (`None`: no read), and whether the longest time is over.
    fn judge(
        &self,
        reads: u64,
        source: Option<f64>,
        destination: Option<f64>,
        over: bool,
    ) -> Verdict;
}

struct NoTrial;

impl TrialRule for NoTrial {
    fn share(&self) -> u32 {
        0
    }

    fn patience(&self) -> Nanos {
        Nanos(0)
    }

    fn judge(&self, _: u64, _: Option<f64>, _: Option<f64>, _: bool) -> Verdict {
        Verdict::GoesOn
    }
}

struct FirstPart {
    share: u32,
    reads: u64,
    patience: Nanos,
}

impl TrialRule for FirstPart {
    fn share(&self) -> u32 {
        self.share
    }

    fn patience(&self) -> Nanos {
        self.patience
    }

    fn judge(
        &self,
        reads: u64,
        source: Option<f64>,
        destination: Option<f64>,
        over: bool,
    ) -> Verdict {
        if reads < self.reads && !over {
            return Verdict::Open;
        }
        match (source, destination) {
            (Some(source), Some(destination)) if destination > source => Verdict::Lost,
            _ => Verdict::GoesOn,
        }
    }
}

const SHARE: Setting = Setting {
    name: "share",
    default: "25",
    unit: "per cent of a chunk",
    help: "so much is moved first",
};
const READS: Setting = Setting {
    name: "reads",
    default: "16",
    unit: "reads",
    help: "reads at the destination that are enough to judge",
};
const PATIENCE: Setting = Setting {
    name: "patience",
    default: "1s",
    unit: "duration",
    help: "longest time that they are waited for",
};

pub(super) const NO_TRIAL: Entry = Entry {
    name: "no-trial",
    summary: "a move brings all of a chunk without a trial",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::Trial, |_| Ok(Tactic::Trial(Arc::new(NoTrial)))),
};

pub(super) const FIRST_PART: Entry = Entry {
    name: "first-part",
    summary: "a move upwards brings a part first, and is given up if reads are slower there",
    source: "ChewAnalyzer (Ge 2017), section 3.3.3",
    settings: &[SHARE, READS, PATIENCE],
    build: Build::Tactic(Kind::Trial, |settings| {
        Ok(Tactic::Trial(Arc::new(FirstPart {
            share: settings.count("share", 1, 100)? as u32,
            reads: settings.count("reads", 1, 1 << 20)?,
            patience: settings.duration("patience")?,
        })))
    }),
};
