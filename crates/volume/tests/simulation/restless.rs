//! A placement that never rests: moves chunks at random, as fast as it is asked, and sends half of
//! the requests to either side of mirrored chunks. Half of all such placements divide the fastest
//! pool, too, anew each time that they are asked.
//!
//! It keeps `Placement`'s contract only as far as the machine is entitled to rely on it; what does
//! not fit is for the machine to refuse.

use thermocline_policy::Footprint;
use thermocline_policy::placement::{
    Budget, ChunkAccess, Move, Placement, PoolLoad, Route, Router, VolumeView,
};
use thermocline_units::{ChunkId, Nanos, PoolId, Rng};

/// Half of the requests, in millionths.
const HALF: u32 = 500_000;

/// Moves proposed in one epoch at most.
const MOVES_MAX: usize = 4;

/// Numbers of slots that lines shall have: none, some, and all that there are.
const LINES: [u64; 5] = [0, 1, 3, 12, 1_000];

/// Placement that proposes moves at random.
pub(crate) struct Restless {
    rng: Rng,
    /// Draws of its own for lines, so that the moves are the same without them; `None`: it says
    /// nothing of lines.
    divides: Option<Rng>,
    lines: u64,
}

impl Restless {
    pub(crate) fn boxed(seed: u32) -> Box<dyn Placement> {
        let divides = (seed % 2 == 1).then(|| Rng::seeded(!u64::from(seed)));
        Box::new(Restless { rng: Rng::seeded(seed.into()), divides, lines: 0 })
    }
}

impl Placement for Restless {
    fn observe(&mut self, _access: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        if let Some(rng) = &mut self.divides {
            self.lines = LINES[rng.below(LINES.len() as u64) as usize];
        }
        let pools = view.pool_count();
        let mut chunks: Vec<(ChunkId, PoolId)> = Vec::new();
        for pool in (0..pools).map(PoolId) {
            view.visit_pool(pool, &mut |chunk| chunks.push((chunk, pool)));
        }
        let count = MOVES_MAX.min(budget.moves.try_into().unwrap_or(usize::MAX)).min(chunks.len());
        for _ in 0..count {
            let (chunk, from) = chunks.swap_remove(self.rng.below(chunks.len() as u64) as usize);
            let to = PoolId(self.rng.below(pools.into()) as u16);
            if to != from {
                let mirror = self.rng.below(4) == 0;
                moves.push(if mirror { Move::mirror(chunk, to) } else { Move::to(chunk, to) });
            }
        }
    }

    fn router(&mut self) -> Option<&mut dyn Router> {
        Some(self)
    }

    fn lines(&self) -> Option<u64> {
        self.divides.as_ref().map(|_| self.lines)
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

impl Router for Restless {
    fn route(&mut self, _loads: &[PoolLoad]) -> Route {
        Route { reads: HALF, writes: HALF }
    }
}
