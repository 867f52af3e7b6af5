//! A placement that is counted: how many moves it proposed.
//!
//! The machine takes from a proposal what it can use and says nothing of the rest; the difference
//! tells what it could not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thermocline_policy::Footprint;
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, Router, VolumeView};
use thermocline_units::{ChunkId, Nanos};

/// A placement that counts its proposals.
pub(super) struct Counted {
    placement: Box<dyn Placement>,
    proposed: Arc<AtomicU64>,
}

impl Counted {
    /// `placement`, and where its moves are counted.
    pub(super) fn new(placement: Box<dyn Placement>) -> (Counted, Arc<AtomicU64>) {
        let proposed = Arc::new(AtomicU64::new(0));
        (Counted { placement, proposed: Arc::clone(&proposed) }, proposed)
    }
}

impl Placement for Counted {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.placement.observe(access);
    }

    fn propose(
        &mut self,
        now: Nanos,
        view: &dyn VolumeView,
        budget: Budget,
        moves: &mut Vec<Move>,
    ) {
        let before = moves.len();
        self.placement.propose(now, view, budget, moves);
        self.proposed.fetch_add((moves.len() - before) as u64, Ordering::Relaxed);
    }

    fn explain(&self, chunk: ChunkId) -> Vec<String> {
        self.placement.explain(chunk)
    }

    fn router(&mut self) -> Option<&mut dyn Router> {
        self.placement.router()
    }

    fn lines(&self) -> Option<u64> {
        self.placement.lines()
    }

    fn footprint(&self) -> Footprint {
        self.placement.footprint()
    }
}
