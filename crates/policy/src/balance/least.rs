//! Least outstanding requests ("leastconn"): the site with the fewest of this balancer's own
//! requests under way.
//!
//! With one balancer this is the shortest queue, exact and never stale; each of many sees its own
//! part only. Today's default of HAProxy, nginx and Envoy in one form or another. Ties are broken
//! at random: otherwise a balancer with little to do sends everything to its first site.
//!
//! State: none of its own. O(N) a pick.

use super::choose::{self, Ties};
use super::{Board, Rule};
use crate::registry::{Build, Entry};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "least",
    summary: "the fewest own requests under way",
    source: "folklore; leastconn of HAProxy and nginx",
    settings: &[Ties::SETTING],
    build: Build::Balancer(|settings| Ok(Box::new(Least { ties: Ties::read(settings)? }))),
};

/// Picks the fewest outstanding.
struct Least {
    ties: Ties,
}

impl Rule for Least {
    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        choose::least(board.up().iter().copied(), self.ties, rng, |id| {
            choose::with_one_more(board, id, board.site(id).outstanding().into())
        })
    }
}
