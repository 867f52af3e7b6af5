//! The load from which on a hinted write is redirected to a faster pool (HintStor, Ge et al. 2022
//! §3.5).

use super::{Kind, Tactic};
use crate::registry::{Build, Entry, Setting};
use std::sync::Arc;

/// Choice whether a pool is too busy for a write whose hint wants a faster one.
pub trait Redirection: Send + Sync {
    /// True if a pool with so many requests under way is too busy.
    fn is_busy(&self, in_flight: u32) -> bool;
}

struct QueueDepth(u32);

impl Redirection for QueueDepth {
    fn is_busy(&self, in_flight: u32) -> bool {
        in_flight >= self.0
    }
}

struct NoRedirection;

impl Redirection for NoRedirection {
    fn is_busy(&self, _in_flight: u32) -> bool {
        false
    }
}

const DEPTH: Setting = Setting {
    name: "depth",
    default: "4",
    unit: "requests under way",
    help: "from so many on a pool is too busy",
};

pub(super) const QUEUE_DEPTH: Entry = Entry {
    name: "queue-depth",
    summary: "a hinted write leaves a pool that has so many requests under way",
    source: "HintStor (Ge et al. 2022), section 3.5; the threshold is ours",
    settings: &[DEPTH],
    build: Build::Tactic(Kind::Redirection, |settings| {
        let depth = settings.count("depth", 1, 1 << 20)? as u32;
        Ok(Tactic::Redirection(Arc::new(QueueDepth(depth))))
    }),
};

pub(super) const NO_REDIRECTION: Entry = Entry {
    name: "no-redirection",
    summary: "a hinted write stays where its chunk is, unless that is across a network",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::Redirection, |_| Ok(Tactic::Redirection(Arc::new(NoRedirection)))),
};
