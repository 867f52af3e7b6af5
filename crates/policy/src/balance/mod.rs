//! Balancers: which of several sites a request is sent to.
//!
//! A policy is written as a [`Rule`] and held as a [`Balancer`], which keeps the facts (the
//! [`Board`]) and tells the rule what happens: arrivals, its own dispatches and completions,
//! reports of sites, answers to probes. The laboratory and the live dispatcher hold the same
//! object.
//!
//! What a rule may know is what a balancer can know: nothing of the true queues, of other
//! balancers, or of coming requests. Two entries of the registry are told the truth and serve as
//! bounds, in the laboratory only ([`Rule::told`]).
//!
//! Invariants: a site that is not up is never picked; equal seeds and events give equal picks; no
//! pick allocates once as many sites as there are have been up. Which backends are fit at all, and
//! how often requests are tried again, is [`fitness`]. Not here: connections,
//! what a report looks like on the wire.

mod ara;
mod balancer;
mod board;
mod burst;
mod choose;
mod coordination;
mod dispersion;
mod ewma;
mod fading;
pub mod fitness;
mod interpretation;
mod jiq;
mod jsq;
mod latency;
mod least;
mod level;
mod lsq;
mod power;
mod prequal;
mod qlen;
mod rand;
mod round_robin;
mod speeds;
mod tally;
#[cfg(test)]
mod tests;
mod water_fill;

pub use balancer::Balancer;
pub use board::{Board, Report, Site, Standing};
pub use dispersion::Dispersion;
pub use latency::Latency;

use thermocline_units::{Nanos, Rng, SiteId};

/// Registry entries of this folder's policies: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] = &[
    rand::ENTRY,
    round_robin::ENTRY,
    qlen::ENTRY,
    ara::STATIC,
    ara::PRED,
    ara::COUNT,
    least::ENTRY,
    power::ENTRY,
    ewma::ENTRY,
    jiq::ENTRY,
    prequal::ENTRY,
    lsq::ENTRY,
    coordination::SCD,
    coordination::TWF,
    interpretation::LI,
    interpretation::OWN,
    water_fill::ENTRY,
    ara::OPT,
    jsq::ENTRY,
];

/// The policy when nobody names one.
pub const DEFAULT: &str = "water-fill";

/// An answer to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Time of the site's look, on the clock of the balancer.
    pub taken: Nanos,
    /// Requests waiting or in service then, of all balancers.
    pub in_flight: u32,
    /// Latency of requests there lately; `None` when it has not served any.
    pub latency: Option<Nanos>,
}

/// The way in which a rule wants its probes answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probing {
    /// No probes.
    None,
    /// Whenever the answers come; requests do not wait for them.
    Aside,
    /// Before it is asked for a site: the request waits for the answers.
    Awaited,
}

/// Facts that only the laboratory knows.
#[derive(Debug, Clone, Copy)]
pub struct Truth<'a> {
    /// True if the arrival process is in a burst.
    pub bursting: bool,
    /// Requests waiting or in service at each site, by number.
    pub queues: &'a [u32],
}

/// A rule's judgement of the arrivals, for people to look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mood {
    /// True if it believes to be in a burst; `None` when it does not ask.
    pub bursting: Option<bool>,
    /// Number of sites it chooses among; `None` when that has no meaning.
    pub candidates: Option<f64>,
}

/// A rule that picks sites.
///
/// The caller guarantees that times do not run backwards, and that the board is up to date before
/// each call. The implementer must keep every call O(N), O(N log N) where its head says so, and
/// must not allocate in `pick` once warm. Calls a rule has no use for may be left out.
pub trait Rule: Send {
    /// A request has come; it may be picked for several times (retries).
    fn arrived(&mut self, _now: Nanos, _board: &Board) {}

    /// The site for a request, one of `board.up()`, which is not empty.
    fn pick(&mut self, now: Nanos, board: &Board, rng: &mut Rng) -> SiteId;

    /// A request went to `site`.
    fn dispatched(&mut self, _now: Nanos, _site: SiteId, _board: &Board) {}

    /// A request came back from `site`; `latency` is `None` when it failed.
    fn completed(&mut self, _now: Nanos, _site: SiteId, _latency: Option<Nanos>, _board: &Board) {}

    /// `site` has reported; the report is on the board.
    fn reported(&mut self, _now: Nanos, _site: SiteId, _board: &Board) {}

    /// `site` told this balancer alone, of all there are, that it has nothing to do.
    fn idle(&mut self, _now: Nanos, _site: SiteId) {}

    /// Sites were added or removed, came up or went down, or changed weight. `fresh` is a number
    /// under which a new site stands from now on.
    fn reshaped(&mut self, _fresh: Option<SiteId>, _board: &Board) {}

    /// The probing that it wants.
    fn probing(&self) -> Probing {
        Probing::None
    }

    /// True if it knows next to nothing where nobody answers probes.
    fn needs_probes(&self) -> bool {
        false
    }

    /// Sites to probe on account of the request that has just arrived, appended to `out`.
    fn probes(&mut self, _now: Nanos, _board: &Board, _rng: &mut Rng, _out: &mut Vec<SiteId>) {}

    /// An answer has come.
    fn probed(&mut self, _now: Nanos, _site: SiteId, _probe: &Probe, _board: &Board) {}

    /// The truth, just before a pick: only for the laboratory's bounds.
    fn told(&mut self, _truth: &Truth<'_>) {}

    /// Its judgement of the arrivals.
    fn mood(&self, _board: &Board) -> Mood {
        Mood { bursting: None, candidates: None }
    }
}
