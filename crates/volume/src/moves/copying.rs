//! A chunk is copied piece by piece while it is in use.
//!
//! See [`crate::moves`] for the whole machine.

use super::Moves;
use crate::below::Below;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::io::busy_chunk::bit;
use crate::io::sources::best_copy;
use crate::map::block_checksums::BlockChecksums;
use crate::map::overlay::Side;
use crate::map::place::Place;
use crate::map::sums::checksums;
use crate::moves::active::{ActiveOperation, Piece, Stage};
use crate::moves::operation::{OperationKind, Outcome};
use crate::pools::flight::{Flight, Owner};
use crate::settings::BLOCK;
use std::ops::Range;
use thermocline_policy::migration::{Held, Tried};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{ChunkId, PoolId};

impl Moves {
    /// Takes the next step of an operation that is not waiting for a device or the journal.
    pub(crate) fn advance(&mut self, below: &mut Below, index: u32) {
        let copy = &below.group.operations[index];
        if copy.piece.is_some() || copy.stage == Stage::Switching {
            return;
        }
        if copy.cancelled || copy.failed {
            let outcome = if copy.failed { Outcome::Failed } else { Outcome::Cancelled };
            return self.give_up(below, index, outcome);
        }
        if is_complete(below.group, index) {
            return self.switch(below, index);
        }
        let chunk = copy.what.chunk;
        if !self.passes_trial(below, index) {
            return;
        }
        if !below.has_table_at_hand(chunk) {
            return; // Its arrival leads back here.
        }
        let Some((range, to)) = next_piece(below.group, index) else { return };
        let copy = &below.group.operations[index];
        if below.group.settings.copying.locking && has_parts_under_way(below.group, index) {
            return;
        }
        let (chunk, failed) = (copy.what.chunk, copy.failed_sources(&range));
        let parting = parting_source(below.group, below.checksums, index, &range);
        let source = parting.or_else(|| best_source(below.group, chunk, &range, to, failed));
        let Some(source) = source else {
            below.group.operations[index].failed = true;
            return self.advance(below, index);
        };
        let (pools, held) = ([source.pool, to.pool], copy.held_since);
        let held = below.copy_throttle.hold_back(
            below.group,
            below.now,
            &pools,
            range.end - range.start,
            held,
        );
        below.group.operations[index].held_since = held.since();
        if held != Held::Free {
            return;
        }
        let offset = below.group.pools[source.pool].address(
            source,
            range.start,
            below.group.pools.chunk_bytes(),
        );
        let io = Io::Read { offset, length: range.end - range.start };
        assert_ne!(source, to, "a piece goes to another slot");
        assert!(
            !below.group.writes_under_way(chunk, &range) || mutant("piece_copied_under_a_write")
        );
        let copy = &mut below.group.operations[index];
        copy.cursor = range.end;
        let from = Some(source);
        copy.piece = Some(Piece { range, to, from, spoiled: false, sums: Vec::new() });
        below.group.pools.send(below.now, source.pool, Owner::Copy { operation: index }, io, false);
    }

    /// True if a move may copy on: its trial is over, or has not come. One that is lost is given
    /// up.
    pub(super) fn passes_trial(&mut self, below: &mut Below, index: u32) -> bool {
        let share = below.group.settings.tactics.trial.tactic().share();
        let copy = &mut below.group.operations[index];
        let order = below.group.pools.ranks().compare_speed(copy.what.to, copy.source.pool);
        let tried = order.is_lt() && copy.has_its_trial_share(share);
        match copy.trial.ask(below.now, tried, &below.group.settings.tactics.trial) {
            Tried::GoesOn => true,
            Tried::Waits(until) => {
                below.copy_throttle.wake_at(until);
                false
            }
            Tried::Lost => {
                assert!(copy.proposed, "only what a placement wanted is tried");
                copy.cancelled = true;
                self.trials_lost += 1;
                self.advance(below, index);
                false
            }
        }
    }

    /// A device answered for an operation.
    pub(crate) fn copy_io_done(
        &mut self,
        below: &mut Below,
        index: u32,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        let copy = &mut below.group.operations[index];
        assert_eq!(copy.stage, Stage::Copying, "who switches has every piece");
        let piece = copy.piece.as_ref().expect("an operation waits for one piece at a time");
        assert_eq!(flight.pool == piece.to.pool, flight.writes, "read elsewhere, written there");
        match result {
            Ok(payload) if !flight.writes => self.piece_read(below, index, flight.pool, payload),
            Ok(_) => {
                self.piece_arrived(below, index);
                self.piece_over(below, index);
            }
            Err(_) => {
                if flight.writes {
                    copy.failed = true;
                } else {
                    copy.source_failed(flight.pool);
                }
                self.piece_over(below, index);
            }
        }
    }

    /// The contents of the piece under way have come from `pool`: writes them to the destination.
    pub(super) fn piece_read(
        &mut self,
        below: &mut Below,
        index: u32,
        pool: PoolId,
        payload: Payload,
    ) {
        let piece = below.group.operations[index].piece.as_ref().expect("its contents have come");
        let (to, start, from) = (piece.to, piece.range.start, piece.from);
        assert_eq!(payload.len(), piece.range.end - start, "all of the piece was read");
        if from.is_some_and(|from| !is_there(below.group, index, from)) {
            // Its slot may have been discarded, or given to another chunk, before it was read.
            met("copy that a piece was read from has gone");
            below.group.operations[index].cursor = start;
            return self.piece_over(below, index);
        }
        if !self.piece_is_right(below, index, pool, &payload) {
            return self.piece_over(below, index);
        }
        let failed = below.group.operations[index].failed;
        if failed || !below.group.pools[to.pool].is_alive() {
            below.group.operations[index].failed = true;
            return self.piece_over(below, index);
        }
        let pool = &below.group.pools[to.pool];
        let offset = pool.address(to, start, below.group.pools.chunk_bytes());
        let io = Io::Write { offset, data: payload, fua: false };
        below.group.pools.send(below.now, to.pool, Owner::Copy { operation: index }, io, false);
    }

    /// True if a piece that was read is what was written, as far as that is known; hashes it where
    /// it is not.
    fn piece_is_right(
        &mut self,
        below: &mut Below,
        index: u32,
        pool: PoolId,
        payload: &Payload,
    ) -> bool {
        let copy = &mut below.group.operations[index];
        let piece = copy.piece.as_mut().expect("it was read");
        let (chunk, range) = (copy.what.chunk, piece.range.clone());
        if piece.spoiled || !below.group.pools.keep_checksums() {
            return true;
        }
        let known = below.checksums.sums(chunk).is_some_and(|sums| sums.of(&range).is_some());
        // What one of several copies has need not be what was written: they are compared first.
        let alone = below.group.map.copies(chunk).count() == 1;
        if !known && alone {
            let copy = &mut below.group.operations[index];
            let piece = copy.piece.as_mut().expect("it was read");
            piece.sums = checksums(payload);
            let most = below.group.settings.limits.tables_cached;
            below.checksums.is_copied(
                chunk,
                below.group.pools.chunk_bytes(),
                most,
                &below.group.map,
            );
        }
        assert_eq!(range.start % BLOCK, 0, "pieces are of whole blocks");
        let wrong = below.checksums.wrong_blocks(chunk, range.start, payload, u64::MAX);
        if wrong == 0 || mutant("operation_carries_rot") {
            return true;
        }
        below.group.operations[index].source_failed(pool);
        below.group.pools[pool].counters.checksum_errors += u64::from(wrong);
        below.group.emit(Effect::Mend { chunk, blocks: wrong });
        false
    }

    fn piece_arrived(&mut self, below: &mut Below, index: u32) {
        let copy = &mut below.group.operations[index];
        let piece = copy.piece.as_ref().expect("it arrived");
        if piece.spoiled && !mutant("spoiled_piece_kept") {
            copy.spoils += 1;
            copy.cursor = piece.range.start;
            return;
        }
        copy.spoils = 0;
        let (chunk, range) = (copy.what.chunk, piece.range.clone());
        if !piece.sums.is_empty() {
            below.checksums.copied(chunk, range.start, &piece.sums, below.group.sub_requests_begun);
        }
        if copy.goal.is_some() {
            below.group.map.blocks_copied(chunk, &range);
        } else {
            assert!(!copy.presence.all_in(&range), "something of what was brought was missing");
            copy.presence.mark(&range);
        }
    }

    fn piece_over(&mut self, below: &mut Below, index: u32) {
        let copy = &mut below.group.operations[index];
        assert!(copy.piece.is_some(), "a piece is over once");
        copy.piece = None;
        let chunk = copy.what.chunk;
        self.advance(below, index);
        below.group.emit(Effect::Eased(chunk));
    }
}

/// True if every block is where it shall be, and no write is on its way to a side that goes.
fn is_complete(group: &GroupState, index: u32) -> bool {
    let copy = &group.operations[index];
    let Some(goal) = copy.goal else { return copy.presence.is_full() };
    let overlay = group.map.overlay(copy.what.chunk).expect("it has a goal");
    let leaves = |sub_request: &u32| {
        goal.side().is_some() && group.sub_requests[*sub_request].was_sent_to(copy.source)
    };
    let busy = group.busy_chunk(copy.what.chunk).expect("the operation is on it");
    overlay.blocks.is_at(goal) && !busy.running().iter().any(leaves)
}

/// The copy that a move replaces, where nothing says what it must be and others stay: should
/// they differ, the move must not hide it. What is missing of it comes from the others.
fn parting_source(
    group: &GroupState,
    checksums: &BlockChecksums,
    index: u32,
    range: &Range<u32>,
) -> Option<Place> {
    let copy = &group.operations[index];
    let (chunk, source) = (copy.what.chunk, copy.source);
    let moves = copy.what.kind == OperationKind::Migrate && copy.goal.is_none();
    let able =
        group.pools[source.pool].is_alive() && copy.failed_sources(range) & bit(source.pool) == 0;
    if !moves || !able || !group.pools.keep_checksums() || checksums.can_verify(chunk, range) {
        return None;
    }
    let places = || group.map.copies(chunk).map(|copy| copy.place);
    (places().count() > 1 && places().any(|place| place == source)).then_some(source)
}

/// True if an operation's chunk still has a copy, or a part, in a place.
fn is_there(group: &GroupState, index: u32, place: Place) -> bool {
    let chunk = group.operations[index].what.chunk;
    let copies = group.map.copies(chunk).map(|copy| copy.place);
    let above = group.map.overlay(chunk).map(|overlay| overlay.place);
    copies.chain(above).any(|known| known == place)
}

/// A place to read a piece from; never the one that is being filled.
fn best_source(
    group: &GroupState,
    chunk: ChunkId,
    range: &Range<u32>,
    to: Place,
    failed: u64,
) -> Option<Place> {
    let failed = failed | 1 << to.pool.0;
    if group.goal_on(chunk).is_none() {
        return best_copy(group, chunk, range, |place| failed >> place.pool.0 & 1 == 1);
    }
    let mut sides =
        [Side::Base, Side::Above].map(|side| group.map.place_on(chunk, side)).into_iter();
    sides.find(|place| failed >> place.pool.0 & 1 == 0 && group.pools[place.pool].is_alive())
}

fn has_parts_under_way(group: &GroupState, index: u32) -> bool {
    let busy = group.busy_chunk(group.operations[index].what.chunk);
    !busy.expect("the operation is on it").running().is_empty()
}

/// The next run of missing blocks that no write under way overlaps, and where it is missing.
fn next_piece(group: &GroupState, index: u32) -> Option<(Range<u32>, Place)> {
    let copy = &group.operations[index];
    let pools = [copy.source.pool, copy.destination.pool];
    let length_max = group.pools.piece_among(&group.settings.copying, &pools);
    let free = |range: &Range<u32>| {
        !group.writes_under_way(copy.what.chunk, range) || mutant("piece_copied_under_a_write")
    };
    let mut from = copy.cursor;
    let mut wrapped = false;
    loop {
        match missing_run(group, copy, from, length_max) {
            Some((range, to)) if free(&range) => return Some((range, to)),
            Some((range, to)) => {
                // Writes to blocks between those that are missing must not keep these waiting.
                let first = first_missing(copy, range);
                if free(&first) {
                    return Some((first, to));
                }
                from = first.end;
            }
            None if !wrapped => (from, wrapped) = (0, true),
            None => return None,
        }
        if wrapped && from >= copy.cursor.max(1) {
            return None;
        }
    }
}

/// The part of a span before the first block that is there already.
fn first_missing(copy: &ActiveOperation, span: Range<u32>) -> Range<u32> {
    if copy.goal.is_some() {
        return span;
    }
    let first = copy.presence.absent_run(span.start, span.end - span.start);
    first.unwrap_or(span)
}

fn missing_run(
    group: &GroupState,
    copy: &ActiveOperation,
    from: u32,
    length_max: u32,
) -> Option<(Range<u32>, Place)> {
    let Some(goal) = copy.goal else {
        // Where clients bring blocks of their own, what is missing lies scattered: one long piece
        // over all of it costs a disk less than many short ones.
        let range = match group.settings.copying.feeds {
            true => copy.presence.absent_span(from, length_max)?,
            false => copy.presence.absent_run(from, length_max)?,
        };
        return Some((range, copy.destination));
    };
    let overlay = group.map.overlay(copy.what.chunk).expect("it has a goal");
    let (range, side) = overlay.blocks.run_towards(goal, from, length_max)?;
    Some((range, group.map.place_on(copy.what.chunk, side)))
}

#[cfg(test)]
mod tests;
