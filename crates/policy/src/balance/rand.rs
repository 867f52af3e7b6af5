//! Rand: any site, each as likely as it is fast. The source's second baseline (Tai 2015 §3.1).
//!
//! Needs no report, cannot herd, and leaves sites idle while others queue: with exponential service
//! each site is an M/M/1 of its own. State: none.

use super::{Board, Rule, choose};
use crate::registry::{Build, Entry};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "rand",
    summary: "any site, each as likely as it is fast",
    source: "Tai 2015 §3.1",
    settings: &[],
    build: Build::Balancer(|_| Ok(Box::new(Rand))),
};

/// Picks at random.
struct Rand;

impl Rule for Rand {
    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        choose::by_weight(board, rng)
    }
}
