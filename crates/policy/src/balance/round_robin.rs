//! Round robin: sites in turn, each as often as it is fast.
//!
//! 1. Each site has a credit. A pick adds each site's weight to its credit.
//! 2. The site with the most credit is taken and pays the sum of all weights.
//!
//! The smooth form (nginx, 2012): with weights 5, 1, 1 the turns of the heavy site are spread, not
//! five in a row. Differs in its beginning: credits start at random, so that many balancers that
//! start together do not all send their first request to the same site.
//!
//! State: 8 B a site. O(N) a pick.

use super::{Board, Rule};
use crate::registry::{Build, Entry};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "round-robin",
    summary: "sites in turn, each as often as it is fast",
    source: "folklore; nginx's smooth weighted form",
    settings: &[],
    build: Build::Balancer(|_| Ok(Box::new(RoundRobin::default()))),
};

/// Requests that a site is owed.
#[derive(Debug, Clone, Copy)]
enum Credit {
    /// Not drawn yet.
    Unset,
    /// A credit in units of weight.
    Owed(f64),
}

/// Picks in turn.
#[derive(Debug, Default)]
struct RoundRobin {
    credits: Vec<Credit>,
}

impl Rule for RoundRobin {
    fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        self.credits.resize(board.slots(), Credit::Unset);
        if let Some(site) = fresh {
            self.credits[site.index()] = Credit::Unset;
        }
    }

    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let mut best = (f64::NEG_INFINITY, board.up()[0]);
        for id in board.up() {
            let weight = board.site(*id).weight();
            let credit = match self.credits[id.index()] {
                Credit::Unset => rng.unit_f64() * weight,
                Credit::Owed(credit) => credit + weight,
            };
            self.credits[id.index()] = Credit::Owed(credit);
            if credit > best.0 {
                best = (credit, *id);
            }
        }
        self.credits[best.1.index()] = Credit::Owed(best.0 - board.weight());
        best.1
    }
}
