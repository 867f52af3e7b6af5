//! Speeds of sites relative to each other, learnt from how long requests took there.
//!
//! 1. A request that is one of n at its site takes about n times what it takes alone: at a
//!    first-come-first-served server, and at one that shares itself equally. So a site's time alone
//!    is the sum of latencies over the sum of n, of its last answers (`reach`, about). One answer
//!    counts as [`ODD`] times what is usual at most, and the first ones not at all: a server whose
//!    first connection took long is not slow.
//! 2. What sites differ by is the variance of the logarithms of these times. Part of it is chance:
//!    the variance of single answers over how many there were, [`CAUTION`] times, because
//!    neighbouring answers err together.
//! 3. Each site's difference from the mean is believed for the part that is not chance (James and
//!    Stein's shrinkage, 1961). Equal sites stay equal; work of heavy tails says little about
//!    sites, and little is learnt from it.
//! 4. Answers fade with those of all sites. Of a site that nobody is sent to nothing is known
//!    after a while, and it is tried again.
//!
//! n is what stood there when the answer came, itself included: in the long run as many as it met,
//! and failed requests count in neither sum. State: 48 B a site. O(N) each [`EACH`] answers.

use super::Board;
use thermocline_units::{Nanos, SiteId};

/// Times chance is held to be larger than answers that do not depend on each other would make it.
const CAUTION: f64 = 4.0;
/// Variance of logarithms that says nothing of sites, however well it is known: about 3 %.
const CHANCE_MIN: f64 = 1e-3;
/// Answers by which nothing is learnt but what is usual.
const FIRST: f64 = 16.0;
/// Times what a request usually takes, that one answer counts as at most.
const ODD: f64 = 8.0;
/// Answers between two reckonings.
const EACH: u32 = 16;
/// Answers of a site below which nothing is said of it.
const ANSWERS_MIN: f64 = 4.0;
/// Answers a site that what a request takes alone is learnt from.
const REACH_OF_ALL: f64 = 64.0;

/// Sums over a site's answers, of which old ones fade.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    latency_s: f64,
    met: f64,
    /// Single answers' times alone, and the squares of those.
    alone_s: f64,
    square: f64,
}

impl Sums {
    fn add(&mut self, latency_s: f64, met: f64) {
        let alone_s = latency_s / met;
        self.count += 1.0;
        self.latency_s += latency_s;
        self.met += met;
        self.alone_s += alone_s;
        self.square += alone_s * alone_s;
    }

    fn fade(&mut self, kept: f64) {
        self.count *= kept;
        self.latency_s *= kept;
        self.met *= kept;
        self.alone_s *= kept;
        self.square *= kept;
    }

    /// Variance of single answers over their mean's square.
    fn variation(&self) -> f64 {
        let mean = self.alone_s / self.count;
        (self.square / self.count / (mean * mean) - 1.0).max(0.0)
    }
}

/// An answer to learn from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lesson {
    /// Time that it took.
    pub(super) latency: Nanos,
    /// Requests at the site, itself included, as well as it can be known.
    pub(super) met: f64,
    /// The same as far as it is known equally well of all sites: what they are compared by.
    pub(super) compared: f64,
}

/// Estimates of the speeds of sites.
#[derive(Debug, Clone)]
pub(super) struct Speeds {
    /// Answers of a site that count, about; 0 learns nothing.
    reach: f64,
    sites: Vec<Sums>,
    /// Mean over all sites of how long requests took, and how many they met.
    latency_s: f64,
    met: f64,
    /// Mean logarithm of single answers' times alone, and of how many.
    usual: f64,
    heard: f64,
    /// Speeds of sites times their weights; index by number.
    factors: Vec<f64>,
    answers: u32,
}

impl Speeds {
    pub(super) fn new(reach: f64) -> Speeds {
        let (sites, factors) = (Vec::new(), Vec::new());
        Speeds {
            reach,
            sites,
            latency_s: 0.0,
            met: 0.0,
            usual: 0.0,
            heard: 0.0,
            factors,
            answers: 0,
        }
    }

    pub(super) fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        self.sites.resize(board.slots(), Sums::default());
        self.factors.resize(board.slots(), 1.0);
        if let Some(site) = fresh {
            self.sites[site.index()] = Sums::default();
            self.factors[site.index()] = 1.0;
        }
    }

    /// Enters an answer.
    pub(super) fn add(&mut self, site: SiteId, lesson: &Lesson, board: &Board) {
        let latency_s = lesson.latency.as_secs_f64() * board.site(site).weight();
        let reach = (REACH_OF_ALL * self.sites.len() as f64).max(1.0);
        let kept = 1.0 - 1.0 / reach;
        self.latency_s = self.latency_s * kept + latency_s;
        self.met = self.met * kept + lesson.met;
        if self.reach == 0.0 || latency_s == 0.0 {
            return;
        }
        self.heard = (self.heard + 1.0).min(reach);
        self.usual += ((latency_s / lesson.met).ln() - self.usual) / self.heard;
        if self.heard <= FIRST.min(reach) {
            return;
        }
        let latency_s = latency_s.min(ODD * self.usual.exp() * lesson.met);
        self.sites[site.index()].add(latency_s, lesson.compared);
        self.answers += 1;
        if self.answers >= EACH {
            self.answers = 0;
            self.reckon(board);
        }
    }

    /// Seconds that a request takes alone at a site of weight 1; 0 before the first answer.
    pub(super) fn alone_s(&self) -> f64 {
        if self.met > 0.0 { self.latency_s / self.met } else { 0.0 }
    }

    /// Speed of a site: its weight, times what was learnt.
    pub(super) fn weight(&self, board: &Board, site: SiteId) -> f64 {
        board.site(site).weight() * self.factors[site.index()]
    }

    /// The logarithm of a site's time alone; `None` while there are too few answers.
    fn log(&self, site: SiteId) -> Option<f64> {
        let sums = &self.sites[site.index()];
        (sums.count >= ANSWERS_MIN).then(|| (sums.latency_s / sums.met).ln())
    }

    fn reckon(&mut self, board: &Board) {
        let kept = (-f64::from(EACH) / (self.reach * board.up().len().max(1) as f64)).exp();
        self.sites.iter_mut().for_each(|sums| sums.fade(kept));
        let (mut count, mut sum, mut square) = (0.0, 0.0, 0.0);
        let (mut variation, mut scarcity) = (0.0, 0.0);
        for site in board.up() {
            let Some(log) = self.log(*site) else { continue };
            let sums = &self.sites[site.index()];
            count += 1.0;
            sum += log;
            square += log * log;
            variation += sums.variation();
            scarcity += 1.0 / sums.count;
        }
        if count < 2.0 {
            self.factors.iter_mut().for_each(|factor| *factor = 1.0);
            return;
        }
        let mean = sum / count;
        let variance = square / count - mean * mean;
        let chance = CHANCE_MIN + CAUTION * variation / count * scarcity / count;
        let believed = if variance > 0.0 { 1.0 - chance / variance } else { 0.0 };
        for site in board.up() {
            let off = self.log(*site).map_or(0.0, |log| log - mean);
            self.factors[site.index()] = (-believed.max(0.0) * off).exp();
        }
    }
}

#[cfg(test)]
mod tests;
