//! From what should be on flash to the moves that bring it there.
//!
//! 1. Arrivals (wanted, not there) go hottest first; departures (there, not wanted) coldest first.
//! 2. While flash has room, the next arrival; when it has none, the next departure.
//! 3. When arrivals are done, the departures left. Stop at the budget, or where neither pool has
//!    room.
//!
//! So any prefix overfills neither pool, and a short budget buys the hottest arrivals first.
//! Departures go to the slowest pool.

use super::heat::HeatMap;
use super::rank::Candidate;
use super::{Budget, FLASH, Move, VolumeView};
use thermocline_units::PoolId;

/// The chunks that must change place.
#[derive(Debug, Default)]
pub(super) struct Difference {
    arrivals: Vec<Candidate>,
    departures: Vec<Candidate>,
}

impl Difference {
    /// Takes note of a chunk that should be on flash.
    #[inline]
    pub(super) fn keep(&mut self, candidate: Candidate) {
        if !candidate.is_on_flash() {
            self.arrivals.push(candidate);
        }
    }

    /// Takes note of a chunk that should not be on flash.
    #[inline]
    pub(super) fn leave(&mut self, candidate: Candidate) {
        if candidate.is_on_flash() {
            self.departures.push(candidate);
        }
    }

    /// Appends the moves.
    pub(super) fn propose(
        mut self,
        map: &HeatMap,
        view: &dyn VolumeView,
        budget: Budget,
        moves: &mut Vec<Move>,
    ) {
        let slowest = slowest(view);
        let room = |pool| view.capacity_chunks(pool) as i128 - i128::from(view.used_chunks(pool));
        let (mut flash_room, mut slow_room) = (room(FLASH), room(slowest));
        self.arrivals.sort_unstable();
        self.departures.sort_unstable_by(|a, b| b.cmp(a));
        let mut arrivals = self.arrivals.iter().peekable();
        let mut departures = self.departures.iter();
        for _ in 0..budget.moves {
            if flash_room > 0 && arrivals.peek().is_some() {
                let chunk = map.chunks.id(arrivals.next().expect("just seen").number);
                slow_room += i128::from(view.pool_of(chunk) == slowest);
                flash_room -= 1;
                moves.push(Move { chunk, to: FLASH });
            } else if slow_room > 0
                && let Some(next) = departures.next()
            {
                moves.push(Move { chunk: map.chunks.id(next.number), to: slowest });
                slow_room -= 1;
                flash_room += 1;
            } else {
                break;
            }
        }
    }
}

/// The pool that chunks leave flash for.
///
/// # Panics
/// When the machine has fewer than two pools: a flash manager then has nothing to decide.
fn slowest(view: &dyn VolumeView) -> PoolId {
    let pools = view.pool_count();
    assert!(pools >= 2, "a flash manager needs flash and a pool below it");
    PoolId(pools - 1)
}
