//! Chunks in two parts at work: which side a part reads and writes, and what becomes of one that a
//! device fails.
//!
//! Where both sides hold a block, a part goes to one of them: the one that an operation strives
//! for, else the one that routing names ([`crate::routing`]). Two parts in the same block wait for
//! each other at the hazard check, so that no block is written on both sides at once.

use crate::group::Group;
use crate::map::Place;
use crate::overlay::{Goal, Holder, Side};
use crate::presence::{around_blocks, whole_blocks};
use crate::request::RequestError;
use std::ops::Range;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos, PoolId};

impl Group {
    fn is_alive_on(&self, chunk: ChunkId, side: Side) -> bool {
        self.core.pools[self.core.map.place_on(chunk, side).pool].is_alive()
    }

    /// The side for a part where both would do; `None` where blocks stay where they are, as they
    /// do in a redirected chunk that nobody brings together.
    fn side_for(&mut self, chunk: ChunkId, write: bool) -> Option<Side> {
        let towards = self.core.goal_on(chunk).filter(|_| write).and_then(Goal::side);
        let towards = towards.filter(|&side| self.is_alive_on(chunk, side));
        if towards.is_some() || !self.core.map.overlay_of(chunk).blocks.is_mirror() {
            return towards;
        }
        match [Side::Base, Side::Above].map(|side| self.is_alive_on(chunk, side)) {
            [true, false] => Some(Side::Base),
            [false, true] => Some(Side::Above),
            _ => {
                let pools =
                    [Side::Base, Side::Above].map(|side| self.core.map.place_on(chunk, side).pool);
                Some(self.routing.choose(&self.core.pools, self.core.now, pools, write))
            }
        }
    }

    /// Reads `range` of a chunk in two parts, each run on a side that has it.
    pub(crate) fn read_sides(&mut self, now: Nanos, part: u32, range: &Range<u32>) {
        let chunk = self.core.parts[part].chunk;
        for (run, side) in self.sources_of(chunk, range) {
            let place = self.core.map.place_on(chunk, side);
            if self.core.pools[place.pool].is_alive() {
                self.part_read(now, part, place, run);
            } else {
                self.core.parts[part].error = Some(RequestError::Io);
            }
        }
    }

    /// From where to read each run of a chunk in two parts.
    fn sources_of(&mut self, chunk: ChunkId, range: &Range<u32>) -> Vec<(Range<u32>, Side)> {
        let runs = self.core.map.overlay_of(chunk).blocks.runs(range);
        let shared = runs.iter().any(|(_, holder)| *holder == Holder::Both);
        let choice = if shared { self.side_for(chunk, false) } else { None };
        let mut sources = Vec::with_capacity(runs.len());
        for (run, holder) in runs {
            push_run(&mut sources, run, holder.or(choice));
        }
        sources
    }

    /// Side for each run of a write to a chunk in two parts.
    pub(crate) fn targets_of(&mut self, part: u32) -> Vec<(Range<u32>, Side)> {
        let (chunk, range) = (self.core.parts[part].chunk, self.core.parts[part].range.clone());
        let choice = self.side_for(chunk, true);
        let mut targets = Vec::new();
        for (run, holder) in self.core.map.overlay_of(chunk).blocks.runs(&range) {
            let side = holder.or(choice);
            match choice.filter(|&choice| choice != side) {
                // Whole blocks may change sides; what is left of others is where they are.
                Some(choice) => {
                    let inner = whole_blocks(&run);
                    push_run(&mut targets, run.start..inner.start.min(run.end), side);
                    push_run(&mut targets, inner.clone(), choice);
                    push_run(&mut targets, inner.end.max(run.start)..run.end, side);
                }
                None => push_run(&mut targets, run, side),
            }
        }
        targets
    }

    /// Side to which a run that a side's device failed may go instead, if there is one.
    fn other_side(&self, part: u32, run: &Range<u32>, pool: PoolId) -> Option<Side> {
        let chunk = self.core.parts[part].chunk;
        let overlay = self.core.map.mirror(chunk)?;
        let other = self.side_at(chunk, pool)?.other();
        let able = match self.core.parts[part].is_write() {
            true => {
                let parting = self.is_parting(chunk) && !mutant("write_sent_to_a_parting_side");
                overlay.blocks.takes(other, run) && !parting
            }
            false => !overlay.blocks.any_only_on(other.other(), run),
        };
        let place = self.core.map.place_on(chunk, other);
        let untried = !self.core.parts[part].avoided.contains(&place);
        (able && untried && self.core.pools[place.pool].is_alive()).then_some(other)
    }

    /// The side that a pool is; `None` where the chunk has left that pool.
    fn side_at(&self, chunk: ChunkId, pool: PoolId) -> Option<Side> {
        let sides = [Side::Base, Side::Above];
        sides.into_iter().find(|&side| self.core.map.place_on(chunk, side).pool == pool)
    }

    /// True if a record is on its way to the journal that one of the sides is gone.
    fn is_parting(&self, chunk: ChunkId) -> bool {
        self.core.operation_on(chunk).is_some_and(|operation| {
            let copy = &self.core.operations[operation];
            !copy.is_copying() && copy.goal.and_then(Goal::side).is_some()
        })
    }

    /// Relies no longer on what `pool` has of a run: where the other side has it as well, that one
    /// counts. When one side is about to go, the one that stays counts whatever it holds: what was
    /// read on the other could not be read again.
    fn distrust(&mut self, chunk: ChunkId, run: &Range<u32>, pool: PoolId) {
        let staying = self.core.goal_on(chunk).and_then(Goal::side);
        let parting = staying.filter(|_| self.is_parting(chunk));
        met_if(parting.is_some(), "side of a mirror failed while the other was about to go");
        let Some(other) = parting.or(self.side_at(chunk, pool).map(Side::other)) else { return };
        let both = parting.is_some() && mutant("both_sides_count_while_one_goes");
        if both || !self.is_alive_on(chunk, other) {
            return;
        }
        let runs = self.core.map.overlay_of(chunk).blocks.runs(run);
        let shared = runs.into_iter().filter(|(_, holder)| *holder == Holder::Both);
        let place = self.core.map.place_on(chunk, other);
        let shared: Vec<(Range<u32>, Place)> = shared.map(|(run, _)| (run, place)).collect();
        let announced = self.core.map.extra(chunk).is_some_and(|extra| extra.dirty);
        // The journal calls these blocks equal on both sides until it hears otherwise.
        if self.core.blocks_written(chunk, &shared) && !mutant("distrusted_block_written_at_once") {
            self.core.await_drop(chunk, announced);
        }
    }

    /// The run of a write that begins at byte `at` failed: sends it to the other side of a mirrored
    /// chunk where that may be; whether it did.
    pub(crate) fn write_elsewhere(&mut self, part: u32, at: u32, pool: PoolId) -> bool {
        let chunk = self.core.parts[part].chunk;
        let sent = self.core.parts[part].sent.iter().position(|(run, _)| run.start == at);
        let (Some(sent), Some(_)) = (sent, self.core.map.overlay(chunk)) else { return false };
        let (run, place) = self.core.parts[part].sent.remove(sent);
        let other = self.other_side(part, &run, pool);
        met_if(other.is_none(), "both sides of a mirror failed a write");
        if !mutant("failed_side_trusted") {
            self.distrust(chunk, &run, pool);
        }
        self.core.parts[part].avoided.push(place);
        let Some(side) = other else { return false };
        let place = self.core.map.place_on(chunk, side);
        self.core.parts[part].sent.push((run.clone(), place));
        self.part_write(self.core.now, part, place, run);
        true
    }

    /// A run of a chunk in two parts could not be read: reads it on the other side of a mirrored
    /// chunk where that has it, and where the chunk is now if it has left the pool since.
    pub(crate) fn read_elsewhere(&mut self, part: u32, run: Range<u32>, from: Place) {
        let (chunk, pool) = (self.core.parts[part].chunk, from.pool);
        let sides = [Side::Base, Side::Above].map(|side| self.core.map.place_on(chunk, side));
        let back = !sides.contains(&from) && sides.iter().any(|place| place.pool == pool);
        met_if(back, "read failed on a pool that the chunk left and came back to");
        let left = match back {
            true => !mutant("read_fails_where_the_chunk_came_back"),
            false => !sides.contains(&from) && !mutant("read_fails_where_the_chunk_was"),
        };
        if left {
            return self.read_sides(self.core.now, part, &run);
        }
        let other = self.other_side(part, &run, pool);
        self.core.parts[part].avoided.push(from);
        let Some(side) = other else {
            self.core.parts[part].error = Some(RequestError::Io);
            return;
        };
        let under_way = self.core.writes_under_way(chunk, &around_blocks(&run));
        met_if(under_way, "read failed on a side of a mirror under a write");
        if !under_way || mutant("failed_read_distrusts_under_a_write") {
            self.distrust(chunk, &run, pool);
        }
        self.part_read(self.core.now, part, self.core.map.place_on(chunk, side), run);
    }
}

/// Appends a run, or lengthens the last one that goes to the same side.
fn push_run(runs: &mut Vec<(Range<u32>, Side)>, run: Range<u32>, side: Side) {
    match runs.last_mut() {
        Some((last, same)) if *same == side && last.end == run.start => last.end = run.end,
        _ if run.is_empty() => {}
        _ => runs.push((run, side)),
    }
}
