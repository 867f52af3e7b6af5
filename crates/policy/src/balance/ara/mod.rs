//! ARA (Tai 2015 §3.2): any of the K sites with the shortest queues, where K grows in bursts.
//!
//! 1. Sites are ranked by the queue they last reported.
//! 2. One of the K best is taken, each as likely as it is fast. K = 1 is `qlen`, K = N is `rand`.
//!
//! K is fixed here (`ara-static`); [`online`] moves it. The source leaves open which of equally
//! long queues rank first: `ties=first` gives its tables, random ties are the default because a
//! fixed order sends what is calm to the first sites.
//!
//! State: 16 B a site. O(N) a pick.

mod online;

pub(super) use online::{COUNT, OPT, PRED};

use super::choose::{self, Ties};
use super::{Board, Mood, Rule};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use std::cmp::Ordering;
use thermocline_units::{Nanos, Rng, SiteId};

pub(super) const STATIC: Entry = Entry {
    name: "ara-static",
    summary: "any of the K sites whose reported queues are shortest",
    source: "Tai 2015 §3.2.1",
    settings: &[
        Setting {
            name: "k",
            default: "0.5",
            unit: "sites, or their share when below 1",
            help: "how many of the best are candidates; 1 is qlen, all are rand",
        },
        Ties::SETTING,
    ],
    build: Build::Balancer(|settings| {
        Ok(Box::new(AraStatic { reach: Reach::read(settings, "k")?, best: Best::read(settings)? }))
    }),
};

/// Number of sites that are candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reach {
    /// A number of sites.
    Sites(usize),
    /// This share of those that are up, above 0 and below 1.
    Share(f64),
}

impl Reach {
    fn read(settings: &Settings, key: &str) -> Result<Reach, SettingsError> {
        let number = settings.number(key, 0.0, 65_535.0)?;
        if number > 0.0 && number < 1.0 {
            return Ok(Reach::Share(number));
        }
        if number < 1.0 || number.fract() != 0.0 {
            let expected = "a whole number of sites from 1, or a share above 0 and below 1";
            return Err(settings.wrong(key, expected.to_string()));
        }
        Ok(Reach::Sites(number as usize))
    }

    /// Candidates among `up` ≥ 1 sites: 1 to `up`.
    fn of(self, up: usize) -> usize {
        let sites = match self {
            Reach::Sites(sites) => sites,
            Reach::Share(share) => (share * up as f64).round() as usize,
        };
        sites.clamp(1, up)
    }
}

/// The ranking by reported queues. Its room is kept.
#[derive(Debug, Clone)]
struct Best {
    ties: Ties,
    /// Length, tie-break, site.
    ranked: Vec<(f64, u32, SiteId)>,
}

impl Best {
    fn read(settings: &Settings) -> Result<Best, SettingsError> {
        Ok(Best { ties: Ties::read(settings)?, ranked: Vec::new() })
    }

    /// Any of the `count` best, each as likely as it is fast.
    fn pick(&mut self, count: usize, board: &Board, rng: &mut Rng) -> SiteId {
        let length = |id: SiteId| {
            let queue = board.site(id).queue();
            choose::with_one_more(board, id, queue.into())
        };
        if count == 1 {
            return choose::least(board.up().iter().copied(), self.ties, rng, length);
        }
        if count == board.up().len() {
            return choose::by_weight(board, rng);
        }
        self.ranked.clear();
        for id in board.up() {
            let tie = match self.ties {
                Ties::Random => rng.next_u64() as u32,
                Ties::First => id.0.into(),
            };
            self.ranked.push((length(*id), tie, *id));
        }
        let order = |a: &(f64, u32, SiteId), b: &(f64, u32, SiteId)| -> Ordering {
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        };
        let (before, last, _) = self.ranked.select_nth_unstable_by(count - 1, order);
        let mut candidates = before.iter().chain([&*last]).map(|(_, _, id)| *id);
        if board.is_equal() {
            let nth = rng.below(count as u64) as usize;
            return candidates.nth(nth).expect("there are so many candidates");
        }
        let weight = |id: SiteId| board.site(id).weight();
        let mut left = rng.unit_f64() * candidates.clone().map(weight).sum::<f64>();
        let mut candidates = candidates.peekable();
        loop {
            let id = candidates.next().expect("the last one is returned");
            left -= weight(id);
            if left < 0.0 || candidates.peek().is_none() {
                return id;
            }
        }
    }
}

/// Always the same K.
struct AraStatic {
    reach: Reach,
    best: Best,
}

impl Rule for AraStatic {
    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        self.best.pick(self.reach.of(board.up().len()), board, rng)
    }

    fn mood(&self, board: &Board) -> Mood {
        let up = board.up().len().max(1);
        Mood { bursting: None, candidates: Some(self.reach.of(up) as f64) }
    }
}

#[cfg(test)]
mod tests;
