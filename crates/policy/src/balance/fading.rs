//! Estimate of other balancers' requests at a site, from answers to probes that lose weight as they
//! age.
//!
//! 1. An answer tells how many requests of other balancers are at a site. With time that comes to
//!    say less: the others send elsewhere or here, and what was there leaves.
//! 2. So the number is taken to return to the site's mean, by e in each `memory`: right at once,
//!    and no more than the mean when the answer is old.
//! 3. The memory is learnt: each new answer shows how much was left of the last one's distance from
//!    the mean, and the memory takes a small step to where it would have said so (stochastic
//!    gradient of the squared error, on the memory's logarithm).
//!
//! Between probes of many balancers nothing herds: each has its own few fresh answers, and means
//! for the rest. State: 40 B a site.

use super::Board;
use thermocline_units::{Nanos, SiteId};

/// Share of a new answer in a site's mean.
const SHARE: f64 = 1.0 / 32.0;
/// Share of a new answer in the mean square by which steps are scaled.
const SHARE_OF_SQUARE: f64 = 1.0 / 256.0;
/// Length of the steps, and the longest.
const STEP: f64 = 0.05;
const STEP_MAX: f64 = 0.1;
/// Bounds of the memory, as the logarithm of times what a request takes alone: 1/4 to 64; and where
/// it begins, 4.
const LOG_RANGE: (f64, f64) = (-1.386, 4.159);
const LOG_FIRST: f64 = 1.386;

#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    others: f64,
    mean: f64,
    /// Time at which it was so; `None` before any answer.
    taken: Option<Nanos>,
}

/// Requests of others, by answers that fade.
#[derive(Debug, Clone)]
pub(super) struct Fading {
    sites: Vec<Answer>,
    /// The logarithm of the memory in times alone.
    log: f64,
    square: f64,
}

impl Default for Fading {
    fn default() -> Fading {
        Fading { sites: Vec::new(), log: LOG_FIRST, square: 0.0 }
    }
}

impl Fading {
    pub(super) fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        self.sites.resize(board.slots(), Answer::default());
        if let Some(site) = fresh {
            self.sites[site.index()] = Answer::default();
        }
    }

    /// An answer that was right at `taken`; one that is older than the last is passed over.
    /// `alone_s`: what a request takes alone.
    pub(super) fn hear(&mut self, site: SiteId, taken: Nanos, others: f64, alone_s: f64) {
        let memory_s = self.memory_s(alone_s);
        let answer = &mut self.sites[site.index()];
        let Some(last) = answer.taken else {
            *answer = Answer { others, mean: others, taken: Some(taken) };
            return;
        };
        if taken < last {
            return;
        }
        if memory_s > 0.0 {
            let (was, is) = (answer.others - answer.mean, others - answer.mean);
            let age = taken.saturating_sub(last).as_secs_f64() / memory_s;
            let left = (-age).exp();
            self.square += (was * was - self.square) * SHARE_OF_SQUARE;
            let slope = (is - was * left) * was * left * age / (self.square + 0.1);
            self.log += (STEP * slope).clamp(-STEP_MAX, STEP_MAX);
            self.log = self.log.clamp(LOG_RANGE.0, LOG_RANGE.1);
        }
        answer.mean += (others - answer.mean) * SHARE;
        (answer.others, answer.taken) = (others, Some(taken));
    }

    /// Requests of others at a site, as far as can be known.
    pub(super) fn others(&self, now: Nanos, site: SiteId, alone_s: f64) -> f64 {
        let answer = &self.sites[site.index()];
        let Some(taken) = answer.taken else { return 0.0 };
        let memory_s = self.memory_s(alone_s);
        let age_s = now.saturating_sub(taken).as_secs_f64();
        let left = if memory_s > 0.0 { (-age_s / memory_s).exp() } else { 1.0 };
        answer.mean + (answer.others - answer.mean) * left
    }

    /// Seconds that an answer counts; 0 before anything has taken any time.
    pub(super) fn memory_s(&self, alone_s: f64) -> f64 {
        self.log.exp() * alone_s
    }
}

#[cfg(test)]
mod tests;
