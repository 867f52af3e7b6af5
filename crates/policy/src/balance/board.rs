//! State of the sites as one balancer knows it: which it may use, what it has sent there, what they
//! reported.
//!
//! The board keeps facts and draws no conclusions: rules read it and decide. Its numbers are those
//! of one balancer; what others send is known only from reports.
//!
//! - *Outstanding*: requests that this balancer has sent and that have not come back. Never stale.
//! - *Unseen*: of those it has sent, how many the last report cannot know of.
//! - *Others*: of the queue last reported, what is not this balancer's.
//!
//! State: 200 B a site and 32 B for each request of the last report's age, 2 KiB at most. O(1) an
//! event.

use super::tally::Tally;
use thermocline_units::{Nanos, SiteId};

/// Permission to send a site requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A site that may be sent requests.
    Up,
    /// A site that finishes what it has and is sent nothing new.
    Draining,
    /// A site that is sent nothing.
    Down,
    /// There is no site under this number.
    Vacant,
}

/// A site's report of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Time of its look, on the clock of the balancer.
    pub taken: Nanos,
    /// Requests waiting or in service then, of all balancers.
    pub queue: u32,
    /// Requests that have ever arrived there.
    pub arrivals: u64,
    /// Balancers that send there; 0 when the site does not know.
    pub balancers: u32,
}

/// An earlier report, to take differences from.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    taken: Nanos,
    arrivals: u64,
    sent: u64,
}

/// The last report, and what this balancer had done by then.
#[derive(Debug, Clone, Copy)]
struct Heard {
    report: Report,
    sent: u64,
    done: u64,
}

/// One site.
#[derive(Debug, Clone)]
pub struct Site {
    standing: Standing,
    weight: f64,
    outstanding: u32,
    sent: Tally,
    done: Tally,
    heard: Option<Heard>,
    /// The report that the last one is compared with: taken a report's age or more before it.
    anchor: Option<Anchor>,
    /// The anchor to come.
    next: Option<Anchor>,
}

impl Site {
    fn new(weight: f64) -> Site {
        Site {
            standing: Standing::Up,
            weight: checked(weight),
            outstanding: 0,
            sent: Tally::default(),
            done: Tally::default(),
            heard: None,
            anchor: None,
            next: None,
        }
    }

    /// Its standing: whether it may be sent requests.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Speed beside the others, above 0; equal sites have 1.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Requests of this balancer that are under way.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Requests that this balancer has ever sent.
    pub fn sent(&self) -> u64 {
        self.sent.total()
    }

    /// The last report.
    pub fn report(&self) -> Option<&Report> {
        self.heard.as_ref().map(|heard| &heard.report)
    }

    /// The queue last reported; 0 before any report.
    pub fn queue(&self) -> u32 {
        self.heard.map_or(0, |heard| heard.report.queue)
    }

    /// Age of the last report; `None` before any.
    pub fn age(&self, now: Nanos) -> Option<Nanos> {
        self.heard.map(|heard| now.saturating_sub(heard.report.taken))
    }

    /// Requests of this balancer that the last report cannot know of.
    pub fn unseen(&self) -> u64 {
        self.heard.map_or(self.sent.total(), |heard| self.sent.total() - heard.sent)
    }

    /// Part of the queue last reported that other balancers had sent.
    pub fn others(&self) -> u32 {
        self.heard.map_or(0, |heard| {
            // Counts of the past may be late by a few.
            let own = heard.sent.saturating_sub(heard.done).min(u32::MAX.into()) as u32;
            heard.report.queue.saturating_sub(own)
        })
    }

    /// Requests of this balancer that came back since the last report was taken.
    pub(crate) fn finished_unseen(&self) -> u64 {
        self.done.total() - self.heard.map_or(0, |heard| heard.done)
    }

    /// Requests a second that other balancers sent, by the last report and one that was taken a
    /// report's age before it or more; `None` before there are two.
    pub(crate) fn others_rate(&self) -> Option<f64> {
        let (heard, anchor) = (self.heard?, self.anchor?);
        let seconds = heard.report.taken.saturating_sub(anchor.taken).as_secs_f64();
        let arrived = heard.report.arrivals.saturating_sub(anchor.arrivals);
        let others = arrived.saturating_sub(heard.sent - anchor.sent);
        (seconds > 0.0).then(|| others as f64 / seconds)
    }

    fn hear(&mut self, now: Nanos, report: Report) {
        if self.heard.is_some_and(|heard| report.taken < heard.report.taken) {
            return; // overtaken on its way
        }
        let (sent, done) = (self.sent.at(report.taken), self.done.at(report.taken));
        let mark = Anchor { taken: report.taken, arrivals: report.arrivals, sent };
        let age = now.saturating_sub(report.taken);
        match self.next {
            None => self.next = Some(mark),
            Some(next) if report.taken > next.taken && report.taken.0 - next.taken.0 >= age.0 => {
                self.anchor = Some(next);
                self.next = Some(mark);
            }
            Some(_) => {}
        }
        self.heard = Some(Heard { report, sent, done });
    }
}

fn checked(weight: f64) -> f64 {
    assert!(weight.is_finite() && weight > 0.0, "a site's weight is above 0, not {weight}");
    weight
}

/// Every site, as one balancer knows it.
#[derive(Debug, Clone, Default)]
pub struct Board {
    sites: Vec<Site>,
    /// Sites that may be sent requests, in order of their numbers.
    up: Vec<SiteId>,
    /// The sum of their weights, and whether those are all the same.
    weight: f64,
    equal: bool,
    sent: u64,
}

impl Board {
    /// Sites that may be sent requests, in order of their numbers.
    pub fn up(&self) -> &[SiteId] {
        &self.up
    }

    /// One more than the largest number that a site has had.
    pub fn slots(&self) -> usize {
        self.sites.len()
    }

    /// A site.
    ///
    /// # Panics
    /// When no site has ever had this number.
    pub fn site(&self, id: SiteId) -> &Site {
        &self.sites[id.index()]
    }

    /// The sum of the weights of sites that are up.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// True if all sites that are up have the same weight.
    pub fn is_equal(&self) -> bool {
        self.equal
    }

    /// Requests that this balancer has ever sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of balancers, this one included: the most that a site knows of.
    pub fn balancers(&self) -> u32 {
        let known = |id: &SiteId| self.site(*id).report().map_or(1, |report| report.balancers);
        self.up.iter().map(known).max().unwrap_or(1).max(1)
    }

    pub(super) fn add(&mut self, weight: f64) -> SiteId {
        let vacant = |site: &Site| site.standing == Standing::Vacant && site.outstanding == 0;
        let slot = self.sites.iter().position(vacant).unwrap_or(self.sites.len());
        let id = SiteId(u16::try_from(slot).expect("a balancer has fewer than 65,536 sites"));
        let site = Site::new(weight);
        match self.sites.get_mut(slot) {
            Some(free) => *free = site,
            None => self.sites.push(site),
        }
        self.reshape();
        id
    }

    pub(super) fn set_standing(&mut self, id: SiteId, standing: Standing) {
        self.sites[id.index()].standing = standing;
        self.reshape();
    }

    pub(super) fn set_weight(&mut self, id: SiteId, weight: f64) {
        self.sites[id.index()].weight = checked(weight);
        self.reshape();
    }

    pub(super) fn dispatched(&mut self, now: Nanos, id: SiteId) {
        let site = &mut self.sites[id.index()];
        site.outstanding += 1;
        site.sent.add(now);
        self.sent += 1;
    }

    pub(super) fn completed(&mut self, now: Nanos, id: SiteId) {
        let site = &mut self.sites[id.index()];
        let left = site.outstanding.checked_sub(1);
        site.outstanding = left.expect("what comes back from a site was sent there");
        site.done.add(now);
    }

    pub(super) fn reported(&mut self, now: Nanos, id: SiteId, report: Report) {
        self.sites[id.index()].hear(now, report);
    }

    /// Takes a site off the list of those that are up, without changing its standing.
    pub(super) fn hide(&mut self, id: SiteId) {
        self.up.retain(|up| *up != id);
        self.weigh();
    }

    /// Makes the list of sites that are up anew.
    pub(super) fn reshape(&mut self) {
        self.up.clear();
        let up = self.sites.iter().enumerate().filter(|(_, site)| site.standing == Standing::Up);
        self.up.extend(up.map(|(slot, _)| SiteId(slot as u16)));
        self.weigh();
    }

    fn weigh(&mut self) {
        let first = self.up.first().map_or(1.0, |id| self.sites[id.index()].weight);
        let weights = || self.up.iter().map(|id| self.sites[id.index()].weight);
        self.equal = weights().all(|weight| weight == first);
        self.weight = weights().sum();
    }
}
