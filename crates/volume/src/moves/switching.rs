//! End of an operation: mirrored writes, the switch, taking it back, giving up.
//!
//! See [`crate::moves`] for the whole machine.

use super::Moves;
use crate::below::Below;
use crate::format::Record;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::journal::commit::Waiter;
use crate::map::overlay::Goal;
use crate::map::place::{ChunkCopy, Place, Role};
use crate::moves::active::Stage;
use crate::moves::kept::may_stay;
use crate::moves::operation::{Finished, OperationKind, Outcome};
use std::ops::Range;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

impl Moves {
    /// All blocks are at the destination: the record that says so is queued.
    pub(crate) fn switch(&mut self, below: &mut Below, index: u32) {
        let copy = &mut below.group.operations[index];
        assert_eq!(copy.stage, Stage::Copying, "an operation switches once");
        assert!(!copy.failed && !copy.cancelled, "what was given up does not switch");
        assert!(copy.piece.is_none(), "no piece is on its way");
        copy.stage = Stage::Switching;
        let chunk = copy.what.chunk;
        let state = below.group.durable_state(chunk);
        below.group.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        below.group.journal.join(Waiter::Switch(index));
        below.group.emit(Effect::Eased(chunk));
    }

    /// The record of the switch is durable.
    pub(crate) fn switch_durable(&mut self, below: &mut Below, index: u32) {
        let copy = &below.group.operations[index];
        assert_eq!(copy.stage, Stage::Switching, "a switch is durable once its record was queued");
        let (chunk, source, goal) = (copy.what.chunk, copy.source, copy.goal);
        let destination = copy.destination;
        let moved = goal.is_some() || copy.what.kind == OperationKind::Migrate;
        if copy.failed {
            return self.end_operation(below, index, Outcome::Failed);
        }
        if goal == Some(Goal::Both) {
            // The map has it all already. What the journal expects of writes is told elsewhere.
            below.checksums.void_checksums(below.group, below.now, chunk);
            return self.end_operation(below, index, Outcome::Done);
        }
        let had_source = goal.is_some() || below.group.map.copies(chunk).any(|c| c.place == source);
        let mut state = below.group.durable_state(chunk);
        // Which of the records since has come to the journal is not known: one may name a side that
        // writes have left behind.
        let mirrored = below.group.map.mirror(chunk).is_some();
        let named = moved && (mirrored || state.copies.iter().any(|copy| copy.place == source));
        let kept = named && !mirrored && state.copies.len() == 2 && may_stay(below.group, copy);
        state.copies.retain(|copy| kept || !(named && copy.place == source));
        state.dirty &= state.may_differ();
        for other in state.copies.iter_mut().filter(|other| kept && other.place == source) {
            other.role = Role::Kept;
        }
        assert!(!kept || state.dirty, "the first write to a chunk drops the copy that it leaves");
        let dirty = state.dirty && state.copies.len() > 1 && !kept;
        below.checksums.void_checksums(below.group, below.now, chunk);
        below.group.map.set_state(chunk, &state);
        let arrived = |copy: ChunkCopy| copy.place == destination;
        assert!(below.group.map.copies(chunk).any(arrived), "the chunk is where it was brought");
        if dirty {
            below.group.map.follow_differing(chunk);
            below.group.map.touch_copies(below.now, chunk);
        }
        self.end_operation(below, index, Outcome::Done);
        if kept {
            met("move kept the slow copy");
            if !mutant("kept_copy_not_counted") {
                below.group.pools[source.pool].count_copy(Role::Kept);
            }
            below.group.emit(Effect::Kept(chunk, source.pool));
        } else if named {
            below.group.emit(Effect::Parted(chunk, source));
        } else if moved && had_source {
            below.group.emit(Effect::Left(chunk, source));
        }
    }

    /// Gives up a copy that no durable map names.
    pub(crate) fn give_up(&mut self, below: &mut Below, index: u32, outcome: Outcome) {
        let copy = &below.group.operations[index];
        let (chunk, destination, kind) = (copy.what.chunk, copy.destination, copy.what.kind);
        assert_eq!(copy.stage, Stage::Copying, "the record of a switch names its destination");
        assert!(copy.failed || copy.cancelled, "what nobody gave up goes on");
        if copy.goal.is_some() {
            // The journal may name the overlay, and it may hold the only copy of some blocks.
            return self.end_operation(below, index, outcome);
        }
        if kind == OperationKind::Prefetch {
            below.group.pools[destination.pool].uncount_copy(Role::Prefetched);
        }
        self.end_operation(below, index, outcome);
        below.group.emit(Effect::Left(chunk, destination));
    }

    pub(crate) fn end_operation(&mut self, below: &mut Below, index: u32, outcome: Outcome) {
        let copy = below.group.operations.remove(index);
        let chunk = copy.what.chunk;
        if copy.failed
            && copy.stage == Stage::Switching
            && copy.what.kind == OperationKind::Prefetch
        {
            below.group.pools[copy.destination.pool].uncount_copy(Role::Prefetched);
        }
        let known = self.chunks.remove(&chunk);
        assert_eq!(known, Some(copy.id), "a chunk has one operation, under its id");
        below.group.emit(Effect::Ended(chunk));
        self.proposal.look_again();
        let (from, proposed) = (Some(copy.source.pool), copy.proposed);
        let finished = Finished { id: copy.id, operation: copy.what, outcome, from, proposed };
        self.finished.push(finished);
        let busy = below.group.busy_chunk_of(chunk);
        assert_eq!(busy.operation(), Some(index), "a chunk has one operation");
        busy.set_operation(None);
        below.group.map.let_go(chunk.volume);
        below.group.emit(Effect::Eased(chunk));
    }
}

/// The destination, where a read may use it: all blocks of `range` are there.
pub(crate) fn arriving_copy(
    group: &GroupState,
    chunk: ChunkId,
    range: &Range<u32>,
) -> Option<Place> {
    let copy = &group.operations[group.operation_on(chunk)?];
    let usable = copy.goal.is_none() && !copy.failed && !copy.cancelled;
    let arrived = match mutant("copy_read_before_it_is_whole") {
        true => copy.presence.any_in(range),
        false => copy.presence.all_in(range),
    };
    (usable && arrived).then_some(copy.destination)
}

/// Second place to which a write to `range` must go.
pub(crate) fn mirror_of(group: &GroupState, chunk: ChunkId, range: &Range<u32>) -> Option<Place> {
    let copy = &group.operations[group.operation_on(chunk)?];
    let mirrors = copy.goal.is_none() && !copy.failed;
    let reaches = match mutant("write_misses_a_copy_in_part") {
        true => copy.presence.all_in(range),
        false => copy.presence.any_in(range),
    };
    (mirrors && reaches).then_some(copy.destination)
}

/// A write that was mirrored failed somewhere: original and destination may differ.
pub(crate) fn mirror_disagrees(
    group: &mut GroupState,
    chunk: ChunkId,
    range: &Range<u32>,
    failed: u64,
    safe: bool,
) {
    assert_ne!(failed, 0, "what no pool failed is the same everywhere");
    let Some(index) = group.operation_on(chunk) else { return };
    let copy = &mut group.operations[index];
    let missed = failed >> copy.destination.pool.0 & 1 == 1;
    if copy.goal.is_some() || safe && !missed {
        return;
    }
    match copy.stage {
        Stage::Copying if missed => copy.failed = true,
        Stage::Copying => copy.presence.unmark(range),
        Stage::Switching => {
            met("copies disagreed while switching");
            if !mutant("switch_not_taken_back") {
                take_back(group, index);
            }
        }
    }
}

/// The record of the switch is queued, but the destination is wrong: a second one says so.
pub(crate) fn take_back(group: &mut GroupState, index: u32) {
    let copy = &mut group.operations[index];
    assert_eq!(copy.stage, Stage::Switching, "only a switch is taken back");
    if std::mem::replace(&mut copy.failed, true) {
        return;
    }
    let (chunk, destination) = (copy.what.chunk, copy.destination);
    // A chunk in two parts keeps both: either may hold the only copy of some blocks.
    let stays = copy.goal.is_some();
    let left: &[Place] = if stays { &[] } else { &[destination] };
    let state = group.durable_state(chunk);
    let named = state.copies.iter().any(|copy| copy.place == destination);
    assert!(stays || !named, "the second record names the destination no more");
    group.journal.change(&Record::Chunk(chunk, state), chunk, left);
}

#[cfg(test)]
mod tests;
