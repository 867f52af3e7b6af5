//! Qlen: the site whose queue was shortest when it last reported. The source's greedy baseline
//! (Tai 2015 §3.1).
//!
//! Best while reports are fresh. Between two reports it sends everything to one site: the herd that
//! the source's ARA was made against. `ties=first` is the rule of the source's tables.
//!
//! Differs where sites are unequal: the queue with one request more, divided by the site's weight,
//! which for equal sites is the same order. State: none of its own.

use super::choose::{self, Ties};
use super::{Board, Rule};
use crate::registry::{Build, Entry};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "qlen",
    summary: "the shortest queue by the last reports, however old they are",
    source: "Tai 2015 §3.1",
    settings: &[Ties::SETTING],
    build: Build::Balancer(|settings| Ok(Box::new(Qlen { ties: Ties::read(settings)? }))),
};

/// Picks the shortest queue reported.
struct Qlen {
    ties: Ties,
}

impl Rule for Qlen {
    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        choose::least(board.up().iter().copied(), self.ties, rng, |id| {
            choose::with_one_more(board, id, board.site(id).queue().into())
        })
    }
}
