//! ARA with a K that follows the arrivals: large in a burst, small in calm (Tai 2015 §3.2.2).
//!
//! - `ara` (the source's ARA_PRED) is told by its [`BurstPredictor`].
//! - `ara-count` (ours) sees a burst when it has itself had `count` arrivals within the age of the
//!   reports: then, and only then, can its own requests herd. It needs no threshold on rates and no
//!   warm-up, and cannot miss an end.
//! - `ara-opt` (the source's ARA_OPT) is told the truth: a bound, in the laboratory.
//!
//! K is `high` in a burst and `low` outside: the source's th_l and th_s. It uses 14 of 16 and 1.

use super::super::burst::{self, BurstPredictor};
use super::super::choose::Ties;
use super::super::{Board, Mood, Rule, Truth};
use super::{Best, Reach};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use std::collections::VecDeque;
use thermocline_units::{Nanos, Rng, SiteId};

const HIGH: Setting = Setting {
    name: "high",
    default: "0.875",
    unit: "sites, or their share when below 1",
    help: "candidates in a burst; the source's th_l, 14 of 16",
};
const LOW: Setting = Setting {
    name: "low",
    default: "1",
    unit: "sites, or their share when below 1",
    help: "candidates outside bursts; the source's th_s",
};

pub(in super::super) const PRED: Entry = Entry {
    name: "ara",
    summary: "any of the K shortest reported queues; K is large when a burst is predicted",
    source: "Tai 2015 §3.2.2, ARA_PRED",
    settings: &[
        HIGH,
        LOW,
        Ties::SETTING,
        burst::GAPS,
        burst::INDEX,
        burst::RATIO,
        burst::LAGS,
        burst::CALM,
    ],
    build: Build::Balancer(|settings| {
        Ok(Box::new(Ara::read(settings, BurstPredictor::read(settings)?)?))
    }),
};

pub(in super::super) const COUNT: Entry = Entry {
    name: "ara-count",
    summary: "as ara; a burst is two own arrivals or more within the age of the reports",
    source: "ours, after Tai 2015 §3.2.2",
    settings: &[
        HIGH,
        LOW,
        Ties::SETTING,
        Setting {
            name: "count",
            default: "2",
            unit: "arrivals",
            help: "own arrivals within the age of the reports that make a burst",
        },
    ],
    build: Build::Balancer(|settings| {
        let count = settings.count("count", 1, 1 << 16)? as usize;
        Ok(Box::new(Ara::read(settings, Recent { count, ..Recent::default() })?))
    }),
};

pub(in super::super) const OPT: Entry = Entry {
    name: "ara-opt",
    summary: "as ara, told when bursts begin and end",
    source: "Tai 2015 §3.2.3, ARA_OPT",
    settings: &[HIGH, LOW, Ties::SETTING],
    build: Build::Oracle(|settings| Ok(Box::new(Ara::read(settings, Told { bursting: false })?))),
};

/// Says whether a burst is on.
trait BurstDetector: Send {
    fn arrived(&mut self, now: Nanos, board: &Board);
    fn told(&mut self, _truth: &Truth<'_>) {}
    fn bursting(&self) -> bool;
}

impl BurstDetector for BurstPredictor {
    fn arrived(&mut self, now: Nanos, _board: &Board) {
        BurstPredictor::arrived(self, now);
    }

    fn bursting(&self) -> bool {
        BurstPredictor::bursting(self)
    }
}

/// The last arrivals, as many as make a burst. 8 B each.
#[derive(Debug, Default)]
struct Recent {
    count: usize,
    last: VecDeque<Nanos>,
    bursting: bool,
}

impl BurstDetector for Recent {
    fn arrived(&mut self, now: Nanos, board: &Board) {
        self.last.push_back(now);
        let oldest = board.up().iter().filter_map(|id| board.site(*id).age(now)).max();
        if self.last.len() < self.count {
            return;
        }
        let since = self.last.pop_front().unwrap_or(now);
        self.bursting = oldest.is_some_and(|age| now.saturating_sub(since) < age);
    }

    fn bursting(&self) -> bool {
        self.bursting
    }
}

/// The truth.
#[derive(Debug)]
struct Told {
    bursting: bool,
}

impl BurstDetector for Told {
    fn arrived(&mut self, _now: Nanos, _board: &Board) {}

    fn told(&mut self, truth: &Truth<'_>) {
        self.bursting = truth.bursting;
    }

    fn bursting(&self) -> bool {
        self.bursting
    }
}

/// ARA under one way of knowing bursts.
struct Ara<D> {
    detector: D,
    high: Reach,
    low: Reach,
    best: Best,
}

impl<D: BurstDetector> Ara<D> {
    fn read(settings: &Settings, detector: D) -> Result<Ara<D>, SettingsError> {
        let (high, low) = (Reach::read(settings, "high")?, Reach::read(settings, "low")?);
        Ok(Ara { detector, high, low, best: Best::read(settings)? })
    }

    fn candidates(&self, board: &Board) -> usize {
        let reach = if self.detector.bursting() { self.high } else { self.low };
        reach.of(board.up().len().max(1))
    }
}

impl<D: BurstDetector> Rule for Ara<D> {
    fn arrived(&mut self, now: Nanos, board: &Board) {
        self.detector.arrived(now, board);
    }

    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        self.best.pick(self.candidates(board), board, rng)
    }

    fn told(&mut self, truth: &Truth<'_>) {
        self.detector.told(truth);
    }

    fn mood(&self, board: &Board) -> Mood {
        Mood {
            bursting: Some(self.detector.bursting()),
            candidates: Some(self.candidates(board) as f64),
        }
    }
}
