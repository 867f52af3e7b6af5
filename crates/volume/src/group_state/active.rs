//! An operation on a chunk that has begun: what it copies, how far it is, and what the journal
//! shall say of the chunk once it has switched.

use crate::map::overlay::{Blocks, Goal};
use crate::map::presence::Presence;
use crate::map::{ChunkCopy, ChunkState, Place, Role, Table};
use crate::moves::operation::{Operation, OperationId, OperationKind};
use std::ops::{Deref, DerefMut, Range};
use thermocline_policy::migration::Trial;
use thermocline_units::mutants::mutant;
use thermocline_units::{Nanos, Slab, VolumeId};

/// A piece on its way.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u32>,
    pub(crate) to: Place,
    /// True if a foreground write overlapped it meanwhile.
    pub(crate) spoiled: bool,
    /// Checksums of what was read, where they were not known; none: they were.
    pub(crate) sums: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Copying,
    Switching,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct ActiveOperation {
    pub(crate) id: OperationId,
    pub(crate) what: Operation,
    /// True if the placement wanted it.
    pub(crate) proposed: bool,
    pub(crate) trial: Trial,
    /// Its goal, where the chunk is in two parts.
    pub(crate) goal: Option<Goal>,
    pub(crate) stage: Stage,
    /// Place that the chunk goes to; one of the sides of a chunk in two parts.
    pub(crate) destination: Place,
    /// The copy that a migration replaces, or the other side.
    pub(crate) source: Place,
    /// Blocks at the destination; a chunk in two parts keeps them in its overlay.
    pub(crate) presence: Presence,
    pub(crate) piece: Option<Piece>,
    pub(crate) cursor: u32,
    pub(crate) spoils: u32,
    /// Pools that failed to give the piece: one bit each.
    pub(crate) failed_sources: u64,
    pub(crate) cancelled: bool,
    /// The destination missed a write or died.
    pub(crate) failed: bool,
    /// Since when the foreground holds it back.
    pub(crate) held_since: Option<Nanos>,
}

impl ActiveOperation {
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

    pub(crate) fn is_copying(&self) -> bool {
        self.stage == Stage::Copying
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
