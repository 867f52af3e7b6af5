//! Per-epoch policies: which chunk lives on which pool.
//!
//! A placement observes accesses in O(1) without allocation in the steady state, and at the end of
//! each epoch proposes moves from a read-only view. It never holds a device; the machine validates
//! every move, and may carry out only the first of them.

mod account;
mod activity;
mod auto;
mod baseline;
mod benefit;
pub mod chew;
mod chunks;
mod colloid;
mod cooling;
mod demand;
mod difference;
mod edt;
pub(crate) mod foreign;
mod frequency;
mod g1_vfrm;
mod g2_vfrm;
mod greedy;
mod grem;
mod heat;
mod hemem;
mod linear;
mod lmst;
mod mirrors;
mod most;
mod order;
mod orthus;
mod plan;
mod pools;
pub(crate) mod price;
mod rank;
pub mod shadow;
mod sla;
mod smq;
mod split;
mod tiers;
mod vfrm;
mod warmth;
mod zones;

pub use account::Account;
pub use auto::Foresight;
pub(crate) use auto::NoForesight;
pub use auto::{EPOCH as AUTO_EPOCH, EPOCH_TEXT as AUTO_EPOCH_TEXT};
pub use foreign::{
    ChunkFacts, EpochFacts, ForeignPlacement, ForeignPlacements, PoolFacts, ServiceFacts, Wish,
};
pub use mirrors::{ROUTING_PERIOD, Route, Router};
pub use pools::{Pattern, PoolLoad, PoolTraits, Service};
pub use sla::{Sla, SlaClass};
pub use split::Split;

use crate::Footprint;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Bytes of a chunk, where nobody says otherwise.
pub const CHUNK: Bytes = Bytes::from_mib(1);
/// [`CHUNK`], as it is written.
pub const CHUNK_TEXT: &str = "1MiB";
/// Time between two decisions of a placement, where neither it nor anybody else says otherwise.
pub const EPOCH: Nanos = Nanos::from_secs(300);
/// [`EPOCH`], as it is written.
pub const EPOCH_TEXT: &str = "5m";

/// Registry entries of this folder's policies: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] = &[
    linear::ENTRY,
    auto::ENTRY,
    baseline::ENTRY,
    greedy::IOPS_ONLY,
    greedy::EDT_STRAWMAN,
    edt::ENTRY,
    chew::ENTRY,
    chew::RUNS,
    vfrm::ENTRY,
    g1_vfrm::ENTRY,
    g2_vfrm::ENTRY,
    grem::ENTRY,
    hemem::ENTRY,
    colloid::ENTRY,
    smq::ENTRY,
    lmst::ENTRY,
    benefit::ENTRY,
    orthus::ENTRY,
    most::ENTRY,
];

/// Placements that are told the future.
pub(crate) const BOUNDS: &[crate::registry::Entry] = &[auto::ORACLE];

/// The fastest pool; what the flash managers call flash.
pub const FLASH: PoolId = PoolId(0);

/// One request's touch on one chunk. A request that spans chunks touches each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkAccess {
    /// Time since time zero.
    pub at: Nanos,
    /// The chunk touched.
    pub chunk: ChunkId,
    /// Offset in the chunk.
    pub offset: Bytes,
    /// Bytes of the request inside this chunk.
    pub bytes: Bytes,
    /// True if it writes.
    pub write: bool,
}

/// Bytes that are not what a placement has learnt, or of another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not what this policy has learnt, or of another version")]
pub struct Unreadable;

/// A placement's view of the machine.
///
/// All of it stands in recordings: whoever adds to this trait adds to docs/formats/recording.md.
pub trait VolumeView {
    /// Bytes of a chunk, a power of two.
    fn chunk_size(&self) -> Bytes;

    /// Length of the epoch that ends now, above 0.
    fn epoch(&self) -> Nanos;

    /// Traits of `pool`: from its profile where it has one, else [`PoolTraits::assumed`].
    fn traits(&self, pool: PoolId) -> PoolTraits;

    /// Load that clients put on `pool` in the epoch that ends now.
    fn load(&self, pool: PoolId) -> PoolLoad;

    /// Volumes that exist; their ids are below this.
    fn volume_count(&self) -> u32;

    /// SLA of `volume`; `None`: it has none, or there is no such volume.
    fn sla(&self, _volume: VolumeId) -> Option<Sla> {
        None
    }

    /// Pools from fastest (0) to slowest.
    fn pool_count(&self) -> u16;

    /// Number of chunks that `pool` can hold.
    fn capacity_chunks(&self, pool: PoolId) -> u64;

    /// Pool of `chunk` now; a chunk never written counts as on the slowest pool.
    fn pool_of(&self, chunk: ChunkId) -> PoolId;

    /// Chunks on `pool` now.
    fn used_chunks(&self, pool: PoolId) -> u64;

    /// Shows every chunk on `pool` once, by ascending id.
    ///
    /// A placement compares what it wants with what is there, and not with what it once proposed:
    /// moves that were refused, put off or undone, and chunks that were placed before it started,
    /// then need no bookkeeping of their own. O(chunks on the pool).
    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId));

    /// True if `chunk` is on a pool, so that it can be moved. True of all where every chunk counts
    /// as on the slowest pool until it is moved.
    fn holds(&self, _chunk: ChunkId) -> bool {
        true
    }

    /// Accesses of clients to `chunk` in the epoch that ends now; none where nobody counts.
    fn accesses(&self, _chunk: ChunkId) -> Accesses {
        Accesses::default()
    }

    /// Shows every mirrored chunk once, by ascending id, with the pool of its other side; none
    /// where nothing is mirrored. Its first side is where `pool_of` says, and both sides count as
    /// used.
    fn visit_mirrors(&self, _visit: &mut dyn FnMut(ChunkId, PoolId)) {}

    /// Shows every chunk once, by ascending id, of which a move to a faster pool has left a copy
    /// behind that no write has made old yet, with that copy's pool: a move back there copies
    /// nothing. Such copies give way, and do not count as used; none where nobody keeps any.
    fn visit_kept(&self, _visit: &mut dyn FnMut(ChunkId, PoolId)) {}

    /// True if the machine holds lines in slots of the fastest pool ([`Placement::lines`]); false
    /// where it does not, as for shadows and for flash managers in `lab cache`.
    fn lends_lines(&self) -> bool {
        false
    }

    /// True if the chunk has further copies, each on another pool, which stay where somebody wanted
    /// them: a move to one of these pools is refused. False where nobody knows of copies.
    fn is_replicated(&self, _chunk: ChunkId) -> bool {
        false
    }

    /// True if an administrator pinned the chunk: moves of it are refused. False where nobody knows
    /// of pins.
    fn is_pinned(&self, _chunk: ChunkId) -> bool {
        false
    }

    /// False if no chunk has been pinned since the machine was opened.
    fn has_pins(&self) -> bool {
        false
    }
}

/// Accesses of clients to a chunk in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accesses {
    /// Those that read.
    pub reads: u64,
    /// Those that write.
    pub writes: u64,
}

impl Accesses {
    /// All of them.
    pub fn all(self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

/// A chunk shall come to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The chunk.
    pub chunk: ChunkId,
    /// Destination.
    pub to: PoolId,
    /// Kind of the move.
    pub how: How,
}

/// Ways in which a chunk comes to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// A move: the chunk is there alone then; a mirrored chunk is brought together on that side.
    Move,
    /// A mirroring: the chunk is also there, and the two share its requests. A mirrored chunk on
    /// one of its pools: both sides are made equal again.
    Mirror,
}

impl Move {
    /// `chunk` moves to `to`.
    pub const fn to(chunk: ChunkId, to: PoolId) -> Move {
        Move { chunk, to, how: How::Move }
    }

    /// `chunk` is mirrored on `to`.
    pub const fn mirror(chunk: ChunkId, to: PoolId) -> Move {
        Move { chunk, to, how: How::Mirror }
    }
}

/// Change of the pools that a placement sees, between two epochs' ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolChange {
    /// A pool has joined at this place; those that were there and behind it are one further on.
    Joined(PoolId),
    /// The pool at this place is gone, and nothing was left on it; those behind it are one nearer.
    Left(PoolId),
}

impl PoolChange {
    /// The place of a pool afterwards; `None`: it is the one that is gone.
    pub fn place_of(self, pool: PoolId) -> Option<PoolId> {
        match self {
            PoolChange::Joined(at) if pool >= at => Some(PoolId(pool.0 + 1)),
            PoolChange::Left(at) if pool == at => None,
            PoolChange::Left(at) if pool > at => Some(PoolId(pool.0 - 1)),
            _ => Some(pool),
        }
    }

    /// Brings figures by pool to their new places, as far as there are any; a pool that has joined
    /// begins with `fresh`.
    pub(crate) fn shift<T>(self, figures: &mut Vec<T>, fresh: T) {
        match self {
            PoolChange::Joined(PoolId(at)) if usize::from(at) < figures.len() => {
                figures.insert(usize::from(at), fresh);
            }
            PoolChange::Left(PoolId(at)) if usize::from(at) < figures.len() => {
                figures.remove(usize::from(at));
            }
            _ => {}
        }
    }

    /// The place afterwards of a pool in one byte or in two; `nowhere` stays, and is what becomes
    /// of the pool that is gone.
    pub(crate) fn place_code<T: Copy + PartialEq + Into<u16> + TryFrom<u16>>(
        self,
        place: T,
        nowhere: T,
    ) -> T {
        if place == nowhere {
            return nowhere;
        }
        let moved = self.place_of(PoolId(place.into()));
        moved.and_then(|pool| T::try_from(pool.0).ok()).unwrap_or(nowhere)
    }
}

/// Bounds on what a placement may propose in one epoch.
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
///
/// Time is cut into epochs by the caller, who calls `propose` at the end of each and feeds accesses
/// in time order; a placement that needs the length of an epoch states its settings in epochs.
///
/// ```
/// use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
/// use thermocline_policy::registry::PolicySpec;
/// use thermocline_units::Nanos;
///
/// /// An epoch of a machine: what was asked, then what shall move.
/// fn epoch(
///     placement: &mut dyn Placement,
///     accesses: &[ChunkAccess],
///     now: Nanos,
///     view: &dyn VolumeView,
/// ) -> Vec<Move> {
///     accesses.iter().for_each(|access| placement.observe(access));
///     let mut moves = Vec::new();
///     placement.propose(now, view, Budget { moves: 8 }, &mut moves);
///     moves
/// }
///
/// let placement = PolicySpec::parse("baseline").unwrap().build_placement().unwrap();
/// assert!(placement.footprint().index < 1 << 20, "it knows nothing yet");
/// # let _ = epoch;
/// ```
pub trait Placement: Send {
    /// Takes note of one access, whichever pool served it. O(1) amortised.
    fn observe(&mut self, access: &ChunkAccess);

    /// Ends the epoch and appends moves, best first.
    ///
    /// The implementer must order them so that carrying out any prefix overfills no pool (each
    /// arrival on a full pool comes after the departure that makes room), and must propose nothing
    /// for a chunk that already is where it should be, nor where there is only one pool.
    fn propose(&mut self, now: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>);

    /// Reasons that `chunk` is where the last `propose` wanted it, a line a reason, the conclusion
    /// last; nothing when the placement gives no reasons or has never met the chunk.
    fn explain(&self, _chunk: ChunkId) -> Vec<String> {
        Vec::new()
    }

    /// Its account of what its moves have saved and cost so far; `None`: it keeps none.
    fn account(&self) -> Option<Account> {
        None
    }

    /// Time between two questions that it wants, where nobody says otherwise; `None`: it does not
    /// mind.
    fn epoch(&self) -> Option<Nanos> {
        None
    }

    /// All that it has learnt, in its own bytes, for [`Placement::learn_from`] after a restart;
    /// `None`: it learns nothing that is worth keeping.
    fn learnt(&self) -> Option<Vec<u8>> {
        None
    }

    /// Goes on from what the same placement had learnt, as far as it is of chunks that `exists`
    /// knows. Called before anything else.
    ///
    /// # Errors
    /// When the bytes are not its own. Nothing has changed then.
    fn learn_from(
        &mut self,
        _learnt: &[u8],
        _exists: &dyn Fn(ChunkId) -> bool,
    ) -> Result<(), Unreadable> {
        Err(Unreadable)
    }

    /// The pools that it sees are others from now on. Who keeps something by a pool's place brings
    /// it to the new one; the next view shows the new places.
    fn pools_changed(&mut self, _change: PoolChange) {}

    /// The one who divides requests between the sides of mirrored chunks, where the placement does
    /// that; else each goes where it waits least.
    fn router(&mut self) -> Option<&mut dyn Router> {
        None
    }

    /// Slots of the fastest pool that shall hold lines of 4 KiB of chunks on slower pools, since
    /// the last `propose`, instead of chunks; `None`: it does not divide pools. It must count them
    /// as taken when it plans moves: its own moves get none of them, but any new chunk does.
    fn lines(&self) -> Option<u64> {
        None
    }

    /// Reason for which it proposes nothing any more; `None`: it works. Only placements from
    /// outside fail, and whoever runs one ends the run then.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// Memory in use now.
    fn footprint(&self) -> Footprint;
}

#[cfg(test)]
pub(crate) mod tests;
