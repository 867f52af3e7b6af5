//! A placement that is counted: how many moves it proposed, and whether it failed.
//!
//! The machine takes from a proposal what it can use and says nothing of the rest; the difference
//! tells what it could not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thermocline_policy::Footprint;
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, Router, VolumeView};
use thermocline_units::{ChunkId, Nanos};

/// A placement that counts its proposals.
pub(super) struct Counted {
    placement: Box<dyn Placement>,
    proposals: Arc<Proposals>,
}

/// Proposals of a placement so far.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    proposed: AtomicU64,
    failure: OnceLock<String>,
}

impl Proposals {
    /// Moves proposed so far.
    pub(super) fn proposed(&self) -> u64 {
        self.proposed.load(Ordering::Relaxed)
    }

    /// Reason for which it failed, if it did.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

impl Counted {
    /// `placement`, and where its moves are counted.
    pub(super) fn new(placement: Box<dyn Placement>) -> (Counted, Arc<Proposals>) {
        let proposals = Arc::new(Proposals::default());
        (Counted { placement, proposals: Arc::clone(&proposals) }, proposals)
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
        self.proposals.proposed.fetch_add((moves.len() - before) as u64, Ordering::Relaxed);
        if let Some(problem) = self.placement.failure() {
            self.proposals.failure.get_or_init(|| problem.to_string());
        }
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

    fn failure(&self) -> Option<&str> {
        self.placement.failure()
    }

    fn footprint(&self) -> Footprint {
        self.placement.footprint()
    }
}
