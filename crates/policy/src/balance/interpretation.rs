//! Load interpretation: reports read in the light of what has probably been sent since.
//!
//! `li` (Dahlin, ICDCS 1999; TPDS 2000): of age T and arrivals at rate Λ, Λ·T requests have come
//! that the reports do not show, and have been sent by the same rule; the `level` says where.
//!
//! 1. Unseen requests: as many as the sites' counts of arrivals say of others, for the age of the
//!    reports, or this balancer's own unseen ones times the number of balancers; the greater.
//! 2. A site is drawn in proportion to the room below the level over the reported queues.
//!
//! `li-own` (ours): each own request that the report has not seen stands for one of each balancer.
//! The site with the least reported queue plus own unseen requests times the number of balancers,
//! of `d` drawn, or of all; ties at random.
//!
//! Dahlin gives the rule the true Λ; ours is estimated. State: 24 B a site. O(N log N) a pick,
//! `li-own` O(N).

use super::choose::{self, Draw, Ties};
use super::level::Level;
use super::{Board, Mood, Rule};
use crate::registry::{Build, Entry, Setting};
use thermocline_units::{Nanos, Rng, SiteId};

pub(super) const LI: Entry = Entry {
    name: "li",
    summary: "reported queues, filled up with what has probably been sent since",
    source: "Dahlin, ICDCS 1999",
    settings: &[],
    build: Build::Balancer(|_| Ok(Box::new(Interpretation { level: Level::default() }))),
};

pub(super) const OWN: Entry = Entry {
    name: "li-own",
    summary: "the least reported queue plus own requests since, times the number of balancers",
    source: "ours, after Dahlin 1999",
    settings: &[Setting {
        name: "d",
        default: "0",
        unit: "sites",
        help: "sites drawn for a request; 0 is all",
    }],
    build: Build::Balancer(|settings| {
        let count = match settings.count("d", 0, u16::MAX.into())? {
            0 => usize::MAX,
            count => count as usize,
        };
        Ok(Box::new(OwnTimesBalancers { count, draw: Draw::default() }))
    }),
};

/// Requests of others that reports cannot show: by the sites' counts of arrivals, or, when more, as
/// many of each balancer as of this one.
pub(super) fn unseen_of_others(now: Nanos, board: &Board) -> f64 {
    let counted = |id: &SiteId| {
        let site = board.site(*id);
        let age = site.age(now).map_or(0.0, Nanos::as_secs_f64);
        (site.others_rate().unwrap_or(0.0) * age, site.unseen() as f64)
    };
    let add = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
    let (counted, own) = board.up().iter().map(counted).fold((0.0, 0.0), add);
    counted.max(own * f64::from(board.balancers() - 1))
}

/// Dahlin's rule.
struct Interpretation {
    level: Level,
}

impl Rule for Interpretation {
    fn pick(&mut self, now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let own: u64 = board.up().iter().map(|id| board.site(*id).unseen()).sum();
        let unseen = unseen_of_others(now, board) + own as f64;
        self.level.draw(board, unseen, rng, |id| board.site(id).queue().into())
    }

    fn mood(&self, _board: &Board) -> Mood {
        Mood { bursting: None, candidates: Some(self.level.below() as f64) }
    }
}

/// Own unseen requests, as if every balancer had done the same.
struct OwnTimesBalancers {
    count: usize,
    draw: Draw,
}

impl Rule for OwnTimesBalancers {
    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let balancers = f64::from(board.balancers());
        let drawn = self.draw.draw(board, self.count, rng).iter().copied();
        choose::least(drawn, Ties::Random, rng, |id| {
            let site = board.site(id);
            let load = f64::from(site.queue()) + balancers * site.unseen() as f64;
            choose::with_one_more(board, id, load)
        })
    }
}
