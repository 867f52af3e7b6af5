//! A balancer: a board, a rule, and a generator of its own.
//!
//! The machine tells it what happens and asks it for sites; it keeps the board up to date before it
//! passes anything on to the rule.

use super::{Board, Mood, Probe, Probing, Report, Rule, Standing, Truth};
use thermocline_units::{Nanos, Rng, SiteId};

/// Picks sites for requests.
///
/// ```
/// use thermocline_policy::balance::Balancer;
/// use thermocline_policy::registry::PolicySpec;
/// use thermocline_units::Nanos;
///
/// let rule = PolicySpec::parse("least").unwrap().build_rule().unwrap();
/// let mut balancer = Balancer::new(rule, 7);
/// let (a, b) = (balancer.add_site(1.0), balancer.add_site(1.0));
/// balancer.arrived(Nanos(0));
/// balancer.dispatched(Nanos(0), a);
/// balancer.arrived(Nanos(5));
/// assert_eq!(balancer.pick(Nanos(5), &[]), Some(b));
/// ```
pub struct Balancer {
    board: Board,
    rule: Box<dyn Rule>,
    rng: Rng,
}

impl Balancer {
    /// A balancer without sites. Give each of several balancers a seed of its own: otherwise they
    /// all send their first requests to the same site.
    pub fn new(rule: Box<dyn Rule>, seed: u64) -> Balancer {
        Balancer { board: Board::default(), rule, rng: Rng::seeded(seed) }
    }

    /// Facts that it knows.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The rule's judgement of the arrivals.
    pub fn mood(&self) -> Mood {
        self.rule.mood(&self.board)
    }

    /// A new site, up, `weight` times as fast as one of weight 1.
    ///
    /// # Panics
    /// When `weight` is not above 0, or there are 65,536 sites.
    pub fn add_site(&mut self, weight: f64) -> SiteId {
        let id = self.board.add(weight);
        self.rule.reshaped(Some(id), &self.board);
        id
    }

    /// Sets the standing of a site: whether it may be sent requests. [`Standing::Vacant`] removes
    /// it: its number is given to another once everything sent there has come back.
    ///
    /// # Panics
    /// As for [`Board::site`], and when a removed site should come back: add it again.
    pub fn set_standing(&mut self, site: SiteId, standing: Standing) {
        let gone = self.board.site(site).standing() == Standing::Vacant;
        assert!(!gone || standing == Standing::Vacant, "a removed site does not come back");
        self.board.set_standing(site, standing);
        self.rule.reshaped(None, &self.board);
    }

    /// Sets the speed of a site beside the others. A slow start raises this step by step.
    ///
    /// # Panics
    /// As for [`Balancer::add_site`].
    pub fn set_weight(&mut self, site: SiteId, weight: f64) {
        self.board.set_weight(site, weight);
        self.rule.reshaped(None, &self.board);
    }

    /// A request has come. Told once a request, before anything is asked for it.
    pub fn arrived(&mut self, now: Nanos) {
        self.rule.arrived(now, &self.board);
    }

    /// The probing that the rule wants.
    pub fn probing(&self) -> Probing {
        self.rule.probing()
    }

    /// Sites to probe on account of the request that has just come, appended to `out`.
    pub fn probes(&mut self, now: Nanos, out: &mut Vec<SiteId>) {
        self.rule.probes(now, &self.board, &mut self.rng, out);
    }

    /// An answer to a probe.
    pub fn probed(&mut self, now: Nanos, site: SiteId, probe: &Probe) {
        self.rule.probed(now, site, probe, &self.board);
    }

    /// A site that is up and not among `avoid` (those that a retry has tried); `None` when there is
    /// none. Sends nothing: [`Balancer::dispatched`] says that it was sent.
    ///
    /// # Panics
    /// When the rule picks a site that is not up: a bug of the rule.
    pub fn pick(&mut self, now: Nanos, avoid: &[SiteId]) -> Option<SiteId> {
        avoid.iter().for_each(|site| self.board.hide(*site));
        let up = !self.board.up().is_empty();
        let site = up.then(|| self.rule.pick(now, &self.board, &mut self.rng));
        if let Some(site) = site {
            let standing = self.board.site(site).standing();
            assert!(standing == Standing::Up && !avoid.contains(&site), "{site:?} is not up");
        }
        if !avoid.is_empty() {
            self.board.reshape();
        }
        site
    }

    /// A request was sent to `site`.
    pub fn dispatched(&mut self, now: Nanos, site: SiteId) {
        self.board.dispatched(now, site);
        self.rule.dispatched(now, site, &self.board);
    }

    /// A request came back from `site`, or was given up; `latency` since it was sent, `None` when
    /// it failed: a server that fails quickly is not a fast one.
    ///
    /// # Panics
    /// When more come back from a site than were sent there.
    pub fn completed(&mut self, now: Nanos, site: SiteId, latency: Option<Nanos>) {
        self.board.completed(now, site);
        self.rule.completed(now, site, latency, &self.board);
    }

    /// A site has reported. A report that was taken before the last one is passed over.
    pub fn reported(&mut self, now: Nanos, site: SiteId, report: Report) {
        self.board.reported(now, site, report);
        self.rule.reported(now, site, &self.board);
    }

    /// A site told this balancer, of all there are, that it has nothing to do. A balancer that has
    /// its sites for itself may be told so whenever nothing is outstanding there.
    pub fn idle(&mut self, now: Nanos, site: SiteId) {
        self.rule.idle(now, site);
    }

    /// The truth, just before a pick, for the laboratory's bounds.
    pub fn told(&mut self, truth: &Truth<'_>) {
        self.rule.told(truth);
    }
}
