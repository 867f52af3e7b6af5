//! Filling sites up to one level, as water fills vessels: where requests that nobody has seen yet
//! have probably gone, and so where the next one should go.
//!
//! Given the load of each site and how many unseen requests lie somewhere among them:
//! 1. Sites are put in order of their load for their weight.
//! 2. The level is raised from the least until the room below it holds the unseen requests.
//! 3. A site is drawn in proportion to the room below the level. With nothing unseen that is the
//!    least loaded; with very much it is any.
//!
//! This is Dahlin's load interpretation (ICDCS 1999), for unequal sites. State: 24 B a site,
//! reused. O(N log N), with N small.

use super::Board;
use super::choose::{self, Ties};
use thermocline_units::{Rng, SiteId};

/// A level over sites. Its room is kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Level {
    /// Load for weight, weight, site; in order once filled.
    sites: Vec<(f64, f64, SiteId)>,
    /// Sites below the level at the last draw.
    below: usize,
}

impl Level {
    /// Draws a site, when `unseen` ≥ 0 requests lie somewhere on top of `load`.
    pub(super) fn draw(
        &mut self,
        board: &Board,
        unseen: f64,
        rng: &mut Rng,
        load: impl Fn(SiteId) -> f64,
    ) -> SiteId {
        self.draw_by(board, unseen, rng, load, |id| board.site(id).weight())
    }

    /// The same with weights, above 0, that are not the board's.
    pub(super) fn draw_by(
        &mut self,
        board: &Board,
        unseen: f64,
        rng: &mut Rng,
        load: impl Fn(SiteId) -> f64,
        weight: impl Fn(SiteId) -> f64,
    ) -> SiteId {
        if unseen <= 0.0 {
            self.below = 1;
            return choose::least(board.up().iter().copied(), Ties::Random, rng, |id| {
                (load(id) + 1.0) / weight(id)
            });
        }
        self.sites.clear();
        self.sites.extend(board.up().iter().map(|id| {
            let weight = weight(*id);
            (load(*id) / weight, weight, *id)
        }));
        self.sites.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let level = self.fill(unseen);
        let mut left = rng.unit_f64() * unseen;
        for (height, weight, id) in &self.sites[..self.below] {
            left -= (level - height) * weight;
            if left < 0.0 {
                return *id;
            }
        }
        self.sites[self.below - 1].2 // rounding
    }

    /// The level at which `unseen` > 0 requests have found room; `below` sites lie below it.
    fn fill(&mut self, unseen: f64) -> f64 {
        let (mut weights, mut loads) = (0.0, 0.0);
        self.below = 0;
        for (at, (height, weight, _)) in self.sites.iter().enumerate() {
            let level = (unseen + loads) / weights;
            if at > 0 && *height >= level {
                return level;
            }
            weights += weight;
            loads += height * weight;
            self.below = at + 1;
        }
        (unseen + loads) / weights
    }

    /// Sites below the level at the last draw: among so many it chose.
    pub(super) fn below(&self) -> usize {
        self.below
    }
}
