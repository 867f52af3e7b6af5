//! JSQ: the shortest queue as it is at this moment, of all balancers together. A bound: nobody but
//! the laboratory knows that. Random ties.
//!
//! The best that a balancer can do which must place each request when it comes, knows no service
//! times, and sends to equal sites (Winston 1977, for Poisson arrivals and exponential service);
//! the central queue, which may wait before it decides, is better still. State: 4 B a site.

use super::choose::{self, Ties};
use super::{Board, Rule, Truth};
use crate::registry::{Build, Entry};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "jsq",
    summary: "the shortest queue as it is at this moment",
    source: "Winston 1977",
    settings: &[],
    build: Build::Oracle(|_| Ok(Box::new(Jsq { queues: Vec::new() }))),
};

/// Knows every queue.
struct Jsq {
    queues: Vec<u32>,
}

impl Rule for Jsq {
    fn told(&mut self, truth: &Truth<'_>) {
        self.queues.clear();
        self.queues.extend_from_slice(truth.queues);
    }

    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        choose::least(board.up().iter().copied(), Ties::Random, rng, |id| {
            let queue = self.queues.get(id.index()).copied().unwrap_or(0);
            choose::with_one_more(board, id, queue.into())
        })
    }
}
