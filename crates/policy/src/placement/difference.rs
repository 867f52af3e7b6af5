//! From what should be on flash to the moves that bring it there.
//!
//! 1. Arrivals (wanted, not there) go hottest first; departures (there, not wanted) coldest first,
//!    to the slowest pool.
//! 2. A [`Plan`] brings them into an order of which any prefix fits: arrivals while flash has room,
//!    departures when it has none, and the departures left when arrivals are done.

use super::heat::HeatMap;
use super::plan::Plan;
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
        let pools = view.pool_count();
        if pools < 2 {
            return; // There is nowhere to go.
        }
        let slowest = PoolId(pools - 1);
        self.arrivals.sort_unstable();
        self.departures.sort_unstable();
        let mut plan = Plan::new(view);
        for arrival in &self.arrivals {
            let chunk = map.chunks.id(arrival.number);
            plan.wish(chunk, view.pool_of(chunk), FLASH);
        }
        let leaving = self.departures.iter().map(|departure| map.chunks.id(departure.number));
        leaving.for_each(|chunk| plan.wish(chunk, FLASH, slowest));
        plan.propose(budget, moves);
    }
}
