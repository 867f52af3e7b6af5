//! An operation on a chunk that has begun: what it copies, how far it is, and what the journal
//! shall say of the chunk once it has switched.

use crate::map::overlay::{Blocks, Goal};
use crate::map::place::{ChunkCopy, Place, Role};
use crate::map::presence::Presence;
use crate::map::{ChunkState, Table};
use crate::moves::operation::{Operation, OperationId, OperationKind, OperationStatus};
use crate::settings::BLOCK;
use std::ops::{Deref, DerefMut, Range};
use thermocline_policy::migration::Trial;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, Nanos, PoolId, Slab, VolumeId};

/// Copies of one piece that foreground writes may spoil before they wait for it.
const SPOILS_MAX: u32 = 3;

/// A piece on its way.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(in crate::moves) range: Range<u32>,
    pub(in crate::moves) to: Place,
    /// Place that it is read from; `None`: a client has read it.
    pub(in crate::moves) from: Option<Place>,
    /// True if a foreground write overlapped it meanwhile.
    pub(in crate::moves) spoiled: bool,
    /// Checksums of what was read, where they were not known; none: they were.
    pub(in crate::moves) sums: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Copying,
    Switching,
}

/// Pools that failed to give the piece that begins here.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::moves) struct FailedSources {
    start: u32,
    /// One bit for each pool.
    pools: u64,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct ActiveOperation {
    pub(in crate::moves) id: OperationId,
    pub(in crate::moves) what: Operation,
    /// True if the placement wanted it.
    pub(in crate::moves) proposed: bool,
    pub(in crate::moves) trial: Trial,
    /// Its goal, where the chunk is in two parts.
    pub(in crate::moves) goal: Option<Goal>,
    pub(in crate::moves) stage: Stage,
    /// Place that the chunk goes to; one of the sides of a chunk in two parts.
    pub(in crate::moves) destination: Place,
    /// The copy that a migration replaces, or the other side.
    pub(in crate::moves) source: Place,
    /// Blocks at the destination; a chunk in two parts keeps them in its overlay.
    pub(in crate::moves) presence: Presence,
    pub(in crate::moves) piece: Option<Piece>,
    pub(in crate::moves) cursor: u32,
    pub(in crate::moves) spoils: u32,
    pub(in crate::moves) failed_sources: FailedSources,
    pub(in crate::moves) cancelled: bool,
    /// The destination missed a write or died.
    pub(in crate::moves) failed: bool,
    /// Time since which the foreground holds it back.
    pub(in crate::moves) held_since: Option<Nanos>,
}

impl ActiveOperation {
    /// An operation from one place to another, on a chunk of one part and so many bytes, that
    /// somebody other than the placement wants and that has copied nothing.
    pub(in crate::moves) fn new(
        id: OperationId,
        what: Operation,
        (source, destination): (Place, Place),
        chunk_bytes: u32,
    ) -> ActiveOperation {
        ActiveOperation {
            id,
            what,
            proposed: false,
            trial: Trial::default(),
            goal: None,
            stage: Stage::Copying,
            destination,
            source,
            presence: Presence::none(chunk_bytes),
            piece: None,
            cursor: 0,
            spoils: 0,
            failed_sources: FailedSources::default(),
            cancelled: false,
            failed: false,
            held_since: None,
        }
    }

    /// True if it is a placement's move, of which the `share` percent that are tried first have
    /// arrived; 0: nothing is tried.
    pub(crate) fn has_its_trial_share(&self, share: u32) -> bool {
        let blocks = u64::from(self.presence.blocks());
        let moves = self.proposed && self.goal.is_none();
        share > 0
            && moves
            && self.what.kind == OperationKind::Migrate
            && self.presence.count() * 100 >= blocks * u64::from(share)
    }

    /// Pools that failed to give the piece that begins with `range`: one bit each.
    pub(in crate::moves) fn failed_sources(&self, range: &Range<u32>) -> u64 {
        if self.failed_sources.start == range.start { self.failed_sources.pools } else { 0 }
    }

    /// A pool failed to give the piece under way, which is asked of another one next: damage in
    /// one place says nothing about the rest of a copy.
    pub(in crate::moves) fn source_failed(&mut self, pool: PoolId) {
        let range = self.piece.as_ref().expect("it was asked for a piece").range.clone();
        let failed = self.failed_sources(&range);
        self.failed_sources = FailedSources { start: range.start, pools: failed | 1 << pool.0 };
        self.cursor = range.start;
        assert!(self.failed_sources(&range) >> pool.0 & 1 == 1, "it is not asked for it again");
    }

    pub(crate) fn is_copying(&self) -> bool {
        self.stage == Stage::Copying
    }

    /// True if a piece is on its way.
    pub(crate) fn has_piece(&self) -> bool {
        self.piece.is_some()
    }

    /// Goal, where the chunk is in two parts.
    pub(crate) fn goal(&self) -> Option<Goal> {
        self.goal
    }

    /// Progress, for those who look on.
    pub(crate) fn status(&self) -> OperationStatus {
        OperationStatus {
            id: self.id,
            operation: self.what,
            from: Some(self.source.pool),
            copied: Bytes(self.presence.count() * u64::from(BLOCK)),
        }
    }

    /// Lets it be given up at its next step.
    pub(crate) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// A client's read of the chunk has taken so long on a pool.
    pub(crate) fn note_read(&mut self, pool: PoolId, took: Nanos) {
        self.trial.note(pool == self.destination.pool, took);
    }

    /// A write to `range` of the chunk wants to begin; false: it waits until the piece that is on
    /// its way has arrived. A piece that the write overlaps is copied once more afterwards.
    pub(crate) fn lets_write(&mut self, range: &Range<u32>) -> bool {
        let Some(piece) = self.piece.as_mut() else { return true };
        let earlier = range.start < piece.range.start && mutant("earlier_write_spoils_no_piece");
        if piece.range.end <= range.start || range.end <= piece.range.start || earlier {
            return true;
        }
        if self.goal.is_some() || self.spoils >= SPOILS_MAX {
            return false;
        }
        piece.spoiled = true;
        // Blocks that are there already are not any more: the piece may write them after the write.
        let met = range.start.max(piece.range.start)..range.end.min(piece.range.end);
        met_if(self.presence.any_in(&met), "write met a piece over what was there");
        self.presence.unmark(&met);
        assert!(self.is_copying(), "a piece is under way while it is copied");
        true
    }

    /// Makes the state that of the chunk once all that is queued is durable.
    pub(crate) fn foretell(&self, state: &mut ChunkState) {
        if self.stage != Stage::Switching || self.failed {
            return;
        }
        state.table = Table::None;
        let role = match self.what.kind {
            OperationKind::Prefetch => Role::Prefetched,
            _ => Role::Wanted,
        };
        let copy = ChunkCopy { place: self.destination, role };
        match (self.goal, self.what.kind) {
            (Some(Goal::Both), _) => return,
            (None, OperationKind::Replicate | OperationKind::Prefetch) => state.copies.push(copy),
            _ => {
                let leaves = |place| place == self.source || place == self.destination;
                state.copies.retain(|other| !leaves(other.place));
                let alone = state.copies.is_empty();
                state.copies.insert(0, copy);
                if alone && self.leaves_whole_copy(state) {
                    // Until a later record drops it: the new pool may die under this one. Said to
                    // be prefetched, so that nobody makes it anew.
                    state.copies.push(ChunkCopy { place: self.source, role: Role::Prefetched });
                }
                state.overlay = None;
            }
        }
        let places = state.copies.iter().filter(|other| other.place == self.destination);
        assert_eq!(places.count(), 1, "the chunk is at its destination, once");
        assert!(state.overlay.is_none(), "the chunk has one part then");
        state.dirty |= state.copies.len() > 1 && !mutant("switch_says_copies_are_equal");
    }

    /// True if the place that the chunk leaves has all of it: in a chunk in two parts the side that
    /// stays may hold the only copy of some blocks, as it does after every write from now on.
    fn leaves_whole_copy(&self, state: &ChunkState) -> bool {
        let Some(stays) = self.goal.and_then(Goal::side) else {
            return !mutant("old_copy_forgotten_at_once");
        };
        let has_all = |blocks: &Blocks| blocks.is_whole_on(stays.other());
        state.overlay.as_ref().is_some_and(|(_, blocks)| has_all(blocks))
            && !mutant("old_side_forgotten_at_once")
    }
}

/// The operations of a group that have begun, by number.
#[derive(Debug, Default)]
pub(crate) struct ActiveOperations(Slab<ActiveOperation>);

impl ActiveOperations {
    /// True if an operation will come to its switch.
    pub(crate) fn is_copying(&self) -> bool {
        self.0.iter().any(|(_, copy)| copy.is_copying())
    }

    /// Numbers of the operations, the oldest first: where only one may use a pool at a time, none
    /// waits forever.
    pub(crate) fn oldest_first(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.0.iter().map(|(number, _)| number).collect();
        numbers.sort_unstable_by_key(|&number| self.0[number].id);
        numbers
    }

    /// True if an operation under way will leave a slot.
    pub(crate) fn will_free(&self) -> bool {
        self.0.iter().any(|(_, copy)| copy.stage == Stage::Switching)
    }

    /// True if an operation under way is cancelled.
    pub(crate) fn is_cancelled(&self, id: OperationId) -> bool {
        self.0.iter().any(|(_, copy)| copy.id == id && copy.cancelled)
    }

    /// Cancels everything on a volume; queued operations are found out when they begin.
    pub(crate) fn cancel_volume(&mut self, volume: VolumeId) {
        for (_, copy) in self.0.iter_mut() {
            copy.cancelled |= copy.what.chunk.volume == volume;
        }
    }

    /// Slots that prefetches are filling.
    pub(crate) fn prefetching(&self) -> impl Iterator<Item = Place> + '_ {
        let prefetch = |copy: &&ActiveOperation| copy.what.kind == OperationKind::Prefetch;
        self.0.iter().map(|(_, copy)| copy).filter(prefetch).map(|copy| copy.destination)
    }

    /// Slots that operations are filling; overlays stand in the map, and what was taken back in the
    /// record that says so.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = Place> + '_ {
        let unmapped = |copy: &&ActiveOperation| {
            let taken_back = copy.stage == Stage::Switching && copy.failed;
            copy.goal.is_none() && !taken_back
        };
        self.0.iter().map(|(_, copy)| copy).filter(unmapped).map(|copy| copy.destination)
    }
}

impl Deref for ActiveOperations {
    type Target = Slab<ActiveOperation>;

    fn deref(&self) -> &Slab<ActiveOperation> {
        &self.0
    }
}

impl DerefMut for ActiveOperations {
    fn deref_mut(&mut self) -> &mut Slab<ActiveOperation> {
        &mut self.0
    }
}

#[cfg(test)]
pub(crate) mod tests;
