//! JIQ, join the idle queue: a site that has told this balancer that it is idle, else any (Lu, Xie,
//! Kliot, Geller, Larus and Greenberg 2011).
//!
//! 1. A site that runs out of work joins the idle queue of one balancer, chosen by the site.
//! 2. A request goes to the site that joined first; when nobody has joined, to any.
//!
//! With one balancer and idle sites it is as good as the shortest queue, and costs nothing while a
//! request waits. Under load, when no site is idle, it is `rand`. A token is taken out when its
//! site is picked by chance, because it is idle no longer: the paper leaves it.
//!
//! State: 2 B a token, one of each site at most. O(N) a pick.

use super::{Board, Rule, Standing, choose};
use crate::registry::{Build, Entry};
use std::collections::VecDeque;
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "jiq",
    summary: "a site that said it is idle, else any",
    source: "Lu et al. 2011",
    settings: &[],
    build: Build::Balancer(|_| Ok(Box::new(Jiq { idle: VecDeque::new() }))),
};

/// Remembers who is idle.
struct Jiq {
    idle: VecDeque<SiteId>,
}

impl Rule for Jiq {
    fn idle(&mut self, _now: Nanos, site: SiteId) {
        if !self.idle.contains(&site) {
            self.idle.push_back(site);
        }
    }

    fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        self.idle.retain(|site| board.site(*site).standing() == Standing::Up);
        self.idle.extend(fresh); // a new site has nothing to do
    }

    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let idle = self.idle.iter().find(|site| board.up().contains(site));
        idle.copied().unwrap_or_else(|| choose::by_weight(board, rng))
    }

    fn dispatched(&mut self, _now: Nanos, site: SiteId, _board: &Board) {
        self.idle.retain(|idle| *idle != site);
    }
}
