//! How an operation ends: mirrored writes, the switch, taking it back, giving up.
//!
//! See [`crate::copying`] for the whole machine.

use crate::copying::Stage;
use crate::format::Record;
use crate::group::Group;
use crate::journal::Waiter;
use crate::map::Place;
use crate::operation::{Finished, OperationKind, Outcome};
use crate::overlay::Goal;
use std::ops::Range;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{ChunkId, Nanos};

impl Group {
    /// The destination, where a read may use it: all blocks of `range` are there.
    pub(crate) fn arriving_copy(&self, chunk: ChunkId, range: &Range<u32>) -> Option<Place> {
        let copy = &self.copier.operations[self.operation_on(chunk)?];
        let usable = copy.goal.is_none() && !copy.failed && !copy.cancelled;
        let arrived = match mutant("copy_read_before_it_is_whole") {
            true => copy.presence.any_in(range),
            false => copy.presence.all_in(range),
        };
        (usable && arrived).then_some(copy.destination)
    }

    /// Second place to which a write to `range` must go.
    pub(crate) fn mirror_of(&self, chunk: ChunkId, range: &Range<u32>) -> Option<Place> {
        let copy = &self.copier.operations[self.operation_on(chunk)?];
        let mirrors = copy.goal.is_none() && !copy.failed;
        let reaches = match mutant("write_misses_a_copy_in_part") {
            true => copy.presence.all_in(range),
            false => copy.presence.any_in(range),
        };
        (mirrors && reaches).then_some(copy.destination)
    }

    /// A write that was mirrored failed somewhere: original and destination may differ.
    pub(crate) fn mirror_disagrees(
        &mut self,
        chunk: ChunkId,
        range: &Range<u32>,
        failed: u64,
        safe: bool,
    ) {
        let Some(index) = self.operation_on(chunk) else { return };
        let copy = &mut self.copier.operations[index];
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
                    self.take_back(index);
                }
            }
        }
    }

    /// All blocks are at the destination: the record that says so is queued.
    pub(crate) fn switch(&mut self, now: Nanos, index: u32) {
        let copy = &mut self.copier.operations[index];
        assert_eq!(copy.stage, Stage::Copying, "an operation switches once");
        assert!(!copy.failed && !copy.cancelled, "what was given up does not switch");
        assert!(copy.piece.is_none(), "no piece is on its way");
        copy.stage = Stage::Switching;
        let chunk = copy.what.chunk;
        let state = self.durable_state(chunk);
        self.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        self.journal.join(Waiter::Switch(index));
        self.traffic_eased(now, chunk);
    }

    /// The record of the switch is queued, but the destination is wrong: a second one says so.
    pub(crate) fn take_back(&mut self, index: u32) {
        let copy = &mut self.copier.operations[index];
        assert_eq!(copy.stage, Stage::Switching, "only a switch is taken back");
        if std::mem::replace(&mut copy.failed, true) {
            return;
        }
        let (chunk, destination) = (copy.what.chunk, copy.destination);
        // A chunk in two parts keeps both: either may hold the only copy of some blocks.
        let stays = copy.goal.is_some();
        let left: &[Place] = if stays { &[] } else { &[destination] };
        let state = self.durable_state(chunk);
        self.journal.change(&Record::Chunk(chunk, state), chunk, left);
    }

    /// The record of the switch is durable.
    pub(crate) fn switch_durable(&mut self, now: Nanos, index: u32) {
        let copy = &self.copier.operations[index];
        assert_eq!(copy.stage, Stage::Switching, "a switch is durable once its record was queued");
        let (chunk, source, goal) = (copy.what.chunk, copy.source, copy.goal);
        let moved = goal.is_some() || copy.what.kind == OperationKind::Migrate;
        if copy.failed {
            return self.end_operation(now, index, Outcome::Failed);
        }
        if goal == Some(Goal::Both) {
            // The map has it all already. What the journal expects of writes is told elsewhere.
            self.break_seal(now, chunk);
            return self.end_operation(now, index, Outcome::Done);
        }
        let had_source = goal.is_some() || self.map.copies(chunk).any(|c| c.place == source);
        let mut state = self.durable_state(chunk);
        // Which of the records since has come to the journal is not known: one may name a side that
        // writes have left behind.
        let mirrored = self.map.mirror(chunk).is_some();
        let named = moved && (mirrored || state.copies.iter().any(|copy| copy.place == source));
        state.copies.retain(|copy| !(named && copy.place == source));
        state.dirty &= state.may_differ();
        assert!(goal.is_none() || self.copier.overlays > 0, "each overlay was counted");
        self.copier.overlays -= usize::from(goal.is_some());
        let dirty = state.dirty && state.copies.len() > 1;
        self.break_seal(now, chunk);
        self.map.set_state(chunk, &state);
        if dirty {
            self.housekeeping.dirty_chunks.push(chunk);
            self.touch_copies(now, chunk);
        }
        self.end_operation(now, index, Outcome::Done);
        if named {
            // The record of the switch has the old copy still: this one drops it.
            let state = self.durable_state(chunk);
            self.journal.change(&Record::Chunk(chunk, state), chunk, &[source]);
        } else if moved && had_source {
            self.leave(now, chunk, source);
        }
    }

    /// Gives up a copy that no durable map names.
    pub(crate) fn give_up(&mut self, now: Nanos, index: u32, outcome: Outcome) {
        let copy = &self.copier.operations[index];
        let (chunk, destination, kind) = (copy.what.chunk, copy.destination, copy.what.kind);
        if copy.goal.is_some() {
            // The journal may name the overlay, and it may hold the only copy of some blocks.
            return self.end_operation(now, index, outcome);
        }
        if kind == OperationKind::Prefetch {
            self.pools[destination.pool].uncount_prefetched();
        }
        self.end_operation(now, index, outcome);
        self.leave(now, chunk, destination);
    }

    pub(crate) fn end_operation(&mut self, now: Nanos, index: u32, outcome: Outcome) {
        let copy = self.copier.operations.remove(index);
        let chunk = copy.what.chunk;
        if copy.failed
            && copy.stage == Stage::Switching
            && copy.what.kind == OperationKind::Prefetch
        {
            self.pools[copy.destination.pool].uncount_prefetched();
        }
        let known = self.copier.chunks.remove(&chunk);
        assert_eq!(known, Some(copy.id), "a chunk has one operation, under its id");
        self.scrub.operation_ended(chunk);
        self.proposal.look_again();
        let (from, proposed) = (Some(copy.source.pool), copy.proposed);
        let finished = Finished { id: copy.id, operation: copy.what, outcome, from, proposed };
        self.finished_out.push(finished);
        let traffic = self.traffic_of(chunk);
        assert_eq!(self.traffic[traffic].operation, Some(index), "a chunk has one operation");
        self.traffic[traffic].operation = None;
        self.map.let_go(chunk.volume);
        self.traffic_eased(now, chunk);
    }
}
