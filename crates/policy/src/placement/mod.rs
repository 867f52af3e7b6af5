//! Per-epoch policies: which chunk lives on which pool.
//!
//! A placement observes accesses in O(1) without allocation in the steady state, and at the end of
//! each epoch proposes moves from a read-only view. It never holds a device; the machine validates
//! every move, and may carry out only the first of them.

use crate::Footprint;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

/// Registry entries of this folder's policies: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] = &[];

/// One request's touch on one chunk. A request that spans chunks touches each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkAccess {
    /// When, since time zero.
    pub at: Nanos,
    /// The chunk touched.
    pub chunk: ChunkId,
    /// Bytes of the request inside this chunk.
    pub bytes: Bytes,
    /// Whether it writes.
    pub write: bool,
}

/// What a placement may see of the machine.
pub trait VolumeView {
    /// Volumes that exist; their ids are below this.
    fn volume_count(&self) -> u32;

    /// Pools from fastest (0) to slowest.
    fn pool_count(&self) -> u16;

    /// How many chunks `pool` can hold.
    fn capacity_chunks(&self, pool: PoolId) -> u64;

    /// Where `chunk` lives now; a chunk never written counts as on the slowest pool.
    fn pool_of(&self, chunk: ChunkId) -> PoolId;

    /// Chunks on `pool` now.
    fn used_chunks(&self, pool: PoolId) -> u64;
}

/// A chunk shall move to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The chunk.
    pub chunk: ChunkId,
    /// Where to.
    pub to: PoolId,
}

/// How much a placement may propose in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Moves at most.
    pub moves: u64,
}

impl Budget {
    /// No bound but the capacity.
    pub const UNLIMITED: Budget = Budget { moves: u64::MAX };
}

/// A placement policy.
pub trait Placement: Send {
    /// Takes note of one access. O(1) amortised.
    fn observe(&mut self, access: &ChunkAccess);

    /// Ends the epoch and appends moves, best first.
    ///
    /// The implementer must order them so that carrying out any prefix overfills no pool (each
    /// arrival on a full pool comes after the departure that makes room), and must propose nothing
    /// for a chunk that already is where it should be.
    fn propose(&mut self, now: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>);

    /// Memory in use now.
    fn footprint(&self) -> Footprint;
}
