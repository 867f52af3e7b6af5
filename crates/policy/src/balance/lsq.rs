//! LSQ, local shortest queue: each balancer keeps a view of the queues of its own, and mends a
//! little of it with each request (Vargaftik, Keslassy and Orda, "LSQ: Load Balancing in
//! Large-Scale Heterogeneous Systems with Multiple Dispatchers", 2020).
//!
//! 1. A request goes to the site whose queue is shortest in the view, and the view's count of that
//!    site goes up by one.
//! 2. Each request sends `probes` probes to sites drawn at random and does not wait for them. An
//!    answer replaces the view's count of its site. The paper calls this LSQ-Sample.
//!
//! Views of different balancers err differently, so that they do not all follow the same site.
//! Nothing is taken from the view when a request comes back, as in the paper: a site that is not
//! probed for long looks longer than it is and is left alone.
//!
//! Differs in that reports count as answers when they are newer. State: 16 B a site. O(N) a pick.

use super::choose::{self, Draw, Ties};
use super::{Board, Probe, Probing, Rule};
use crate::registry::{Build, Entry, Setting};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "lsq",
    summary: "the shortest queue of a view that probes mend, one or two sites a request",
    source: "Vargaftik et al. 2020",
    settings: &[Setting {
        name: "probes",
        default: "2",
        unit: "probes a request",
        help: "sites asked",
    }],
    build: Build::Balancer(|settings| {
        let probes = settings.count("probes", 1, 1024)? as usize;
        Ok(Box::new(Lsq { probes, view: View::default(), draw: Draw::default() }))
    }),
};

/// A site as one balancer sees it.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Requests there, of all balancers.
    queue: u32,
    /// Time at which that was so; `None` before any answer.
    taken: Option<Nanos>,
    /// Number of requests this balancer had sent in all when it heard so.
    sent: u64,
}

/// Queues by the newest answers and reports.
#[derive(Debug, Default)]
pub(super) struct View {
    sites: Vec<Seen>,
}

impl View {
    pub(super) fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        self.sites.resize(board.slots(), Seen::default());
        if let Some(site) = fresh {
            self.sites[site.index()] = Seen { sent: board.sent(), ..Seen::default() };
        }
    }

    pub(super) fn hear(&mut self, site: SiteId, taken: Nanos, queue: u32, board: &Board) {
        let seen = &mut self.sites[site.index()];
        if seen.taken.is_none_or(|last| last <= taken) {
            *seen = Seen { queue, taken: Some(taken), sent: board.sent() };
        }
    }

    pub(super) fn hear_report(&mut self, site: SiteId, board: &Board) {
        if let Some(report) = board.site(site).report() {
            self.hear(site, report.taken, report.queue, board);
        }
    }

    pub(super) fn queue(&self, site: SiteId) -> u32 {
        self.sites[site.index()].queue
    }

    /// Mean number of requests this balancer has sent since it heard of a site.
    pub(super) fn sent_since(&self, board: &Board) -> f64 {
        let since = |id: &SiteId| (board.sent() - self.sites[id.index()].sent) as f64;
        board.up().iter().map(since).sum::<f64>() / board.up().len().max(1) as f64
    }
}

/// Picks by its view.
struct Lsq {
    probes: usize,
    view: View,
    draw: Draw,
}

impl Rule for Lsq {
    fn probing(&self) -> Probing {
        Probing::Aside
    }

    fn needs_probes(&self) -> bool {
        true
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
        let view = &self.view;
        choose::least(board.up().iter().copied(), Ties::Random, rng, |id| {
            choose::with_one_more(board, id, view.queue(id).into())
        })
    }

    fn dispatched(&mut self, _now: Nanos, site: SiteId, _board: &Board) {
        let seen = &mut self.view.sites[site.index()];
        seen.queue = seen.queue.saturating_add(1);
    }
}
