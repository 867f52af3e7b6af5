//! Stochastic coordination: balancers that know the same queues draw from the same chances, so that
//! together, without a word between them, they fill the queues evenly.
//!
//! `scd` (Goren, Vargaftik and Moses, "Stochastic Coordination in Heterogeneous Load Balancing
//! Systems", 2021), with a requests in all, queue q and rate µ of each site:
//! 1. The chances p minimise the expected square of what queues are above or below one level, a
//!    site's square divided by its µ. That is the least of Σ ((2q + 1)·p + (a − 1)·p²) / µ.
//! 2. So p = (Λ·µ − (2q + 1)) / 2(a − 1) where that is above 0, and Λ makes them add up to 1: water
//!    at the level Λ over vessels that are filled up to 2q + 1.
//! 3. a is what the balancer itself has to send, times the number of balancers.
//!
//! `twf` (Goren, Vargaftik and Moses, "Distributed Dispatching in the Parallel Server Model", 2020;
//! tidal water filling) is the same for sites that are held to be equal.
//!
//! The papers' time goes in rounds, at the beginning of which every queue is known to all. Here a
//! round of one site begins when it was last heard of: a request's a is one, and the mean of what
//! was sent since. With `probes` each request asks so many sites drawn at random, and does not wait
//! for them; with 0, or no answers, queues are those of the last reports.
//!
//! State: 48 B a site. O(N log N) a pick.

use super::choose::Draw;
use super::level::Level;
use super::lsq::View;
use super::{Board, Mood, Probe, Probing, Rule};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Nanos, Rng, SiteId};

const PROBES: Setting = Setting {
    name: "probes",
    default: "3",
    unit: "probes a request",
    help: "sites asked; 0 is none, as many as there are sites is the papers' full knowledge",
};

pub(super) const SCD: Entry = Entry {
    name: "scd",
    summary: "chances that fill queues evenly if all balancers draw by them, by the sites' rates",
    source: "Goren et al. 2021",
    settings: &[PROBES],
    build: Build::Balancer(|settings| Ok(Box::new(Coordination::read(settings, true)?))),
};

pub(super) const TWF: Entry = Entry {
    name: "twf",
    summary: "chances that fill queues evenly if all balancers draw by them, sites held equal",
    source: "Goren et al. 2020",
    settings: &[PROBES],
    build: Build::Balancer(|settings| Ok(Box::new(Coordination::read(settings, false)?))),
};

/// Draws by chances.
struct Coordination {
    probes: usize,
    /// True if weights count.
    weighs: bool,
    view: View,
    level: Level,
    draw: Draw,
}

impl Coordination {
    fn read(settings: &Settings, weighs: bool) -> Result<Coordination, SettingsError> {
        Ok(Coordination {
            probes: settings.count("probes", 0, 65_535)? as usize,
            weighs,
            view: View::default(),
            level: Level::default(),
            draw: Draw::default(),
        })
    }
}

impl Rule for Coordination {
    fn probing(&self) -> Probing {
        if self.probes > 0 { Probing::Aside } else { Probing::None }
    }

    fn probes(&mut self, _now: Nanos, board: &Board, rng: &mut Rng, out: &mut Vec<SiteId>) {
        out.extend_from_slice(self.draw.draw(board, self.probes, rng));
    }

    fn probed(&mut self, _now: Nanos, site: SiteId, probe: &Probe, board: &Board) {
        self.view.hear(site, probe.taken, probe.in_flight, board);
    }

    fn reported(&mut self, _now: Nanos, site: SiteId, board: &Board) {
        self.view.hear_report(site, board);
    }

    fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        self.view.reshaped(fresh, board);
    }

    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let all = (self.view.sent_since(board) + 1.0) * f64::from(board.balancers());
        let (view, weighs) = (&self.view, self.weighs);
        let weight = |id: SiteId| if weighs { board.site(id).weight() } else { 1.0 };
        let filled = |id: SiteId| 2.0 * f64::from(view.queue(id));
        // `Level` adds the one when there is nothing to spread.
        let (one, room) = if all > 1.0 { (1.0, 2.0 * (all - 1.0)) } else { (0.0, 0.0) };
        self.level.draw_by(board, room, rng, |id| filled(id) + one, weight)
    }

    fn mood(&self, _board: &Board) -> Mood {
        Mood { bursting: None, candidates: Some(self.level.below() as f64) }
    }
}

#[cfg(test)]
mod tests;
