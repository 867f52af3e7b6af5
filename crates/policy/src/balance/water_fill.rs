//! Water-filling: own requests, exactly; those of others, as far as reports can be believed; and
//! what others have sent since, spread where it has probably gone. The default.
//!
//! 1. A site's load is this balancer's own requests under way there, plus the reported ones of
//!    others, less those that it must have finished since: the report's age over the time a request
//!    takes, less what came back to this balancer.
//! 2. Requests of others that no report shows are as many as in `li`: by the sites' counts of
//!    arrivals, or by this balancer's own unseen ones times the other balancers; the greater. They
//!    fill the sites up to a level, and a site is drawn in proportion to the room below it.
//! 3. Reports older than `trust` times what a request takes say nothing any more: then only own
//!    requests count, as in `least`.
//!
//! With one balancer nothing is of others, and it is `least`, pick for pick. With many it is an ARA
//! whose K follows from what cannot be seen, without thresholds. Ours; the level is Dahlin's.
//!
//! What a request takes alone is not told by anybody. It is estimated: a request that meets n
//! others takes about n + 1 times as long, so it is the mean of latencies over the mean of n + 1,
//! as both were seen. That holds for one first-come-first-served server as for one that shares
//! itself equally, and errs where n was not known; a factor of two matters little.
//!
//! State: 24 B a site, 64 B. O(N log N) a pick.

use super::interpretation::unseen_of_others;
use super::level::Level;
use super::{Board, Mood, Rule};
use crate::registry::{Build, Entry, Setting};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "water-fill",
    summary: "own requests, others' reported ones, and the unseen spread where they probably went",
    source: "ours; the level is Dahlin's, ICDCS 1999",
    settings: &[Setting {
        name: "trust",
        default: "3",
        unit: "times what a request takes",
        help: "age from which on reports are not used; 0 is least",
    }],
    build: Build::Balancer(|settings| {
        let trust = settings.number("trust", 0.0, 1e12)?;
        Ok(Box::new(WaterFill {
            trust,
            latency_s: Mean::default(),
            met: Mean::default(),
            level: Level::default(),
        }))
    }),
};

/// A mean of the last values, about [`MEAN_OF`] of them; of all while there are fewer.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    value: f64,
    count: u32,
}

/// Values that a mean reaches back.
const MEAN_OF: u32 = 1024;

impl Mean {
    fn add(&mut self, value: f64) {
        self.count = (self.count + 1).min(MEAN_OF);
        self.value += (value - self.value) / f64::from(self.count);
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then_some(self.value)
    }
}

/// Picks by level.
struct WaterFill {
    trust: f64,
    /// Latencies, times the weight of the site.
    latency_s: Mean,
    /// Requests that one met when it was sent, itself included.
    met: Mean,
    level: Level,
}

impl WaterFill {
    /// Seconds that a request takes alone on a site of weight 1; `None` before the first answer.
    fn alone_s(&self) -> Option<f64> {
        Some(self.latency_s.get()? / self.met.get()?)
    }
}

/// Requests at a site when its report was taken and own ones since.
fn load(board: &Board, id: SiteId) -> f64 {
    let site = board.site(id);
    f64::from(site.outstanding()) + f64::from(site.others())
}

/// The same, less what must have been finished since.
fn load_now(now: Nanos, board: &Board, id: SiteId, alone_s: f64) -> f64 {
    let site = board.site(id);
    let age_s = site.age(now).map_or(0.0, Nanos::as_secs_f64);
    let finished = (age_s * site.weight() / alone_s - site.finished_unseen() as f64).max(0.0);
    f64::from(site.outstanding()) + (f64::from(site.others()) - finished).max(0.0)
}

impl Rule for WaterFill {
    fn dispatched(&mut self, _now: Nanos, site: SiteId, board: &Board) {
        self.met.add(load(board, site));
    }

    fn completed(&mut self, _now: Nanos, site: SiteId, latency: Option<Nanos>, board: &Board) {
        if let Some(latency) = latency {
            self.latency_s.add(latency.as_secs_f64() * board.site(site).weight());
        }
    }

    fn pick(&mut self, now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let alone_s = self.alone_s().unwrap_or(f64::INFINITY);
        let oldest = board.up().iter().filter_map(|id| board.site(*id).age(now)).max();
        let believed = oldest.is_none_or(|age| age.as_secs_f64() < self.trust * alone_s);
        if believed && self.trust > 0.0 {
            let unseen = unseen_of_others(now, board);
            self.level.draw(board, unseen, rng, |id| load_now(now, board, id, alone_s))
        } else {
            self.level.draw(board, 0.0, rng, |id| board.site(id).outstanding().into())
        }
    }

    fn mood(&self, _board: &Board) -> Mood {
        Mood { bursting: None, candidates: Some(self.level.below() as f64) }
    }
}

#[cfg(test)]
mod tests;
