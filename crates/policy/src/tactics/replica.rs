//! The copy that answers a read, and the side of a mirrored chunk.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry};
use std::sync::Arc;

/// A copy that could answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// Seconds that a request there is expected to wait, service included.
    pub wait_s: f64,
    /// Rank of its pool by speed, 0 the fastest.
    pub rank: u16,
}

/// Choice between copies.
pub trait Replica: Send + Sync {
    /// Index of the copy to use, of at least one.
    fn choose(&self, copies: &[Waiting]) -> usize;
}

/// Index of the least by a key; the first of equals.
fn least(copies: &[Waiting], key: impl Fn(&Waiting) -> f64) -> usize {
    let keys = copies.iter().map(key).enumerate();
    let found = keys.min_by(|(_, a), (_, b)| a.total_cmp(b));
    found.expect("there is a copy to choose").0
}

struct ShortestWait;

impl Replica for ShortestWait {
    fn choose(&self, copies: &[Waiting]) -> usize {
        least(copies, |copy| copy.wait_s)
    }
}

struct FastestCopy;

impl Replica for FastestCopy {
    fn choose(&self, copies: &[Waiting]) -> usize {
        least(copies, |copy| f64::from(copy.rank))
    }
}

pub(super) const SHORTEST_WAIT: Entry = Entry {
    name: "shortest-wait",
    summary: "a read uses the copy that is expected to answer soonest",
    source: "shortest expected delay",
    settings: &[],
    build: Build::Tactic(Kind::Replica, |_| Ok(Tactic::Replica(Arc::new(ShortestWait)))),
};

pub(super) const FASTEST_COPY: Entry = Entry {
    name: "fastest-copy",
    summary: "a read uses the copy on the fastest pool, however busy it is",
    source: "read-preferred mirror",
    settings: &[],
    build: Build::Tactic(Kind::Replica, |_| Ok(Tactic::Replica(Arc::new(FastestCopy)))),
};
