//! Peak EWMA: the site where a request would probably be answered soonest, by latencies seen
//! (Finagle's and linkerd's).
//!
//! 1. Each site has a mean of latencies that decays over `decay`. A latency above it replaces it at
//!    once (the peak); one below it is averaged in, the more the longer ago the last one was.
//! 2. A site's cost is that mean, decayed until now, times the own requests under way and one more.
//! 3. The cheaper of `d` sites drawn at random is taken.
//!
//! A site that has not answered yet is taken to be as slow as `first`. Decay towards 0 lets a site
//! that was slow once be tried again. Where requests are longer than `decay`, it forgets all
//! between two answers: set it to several times what a request takes.
//!
//! State: 16 B a site. O(d²) a pick.

use super::choose::{self, Draw, Ties};
use super::{Board, Rule};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "peak-ewma",
    summary: "the lower of latency times own requests under way, of two sites drawn",
    source: "Finagle; linkerd",
    settings: &[
        Setting { name: "d", default: "2", unit: "sites", help: "sites drawn for a request" },
        Setting {
            name: "decay",
            default: "10s",
            unit: "duration",
            help: "how fast a latency is forgotten; several times what a request takes",
        },
        Setting {
            name: "first",
            default: "30ms",
            unit: "duration",
            help: "what a site that has not answered yet is taken to need",
        },
    ],
    build: Build::Balancer(|settings| Ok(Box::new(PeakEwma::read(settings)?))),
};

/// What latencies came to.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    seconds: f64,
    at: Nanos,
}

/// Picks by latency and requests under way.
struct PeakEwma {
    count: usize,
    decay_s: f64,
    first_s: f64,
    estimates: Vec<Estimate>,
    draw: Draw,
}

impl PeakEwma {
    fn read(settings: &Settings) -> Result<PeakEwma, SettingsError> {
        let decay_s = settings.duration("decay")?.as_secs_f64();
        if decay_s == 0.0 {
            return Err(settings.wrong("decay", "a duration above 0".to_string()));
        }
        Ok(PeakEwma {
            count: settings.count("d", 1, u16::MAX.into())? as usize,
            decay_s,
            first_s: settings.duration("first")?.as_secs_f64(),
            estimates: Vec::new(),
            draw: Draw::default(),
        })
    }
}

/// How much of an estimate is left after a time.
fn left(from: Nanos, now: Nanos, decay_s: f64) -> f64 {
    (-now.saturating_sub(from).as_secs_f64() / decay_s).exp()
}

impl Rule for PeakEwma {
    fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        let new = Estimate { seconds: self.first_s, at: Nanos(0) };
        self.estimates.resize(board.slots(), new);
        if let Some(site) = fresh {
            self.estimates[site.index()] = new;
        }
    }

    fn completed(&mut self, now: Nanos, site: SiteId, latency: Option<Nanos>, _board: &Board) {
        let Some(latency) = latency else { return };
        let estimate = &mut self.estimates[site.index()];
        let seconds = latency.as_secs_f64();
        let kept = left(estimate.at, now, self.decay_s);
        estimate.seconds = if seconds > estimate.seconds {
            seconds
        } else {
            estimate.seconds * kept + seconds * (1.0 - kept)
        };
        estimate.at = now;
    }

    fn pick(&mut self, now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let (estimates, decay_s) = (&self.estimates, self.decay_s);
        let drawn = self.draw.draw(board, self.count, rng).iter().copied();
        choose::least(drawn, Ties::Random, rng, |id| {
            let estimate = estimates[id.index()];
            let seconds = estimate.seconds * left(estimate.at, now, decay_s);
            seconds * (f64::from(board.site(id).outstanding()) + 1.0)
        })
    }
}
