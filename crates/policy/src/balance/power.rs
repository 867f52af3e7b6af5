//! Power of d choices: the better of d sites drawn at random (Mitzenmacher 1996; with old
//! information: Mitzenmacher 2000).
//!
//! 1. Draw d different sites, in proportion to their weights.
//! 2. Take the one with the fewest own requests under way (`load=own`), or with the shortest queue
//!    by the last reports (`load=reported`).
//!
//! Two draws take nearly all of what full knowledge would give, and old reports cannot make a herd
//! of more than 2/N of the requests. State: room for d numbers. O(d²) a pick, O(N) when d ≥ N.

use super::choose::{self, Draw, Ties};
use super::{Board, Rule};
use crate::registry::{Build, Entry, Setting};
use thermocline_units::{Nanos, Rng, SiteId};

pub(crate) const ENTRY: Entry = Entry {
    name: "p2c",
    summary: "the better of two (or d) sites drawn at random",
    source: "Mitzenmacher 1996, 2000",
    settings: &[
        Setting {
            name: "d",
            default: "2",
            unit: "sites",
            help: "sites drawn for a request; 1 is rand, all of them is qlen or least",
        },
        Setting {
            name: "load",
            default: "own",
            unit: "own or reported",
            help: "what is compared: own requests under way, or queues by the last reports",
        },
    ],
    build: Build::Balancer(|settings| {
        Ok(Box::new(Power {
            count: settings.count("d", 1, u16::MAX.into())? as usize,
            reported: settings.choice("load", &["own", "reported"])? == 1,
            draw: Draw::default(),
        }))
    }),
};

/// Picks the better of a few.
struct Power {
    count: usize,
    reported: bool,
    draw: Draw,
}

impl Rule for Power {
    fn pick(&mut self, _now: Nanos, board: &Board, rng: &mut Rng) -> SiteId {
        let drawn = self.draw.draw(board, self.count, rng).iter().copied();
        choose::least(drawn, Ties::Random, rng, |id| {
            let site = board.site(id);
            let load = if self.reported { site.queue() } else { site.outstanding() };
            choose::with_one_more(board, id, load.into())
        })
    }
}
