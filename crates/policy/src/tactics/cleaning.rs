//! Choice of the segment that a log-structured store cleans next: the blocks that are left on it
//! are moved, and it is free.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry};
use std::sync::Arc;

/// A full segment with holes, as whoever cleans sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentUse {
    /// Blocks that it can hold; above 0.
    pub slots: u32,
    /// Blocks that are left on it, and would have to be moved; at most `slots`.
    pub live: u32,
    /// Segments that were begun since it was.
    pub age: u64,
}

impl SegmentUse {
    fn holes(&self) -> u64 {
        u64::from(self.slots - self.live)
    }
}

/// Choice of the segment to be cleaned.
pub trait Cleaning: Send + Sync {
    /// Worth of cleaning a segment; the one that is worth most is next.
    fn worth(&self, segment: &SegmentUse) -> u64;
}

struct CostBenefit;

impl Cleaning for CostBenefit {
    fn worth(&self, segment: &SegmentUse) -> u64 {
        let benefit = segment.holes().saturating_mul(segment.age).saturating_mul(1024);
        benefit / u64::from(segment.live + 1)
    }
}

struct Greedy;

impl Cleaning for Greedy {
    fn worth(&self, segment: &SegmentUse) -> u64 {
        segment.holes()
    }
}

struct Oldest;

impl Cleaning for Oldest {
    fn worth(&self, segment: &SegmentUse) -> u64 {
        segment.age
    }
}

pub(super) const COST_BENEFIT: Entry = Entry {
    name: "clean-cost-benefit",
    summary: "the segment with the most holes times age for each block that must be moved",
    source: "Rosenblum and Ousterhout (1992), §3.5",
    settings: &[],
    build: Build::Tactic(Kind::Cleaning, |_| Ok(Tactic::Cleaning(Arc::new(CostBenefit)))),
};

pub(super) const GREEDY: Entry = Entry {
    name: "clean-greedy",
    summary: "the segment with the most holes",
    source: "Rosenblum and Ousterhout (1992), §3.5",
    settings: &[],
    build: Build::Tactic(Kind::Cleaning, |_| Ok(Tactic::Cleaning(Arc::new(Greedy)))),
};

pub(super) const OLDEST: Entry = Entry {
    name: "clean-oldest",
    summary: "the oldest segment with holes, as in a circular log",
    source: "Rosenblum and Ousterhout (1992), §3.3",
    settings: &[],
    build: Build::Tactic(Kind::Cleaning, |_| Ok(Tactic::Cleaning(Arc::new(Oldest)))),
};
