//! Speed of a site at a moment: sites may slow down for a while and recover.
//!
//! 1. Every so often one site, drawn at random, slows down, for as long as the scenario says.
//! 2. Work that is under way goes on at the pace of the moment, so a request may begin fast and
//!    end slow.
//!
//! Who slows down when depends on the seed alone: all policies meet the same. State: 16 B a slow
//! time. O(1) a request, amortised.

use super::jobs;
use super::scenario::Slowing;
use thermocline_units::{Nanos, Rng};

/// The slow times of one site.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Begin and end, in order, none overlapping.
    slow: Vec<(Nanos, Nanos)>,
    /// Share of its speed that it has in them.
    to: f64,
    /// Slow times before this one are over for all requests to come.
    at: usize,
}

/// A pace for each of `sites` up to `end`.
pub(super) fn of_sites(
    slowing: Option<&Slowing>,
    sites: usize,
    end: Nanos,
    seed: u64,
) -> Vec<Pace> {
    let mut paces = vec![Pace::default(); sites];
    let Some(slowing) = slowing else { return paces };
    let mut rng = Rng::seeded(jobs::seed_of(seed, jobs::STREAM_OF_PACES));
    let mut begin = slowing.every;
    while begin < end {
        let pace = &mut paces[rng.below(sites as u64) as usize];
        pace.to = slowing.to;
        pace.slow.push((begin, Nanos(begin.0 + slowing.lasting.0)));
        begin.0 += slowing.every.0;
    }
    paces
}

impl Pace {
    /// Time at which work that takes `alone` at full speed is done if it begins at `start`, which
    /// is not before the start of the last one asked for.
    pub(super) fn done(&mut self, start: Nanos, alone: Nanos) -> Nanos {
        while self.slow.get(self.at).is_some_and(|slow| slow.1 <= start) {
            self.at += 1;
        }
        let (mut now, mut left) = (start, alone.0 as f64);
        for (begin, end) in &self.slow[self.at..] {
            let fast = begin.saturating_sub(now).0 as f64;
            if left <= fast {
                break;
            }
            now = now.max(*begin);
            left -= fast;
            let slow = end.saturating_sub(now).0 as f64 * self.to;
            if left <= slow {
                return Nanos(now.0 + (left / self.to) as u64);
            }
            now = *end;
            left -= slow;
        }
        Nanos(now.0 + left as u64)
    }
}

#[cfg(test)]
mod tests;
