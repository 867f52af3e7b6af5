//! Write-back of a block cache: how many runs of dirty lines go to the slow device at once, and
//! whether lines that are still in use go as well.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry, Setting};
use std::sync::Arc;

/// Dirty lines of a cache, more than it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyLines {
    /// Slots of the cache; above 0.
    pub slots: u64,
    /// Slots with dirty lines.
    pub dirty: u64,
    /// Dirty lines above which some go back; below `dirty`.
    pub allowed: u64,
    /// Runs that may be under way at once; above 0.
    pub runs_max: u32,
    /// True if clients wait for the slow device.
    pub clients_wait: bool,
}

impl DirtyLines {
    fn over(&self) -> u64 {
        self.dirty.saturating_sub(self.allowed)
    }

    /// True if more than so many percent of the slots are dirty.
    fn flood(&self, percent: u64) -> bool {
        self.dirty * 100 > self.slots * percent
    }
}

/// Choice of the runs that go back.
pub trait WriteBack: Send + Sync {
    /// Runs that should be under way, 1 to `runs_max`.
    fn runs(&self, lines: &DirtyLines) -> u32;

    /// True if lines that were hit since they came go back as well, and not only the others.
    fn takes_used(&self, lines: &DirtyLines) -> bool;
}

/// More runs the more lines are dirty, one while clients wait for the slow device.
struct Graded {
    flood: u64,
}

impl WriteBack for Graded {
    fn runs(&self, lines: &DirtyLines) -> u32 {
        if lines.clients_wait && !lines.flood(self.flood) {
            return 1;
        }
        let most = u64::from(lines.runs_max);
        let share = lines.over() * most / lines.allowed.max(1);
        (1 + share).min(most) as u32
    }

    fn takes_used(&self, lines: &DirtyLines) -> bool {
        lines.over() > lines.allowed
    }
}

struct AllAtOnce;

impl WriteBack for AllAtOnce {
    fn runs(&self, lines: &DirtyLines) -> u32 {
        lines.runs_max
    }

    fn takes_used(&self, _lines: &DirtyLines) -> bool {
        true
    }
}

const FLOOD: Setting = Setting {
    name: "flood",
    default: "90",
    unit: "percent",
    help: "dirty slots above which lines go back as fast as may be also while clients wait",
};

pub(super) const GRADED: Entry = Entry {
    name: "write-back-graded",
    summary: "the more lines are dirty the more runs go back, one while clients wait for the device",
    source: "ours",
    settings: &[FLOOD],
    build: Build::Tactic(Kind::WriteBack, |settings| {
        let flood = settings.count("flood", 1, 100)?;
        Ok(Tactic::WriteBack(Arc::new(Graded { flood })))
    }),
};

pub(super) const ALL_AT_ONCE: Entry = Entry {
    name: "write-back-at-once",
    summary: "as many runs go back as may be, whoever waits",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::WriteBack, |_| Ok(Tactic::WriteBack(Arc::new(AllAtOnce)))),
};
