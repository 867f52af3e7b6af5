//! Peak EWMA: the site where a request would probably be answered soonest, by latencies seen
//! (Finagle's and linkerd's).
//!
//! 1. Each site has a mean of latencies that decays over `decay`, entered as peaks (`latency.rs`).
//! 2. A site's cost is that mean, decayed until now, times the own requests under way and one more.
//! 3. The cheaper of `d` sites drawn at random is taken.
//!
//! A site that has not answered yet is taken to be as slow as `first`. Decay towards 0 lets a site
//! that was slow once be tried again. Where requests are longer than `decay`, it forgets all
//! between two answers: set it to several times what a request takes.
//!
//! State: 16 B a site. O(d²) a pick.

use super::choose::{self, Draw, Ties};
use super::latency::Latency;
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

/// Picks by latency and requests under way.
struct PeakEwma {
    count: usize,
    decay_s: f64,
    first_s: f64,
    estimates: Vec<Latency>,
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

impl Rule for PeakEwma {
    fn reshaped(&mut self, fresh: Option<SiteId>, board: &Board) {
        let new = Latency::assumed(self.first_s);
        self.estimates.resize(board.slots(), new);
        if let Some(site) = fresh {
            self.estimates[site.index()] = new;
        }
    }

    fn completed(&mut self, now: Nanos, site: SiteId, latency: Option<Nanos>, _board: &Board) {
        let Some(latency) = latency else { return };
        self.estimates[site.index()].peak(now, latency.as_secs_f64(), self.decay_s);
    }

    fn pick(&mut self, now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let (estimates, decay_s) = (&self.estimates, self.decay_s);
        let drawn = self.draw.draw(board, self.count, rng).iter().copied();
        choose::least(drawn, Ties::Random, rng, |id| {
            estimates[id.index()].cost(now, board.site(id).outstanding(), decay_s)
        })
    }
}
