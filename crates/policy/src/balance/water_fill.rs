//! Water-filling: the site where a request will probably be done soonest, by own requests, exactly;
//! by those of others, as far as answers to probes and reports can be believed; and by how fast
//! sites have shown to be. The default.
//!
//! 1. Sites' speeds are learnt from how long requests took beside how many they met (`speeds`).
//! 2. With answers to probes: a site's load is this balancer's own requests under way there, and
//!    others' by the last answer, which fades to the site's mean as fast as answers have shown to
//!    grow stale (`fading`). The least load and one more, for its speed, is taken.
//! 3. Each request sends `probes` probes to sites drawn at random. It does not wait for them,
//!    unless the last ones were sent longer ago than a request takes, and a probe's way is less
//!    than half of that: then old answers cost more than waiting.
//! 4. Without answers: own requests and the reported ones of others, less those that must have been
//!    finished since: the report's age over the time a request takes, less what came back to this
//!    balancer. Requests of others that no report shows are as many as the sites' counts of
//!    arrivals tell, or as [`Unseen`] makes of own ones; the greater. They fill the sites up to a
//!    level, and a site is drawn in proportion to the room below it. Reports older than `trust`
//!    times what a request takes say nothing any more: then only own requests count.
//!
//! Where answers come, reports are not reckoned with: all balancers hear the same ones at the same
//! time, and would all go where nobody was.
//!
//! With one balancer nothing is of others, and with equal sites it is `least`. Ours; the level is
//! Dahlin's (ICDCS 1999), and tidal water filling and stochastic coordination (`twf`, `scd`) fill
//! in the same way what all balancers know; the load for the speed is the shortest expected delay
//! of Banawan and Zahorjan (1989).
//!
//! State: 120 B a site. O(N) a pick, O(N log N) without answers.

use super::choose::Draw;
use super::fading::Fading;
use super::interpretation::unseen_of_others;
use super::level::Level;
use super::speeds::{Lesson, Speeds};
use super::{Board, Mood, Probe, Probing, Rule};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "water-fill",
    summary: "where it is done soonest: own requests, others' by probes and reports, speeds learnt",
    source: "ours, after Dahlin 1999 and Goren et al. 2020",
    settings: &[
        Setting {
            name: "probes",
            default: "3",
            unit: "probes a request",
            help: "sites asked, where servers answer probes; 0 is none",
        },
        Setting {
            name: "wait",
            default: "1",
            unit: "times what a request takes",
            help: "since the last probes, from when on a request waits for its own; 0 is never",
        },
        Setting {
            name: "learn",
            default: "64",
            unit: "answers of a site",
            help: "from which its speed is learnt; 0 is by weights alone",
        },
        Setting {
            name: "trust",
            default: "3",
            unit: "times what a request takes",
            help: "age from which on reports are not used; 0 is never",
        },
    ],
    build: Build::Balancer(|settings| Ok(Box::new(WaterFill::read(settings)?))),
};

/// A probe's way beside what a request takes, up to which waiting for it can be worth while.
const TRIP_SHARE_MAX: f64 = 0.5;
/// Share of a probe in the mean of their ways.
const SHARE_OF_TRIP: f64 = 1.0 / 16.0;
/// Probes without an answer after which requests wait for no more, and after which answers are not
/// reckoned with.
const UNANSWERED_WAIT_MAX: u32 = 32;
const UNANSWERED_MAX: u32 = 1024;

/// Picks by level.
struct WaterFill {
    probes: usize,
    wait: f64,
    trust: f64,
    speeds: Speeds,
    fading: Fading,
    unseen: Unseen,
    level: Level,
    draw: Draw,
    /// Time of the last probes, and their number since the last answer; `None`: none was answered.
    asked: Nanos,
    unanswered: Option<u32>,
    /// Seconds of a probe's way to a site and back, about.
    trip_s: f64,
    waits: bool,
}

impl WaterFill {
    fn read(settings: &Settings) -> Result<WaterFill, SettingsError> {
        Ok(WaterFill {
            probes: settings.count("probes", 0, 64)? as usize,
            wait: settings.number("wait", 0.0, 1e12)?,
            trust: settings.number("trust", 0.0, 1e12)?,
            speeds: Speeds::new(settings.number("learn", 0.0, 1e6)?),
            fading: Fading::default(),
            unseen: Unseen::default(),
            level: Level::default(),
            draw: Draw::default(),
            asked: Nanos(0),
            unanswered: None,
            trip_s: 0.0,
            waits: false,
        })
    }

    /// True if sites answer probes.
    fn is_answered(&self) -> bool {
        self.unanswered.is_some_and(|count| count <= UNANSWERED_MAX)
    }

    /// Requests at a site, this one aside, as far as answers tell.
    fn load(&self, now: Nanos, board: &Board, id: SiteId) -> f64 {
        let others = self.fading.others(now, id, self.speeds.alone_s());
        f64::from(board.site(id).outstanding()) + others
    }

    /// Requests at a site, as far as its report tells.
    fn reported_load(&self, now: Nanos, board: &Board, id: SiteId) -> f64 {
        let site = board.site(id);
        let age_s = site.age(now).map_or(0.0, Nanos::as_secs_f64);
        let alone_s = self.speeds.alone_s();
        let served =
            if alone_s > 0.0 { age_s * self.speeds.weight(board, id) / alone_s } else { 0.0 };
        let finished = (served - site.finished_unseen() as f64).max(0.0);
        f64::from(site.outstanding()) + (f64::from(site.others()) - finished).max(0.0)
    }

    /// True if reports are young enough to be used.
    fn is_believed(&self, now: Nanos, board: &Board) -> bool {
        let oldest = board.up().iter().filter_map(|id| board.site(*id).age(now)).max();
        let alone_s = self.speeds.alone_s();
        let limit_s = if alone_s > 0.0 { self.trust * alone_s } else { f64::INFINITY };
        self.trust > 0.0 && oldest.is_none_or(|age| age.as_secs_f64() < limit_s)
    }
}

impl Rule for WaterFill {
    fn arrived(&mut self, now: Nanos, _board: &Board) {
        let alone_s = self.speeds.alone_s();
        let since_s = now.saturating_sub(self.asked).as_secs_f64();
        self.waits = self.wait > 0.0
            && alone_s > 0.0
            && since_s > self.wait * alone_s
            && self.trip_s < TRIP_SHARE_MAX * alone_s
            && self.unanswered.is_some_and(|count| count <= UNANSWERED_WAIT_MAX);
    }

    fn probing(&self) -> Probing {
        match () {
            () if self.probes == 0 => Probing::None,
            () if self.waits => Probing::Awaited,
            () => Probing::Aside,
        }
    }

    fn probes(&mut self, now: Nanos, board: &Board, rng: &mut Rng, out: &mut Vec<SiteId>) {
        if self.probes == 0 {
            return;
        }
        self.asked = now;
        out.extend_from_slice(self.draw.draw(board, self.probes, rng));
        if let Some(count) = &mut self.unanswered {
            *count = count.saturating_add(self.probes as u32);
        }
    }

    fn probed(&mut self, now: Nanos, site: SiteId, probe: &Probe, board: &Board) {
        // What came with an answer to a request had no way of its own.
        if now > probe.taken {
            let trip_s = 2.0 * now.saturating_sub(probe.taken).as_secs_f64();
            self.trip_s += (trip_s - self.trip_s) * SHARE_OF_TRIP;
        }
        self.unanswered = Some(0);
        let others = probe.in_flight.saturating_sub(board.site(site).outstanding());
        self.fading.hear(site, probe.taken, others.into(), self.speeds.alone_s());
    }

    fn completed(&mut self, now: Nanos, site: SiteId, latency: Option<Nanos>, board: &Board) {
        let Some(latency) = latency else { return };
        let own = f64::from(board.site(site).outstanding()) + 1.0;
        let others = match self.is_answered() {
            true => self.fading.others(now, site, self.speeds.alone_s()),
            false => board.site(site).others().into(),
        };
        let met = own + others;
        // Old reports are not equally wrong of all sites.
        let is_known = self.is_answered() || self.is_believed(now, board);
        let compared = if is_known { met } else { own };
        self.speeds.add(site, &Lesson { latency, met, compared }, board);
    }

    fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        self.speeds.reshaped(fresh, board);
        self.fading.reshaped(fresh, board);
    }

    fn pick(&mut self, now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let mut level = std::mem::take(&mut self.level);
        let weight = |id| self.speeds.weight(board, id);
        let site = if self.is_answered() {
            level.draw_by(board, 0.0, rng, |id| self.load(now, board, id), weight)
        } else if self.is_believed(now, board) {
            let unseen = unseen_of_others(now, board).max(self.unseen.of_others(board));
            level.draw_by(board, unseen, rng, |id| self.reported_load(now, board, id), weight)
        } else {
            level.draw_by(board, 0.0, rng, |id| board.site(id).outstanding().into(), weight)
        };
        self.level = level;
        if !self.is_answered() {
            self.unseen.met(board);
        }
        site
    }

    fn mood(&self, _board: &Board) -> Mood {
        Mood { bursting: None, candidates: Some(self.level.below() as f64) }
    }
}

/// Number of requests of other balancers that no report shows, by how many of its own none showed
/// when requests came before.
///
/// 1. What a request meets of its own balancer's, unseen by any report, is on average what it meets
///    of each other one's: all are met by the same requests.
/// 2. A balancer that has none unseen now may be the first of many in a burst. Own ones are drawn
///    from what was met before, taken as gamma-distributed with a shape of [`SHAPE`]: of k, the
///    others have (k + shape) / (1 + shape / mean) each.
///
/// Where no burst has been seen the mean is next to nothing, and so is this.
#[derive(Debug, Clone, Copy, Default)]
struct Unseen {
    mean: f64,
    count: u32,
}

/// Shape of the distribution of what is unseen: the smaller, the more it comes in bursts.
const SHAPE: f64 = 0.5;
/// Requests that the mean reaches back.
const REACH: u32 = 1024;

impl Unseen {
    fn own(board: &Board) -> f64 {
        board.up().iter().map(|id| board.site(*id).unseen() as f64).sum()
    }

    /// A request meets what there is.
    fn met(&mut self, board: &Board) {
        self.count = (self.count + 1).min(REACH);
        self.mean += (Unseen::own(board) - self.mean) / f64::from(self.count);
    }

    fn of_others(&self, board: &Board) -> f64 {
        if self.mean <= 0.0 {
            return 0.0;
        }
        let each = (Unseen::own(board) + SHAPE) / (1.0 + SHAPE / self.mean);
        each * f64::from(board.balancers() - 1)
    }
}

#[cfg(test)]
mod tests;
