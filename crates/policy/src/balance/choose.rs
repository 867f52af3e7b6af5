//! Choices among sites that rules share: at random by weight, the least with or without ties, the K
//! best.
//!
//! Invariant: whatever is chosen is up. The caller guarantees that something is.

use super::Board;
use crate::registry::{Setting, Settings, SettingsError};
use thermocline_units::{Rng, SiteId};

/// The choice among equally good sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ties {
    /// Any of them, each as likely.
    Random,
    /// The one with the lowest number, always: as the source's tables were made.
    First,
}

impl Ties {
    pub(super) const SETTING: Setting = Setting {
        name: "ties",
        default: "random",
        unit: "random or first",
        help: "which of equally good sites is taken; `first` is the source's rule and herds",
    };

    pub(super) fn read(settings: &Settings) -> Result<Ties, SettingsError> {
        Ok([Ties::Random, Ties::First][settings.choice("ties", &["random", "first"])?])
    }
}

/// Any site, in proportion to its weight. O(1) when weights are equal, O(N) otherwise.
pub(super) fn by_weight(board: &Board, rng: &mut Rng) -> SiteId {
    let up = board.up();
    if board.is_equal() {
        return up[rng.below(up.len() as u64) as usize];
    }
    let mut left = rng.unit_f64() * board.weight();
    for id in up {
        left -= board.site(*id).weight();
        if left < 0.0 {
            return *id;
        }
    }
    *up.last().expect("the caller guarantees that a site is up")
}

/// The site of `among` with the least `key`. O(N).
///
/// # Panics
/// When there is none.
pub(super) fn least(
    among: impl IntoIterator<Item = SiteId>,
    ties: Ties,
    rng: &mut Rng,
    key: impl Fn(SiteId) -> f64,
) -> SiteId {
    let mut best: Option<(f64, SiteId)> = None;
    let mut equals = 0;
    for id in among {
        let value = key(id);
        match best {
            Some((least, _)) if value > least => {}
            Some((least, _)) if value == least => {
                equals += 1;
                if ties == Ties::Random && rng.below(equals) == 0 {
                    best = Some((value, id));
                }
            }
            _ => {
                best = Some((value, id));
                equals = 1;
            }
        }
    }
    best.expect("the caller guarantees that a site is up").1
}

/// A site's load with one request more, in units of an equal site's.
pub(super) fn with_one_more(board: &Board, id: SiteId, load: f64) -> f64 {
    (load + 1.0) / board.site(id).weight()
}

/// A few different sites, drawn by weight; all of them when there are no more. Its room is kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Draw {
    drawn: Vec<SiteId>,
}

/// Draws in vain before a draw by weight takes the next site that is not drawn yet: with weights
/// far apart, light ones come up rarely.
const VAIN_MAX: u32 = 8;

impl Draw {
    /// `count` different sites, or all. O(count²), or O(N) when that is all.
    pub(super) fn draw(&mut self, board: &Board, count: usize, rng: &mut Rng) -> &[SiteId] {
        self.drawn.clear();
        if count >= board.up().len() {
            self.drawn.extend_from_slice(board.up());
            return &self.drawn;
        }
        while self.drawn.len() < count {
            let mut vain = 0;
            let mut id = by_weight(board, rng);
            while self.drawn.contains(&id) && vain < VAIN_MAX {
                id = by_weight(board, rng);
                vain += 1;
            }
            if self.drawn.contains(&id) {
                let left = board.up().iter().find(|up| !self.drawn.contains(up));
                id = *left.expect("fewer are drawn than are up");
            }
            self.drawn.push(id);
        }
        &self.drawn
    }
}
