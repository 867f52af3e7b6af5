//! Prequal: probes decide, by requests in flight first and by latency among the unloaded
//! (Wydrowski, Kleinberg, Rumble and Archer, NSDI 2024).
//!
//! 1. Each request sends `probes` probes to different sites drawn at random; answers say how many
//!    requests are in flight there, and what they took lately.
//! 2. `mode=async`: answers join a pool of `pool`, and requests do not wait for them. An answer
//!    leaves it when it is older than `ttl`, was used up (see [`Prequal::uses`]), or when, once a
//!    request, the oldest and the worst in turn are dropped. `mode=sync`: the request waits for its
//!    own answers, and only those count.
//! 3. An answer is hot when its in-flight count is above the `quantile` of what answers said
//!    lately. Of cold answers the one with the least latency is taken, ties by in-flight; when all
//!    are hot, the one with the fewest in flight. Its in-flight count goes up by one.
//! 4. Fewer than two answers in the pool: any site.
//!
//! Where this differs: one answer is dropped a request (the paper's r_remove is 1) and δ is 1; the
//! paper probes in quiet times too, ours does not, and its pool is empty after a pause of `ttl`.
//!
//! State: 32 B an answer, 0.5 KiB of in-flight counts. O(pool) a pick.

use super::choose::{self, Draw};
use super::{Board, Probe, Probing, Rule, Standing};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "prequal",
    summary: "probes: the least latency among sites with few requests in flight",
    source: "Wydrowski et al., NSDI 2024",
    settings: &[
        Setting {
            name: "mode",
            default: "async",
            unit: "async or sync",
            help: "whether requests use earlier answers or wait for their own",
        },
        Setting {
            name: "probes",
            default: "3",
            unit: "probes a request",
            help: "sites asked; with mode=sync 3 to 5",
        },
        Setting { name: "pool", default: "16", unit: "answers", help: "answers that are kept" },
        Setting {
            name: "ttl",
            default: "1s",
            unit: "duration",
            help: "age from which on an answer is not used; a few times what a request takes",
        },
        Setting {
            name: "quantile",
            default: "0.84",
            unit: "fraction",
            help: "share of answers that count as cold",
        },
    ],
    build: Build::Balancer(|settings| Ok(Box::new(Prequal::read(settings)?))),
};

/// Number of in-flight counts that the quantile is taken of.
const RECENT: usize = 128;

/// The paper's δ: how much faster answers must come in than they leave.
const DELTA: f64 = 1.0;

/// An answer in the pool.
#[derive(Debug, Clone, Copy)]
struct Answer {
    site: SiteId,
    taken: Nanos,
    in_flight: u32,
    latency: Nanos,
    uses: f64,
}

/// Picks by probes.
struct Prequal {
    awaited: bool,
    probes: usize,
    capacity: usize,
    ttl: Nanos,
    quantile: f64,
    pool: Vec<Answer>,
    /// The last in-flight counts, and where the next goes.
    recent: Vec<u32>,
    next: usize,
    sorted: Vec<u32>,
    drop_oldest: bool,
    draw: Draw,
}

impl Prequal {
    fn read(settings: &Settings) -> Result<Prequal, SettingsError> {
        Ok(Prequal {
            awaited: settings.choice("mode", &["async", "sync"])? == 1,
            probes: settings.count("probes", 1, 64)? as usize,
            capacity: settings.count("pool", 2, 1024)? as usize,
            ttl: settings.duration("ttl")?,
            quantile: settings.number("quantile", 0.0, 1.0)?,
            pool: Vec::new(),
            recent: Vec::new(),
            next: 0,
            sorted: Vec::new(),
            drop_oldest: true,
            draw: Draw::default(),
        })
    }

    /// Times that an answer may be used: (1 + δ) / ((1 − pool / N) · probes − removals), at least
    /// one; without bound when the pool is as large as there are sites.
    fn uses(&self, up: usize) -> f64 {
        let coming = (1.0 - self.capacity as f64 / up as f64) * self.probes as f64 - 1.0;
        if coming <= 0.0 { f64::INFINITY } else { ((1.0 + DELTA) / coming).max(1.0) }
    }

    /// The in-flight count above which an answer is hot.
    fn threshold(&mut self) -> u32 {
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.recent);
        let last = self.sorted.len().saturating_sub(1);
        let nth = (last as f64 * self.quantile) as usize;
        if self.sorted.is_empty() { 0 } else { *self.sorted.select_nth_unstable(nth).1 }
    }

    /// The answer that is best (`least`) or worst by the rule of hot and cold.
    fn extreme(&self, threshold: u32, worst: bool) -> Option<usize> {
        let key = |answer: &Answer| {
            let hot = answer.in_flight > threshold;
            let by = if hot { u64::from(answer.in_flight) } else { answer.latency.0 };
            (hot, by, answer.in_flight)
        };
        let all = self.pool.iter().enumerate();
        let found = if worst {
            all.max_by_key(|(_, answer)| key(answer))
        } else {
            all.min_by_key(|(_, answer)| key(answer))
        };
        found.map(|(at, _)| at)
    }

    fn drop_one(&mut self, threshold: u32) {
        let oldest = self.pool.iter().enumerate().min_by_key(|(_, answer)| answer.taken);
        let oldest = oldest.map(|(at, _)| at);
        let chosen = if self.drop_oldest { oldest } else { self.extreme(threshold, true) };
        self.drop_oldest = !self.drop_oldest;
        if let Some(at) = chosen {
            self.pool.swap_remove(at);
        }
    }
}

impl Rule for Prequal {
    fn probing(&self) -> Probing {
        if self.awaited { Probing::Awaited } else { Probing::Aside }
    }

    fn needs_probes(&self) -> bool {
        true
    }

    fn probes(&mut self, _now: Nanos, board: &Board, rng: &mut Rng, out: &mut Vec<SiteId>) {
        if self.awaited {
            self.pool.clear();
        }
        out.extend_from_slice(self.draw.draw(board, self.probes, rng));
    }

    fn probed(&mut self, _now: Nanos, site: SiteId, probe: &Probe, board: &Board) {
        if self.recent.len() < RECENT {
            self.recent.push(probe.in_flight);
        } else {
            self.recent[self.next] = probe.in_flight;
        }
        self.next = (self.next + 1) % RECENT;
        if board.site(site).standing() != Standing::Up {
            return;
        }
        if self.pool.len() == self.capacity {
            let oldest = self.pool.iter().enumerate().min_by_key(|(_, answer)| answer.taken);
            let oldest = oldest.map(|(at, _)| at).expect("a pool holds two at least");
            self.pool.swap_remove(oldest);
        }
        let (taken, in_flight) = (probe.taken, probe.in_flight);
        let (latency, uses) = (probe.latency.unwrap_or_default(), self.uses(board.up().len()));
        self.pool.push(Answer { site, taken, in_flight, latency, uses });
    }

    fn pick(&mut self, now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let ttl = self.ttl;
        let awaited = self.awaited;
        self.pool.retain(|answer| {
            let fresh = awaited || now.saturating_sub(answer.taken) <= ttl;
            fresh && board.up().contains(&answer.site)
        });
        let enough = if awaited { 1 } else { 2 };
        if self.pool.len() < enough {
            return choose::by_weight(board, rng);
        }
        let threshold = self.threshold();
        let best = self.extreme(threshold, false).expect("the pool is not empty");
        let answer = &mut self.pool[best];
        let site = answer.site;
        answer.in_flight += 1;
        answer.uses -= 1.0;
        if answer.uses < 1.0 {
            self.pool.swap_remove(best);
        }
        if !awaited {
            self.drop_one(threshold);
        }
        site
    }

    fn reshaped(&mut self, _fresh: Option<SiteId>, board: &Board) {
        self.pool.retain(|answer| board.site(answer.site).standing() == Standing::Up);
    }
}

#[cfg(test)]
mod tests;
