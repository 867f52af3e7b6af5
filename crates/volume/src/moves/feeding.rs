//! Clients' own requests bring blocks of a chunk to where an operation copies it.
//!
//! 1. A client has read blocks from the copy that an operation copies. If they are missing at the
//!    destination, they are written there from the buffer in hand, as a piece that needs no read.
//!    So an operation gets on although its source is so busy that every piece yields to clients.
//! 2. A client writes whole blocks that are missing at the destination: they go to both places, and
//!    need not be copied any more.
//!
//! A read that may have met a write to its chunk is not used: it may have old contents. A chunk in
//! two parts is not fed, nor one with several copies of which the read may be another.

use super::Moves;
use crate::below::Below;
use crate::group_state::GroupState;
use crate::group_state::effect::ClientRead;
use crate::group_state::effect::Effect;
use crate::map::place::Place;
use crate::map::presence::{around_blocks, whole_blocks};
use crate::moves::active::{ActiveOperation, Piece, Stage};
use std::ops::Range;
use thermocline_ports::Payload;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// Leaves what a client has read to the operation on its chunk, if there is one that may use it.
pub(crate) fn offer(
    group: &mut GroupState,
    sub_request: u32,
    from: Place,
    at: u32,
    read: &Payload,
) {
    if !group.settings.copying.feeds {
        return;
    }
    let (chunk, order) = {
        let state = &group.sub_requests[sub_request];
        assert!(state.order() > 0, "what was read has begun");
        (state.chunk(), state.order())
    };
    let Some(index) = group.operation_on(chunk) else { return };
    let copy = &group.operations[index];
    if takes_blocks(copy) && !copy.has_piece() && copy.source == from {
        let payload = read.clone();
        group.emit(Effect::Read(ClientRead { chunk, from, at, order, payload }));
    }
}

/// True if blocks may come to the operation's destination from elsewhere than its own pieces.
fn takes_blocks(copy: &ActiveOperation) -> bool {
    copy.stage == Stage::Copying && copy.goal.is_none() && !copy.failed && !copy.cancelled
}

/// Writes blocks that a client has read to the operation's destination, where they are missing.
pub(crate) fn feed(moves: &mut Moves, below: &mut Below, read: &ClientRead) {
    let Some(index) = below.group.operation_on(read.chunk) else { return };
    let Some(range) = usable(below.group, index, read) else { return };
    if !moves.passes_trial(below, index) || !below.has_table_at_hand(read.chunk) {
        return;
    }
    let to = below.group.operations[index].destination;
    let bytes = range.end - range.start;
    if !below.copy_throttle.takes_now(below.group, below.now, to.pool, bytes) {
        return;
    }
    met("operation fed by a read");
    let copy = &mut below.group.operations[index];
    assert!(!copy.has_piece(), "an operation has one piece on its way");
    assert!(!copy.presence.any_in(&range), "what is there is not brought again");
    let from = None;
    copy.piece = Some(Piece { range: range.clone(), to, from, spoiled: false, sums: Vec::new() });
    moves.fed += u64::from(bytes);
    let payload = read.payload.slice(range.start - read.at..range.end - read.at);
    moves.piece_read(below, index, read.from.pool, payload);
}

/// The first run of blocks of a read that are missing at the operation's destination; `None`: there
/// is none, or what was read may be old.
fn usable(group: &GroupState, index: u32, read: &ClientRead) -> Option<Range<u32>> {
    let copy = &group.operations[index];
    let busy = group.busy_chunk(read.chunk).expect("the operation is on it");
    let alone = group.map.copies(read.chunk).count() == 1;
    let is_old = busy.was_written_since(read.order) && !mutant("old_read_fed");
    let fits = takes_blocks(copy)
        && !copy.has_piece()
        && copy.source == read.from
        && alone
        && !is_old
        && !busy.is_repaired()
        && !group.settings.copying.locking
        && group.pools[copy.destination.pool].is_alive();
    if !fits {
        return None;
    }
    let blocks = whole_blocks(&(read.at..read.at + read.payload.len()));
    let missing = copy.presence.absent_run(blocks.start, blocks.end - blocks.start)?;
    let range = missing.start..missing.end.min(blocks.end);
    (range.start < range.end && !group.writes_under_way(read.chunk, &range)).then_some(range)
}

/// The destination that a write of whole blocks goes to as well, so that these need not be copied;
/// `None`: no operation lacks them, or a piece that is on its way could overtake them.
pub(crate) fn destination_of_write(group: &GroupState, sub_request: u32) -> Option<Place> {
    let state = &group.sub_requests[sub_request];
    let copying = &group.settings.copying;
    if !copying.feeds || copying.locking || !state.has_contents() {
        return None;
    }
    let copy = &group.operations[group.operation_on(state.chunk())?];
    let blocks = whole_blocks(state.range());
    let touched = around_blocks(state.range());
    let overtaken = copy.piece.as_ref().is_some_and(|piece| {
        let meets = piece.range.start < touched.end && touched.start < piece.range.end;
        meets && !mutant("write_fed_under_a_piece")
    });
    let lacks = blocks.start < blocks.end && !copy.presence.all_in(&blocks);
    let fed = takes_blocks(copy) && lacks && !overtaken;
    (fed && group.pools[copy.destination.pool].is_alive()).then_some(copy.destination)
}

/// A write has succeeded everywhere, also at `to`: its whole blocks are there.
pub(crate) fn write_arrived(group: &mut GroupState, chunk: ChunkId, range: &Range<u32>, to: Place) {
    let Some(index) = group.operation_on(chunk) else { return };
    let copy = &mut group.operations[index];
    if !takes_blocks(copy) || copy.destination != to {
        return;
    }
    let meets = |piece: &Piece| piece.range.start < range.end && range.start < piece.range.end;
    let under_a_piece = copy.piece.as_ref().is_some_and(meets);
    assert!(!under_a_piece || mutant("write_fed_under_a_piece"), "no piece begins under a write");
    met("operation fed by a write");
    let touched = mutant("fed_write_marks_parts_of_blocks");
    copy.presence.mark(&if touched { around_blocks(range) } else { range.clone() });
}

#[cfg(test)]
mod tests;
