//! An operation under way by itself: writes that meet its piece, and what it foretells.

use super::{ActiveOperation, ActiveOperations, Piece, SPOILS_MAX, Stage};
use crate::group_state::GroupState;
use crate::map::overlay::{Blocks, Goal, Side};
use crate::map::place::{ChunkCopy, Place, Role};
use crate::map::{ChunkState, Table};
use crate::moves::operation::{Operation, OperationId, OperationKind};
use thermocline_units::{ChunkId, PoolId, VolumeId};

const CHUNK: u32 = 64 << 10;
const BLOCK: u32 = 4096;
const OLD: Place = Place { pool: PoolId(1), slot: 3 };
const NEW: Place = Place { pool: PoolId(0), slot: 8 };

/// An operation that has copied nothing yet.
pub(crate) fn copying(
    kind: OperationKind,
    chunk: ChunkId,
    source: Place,
    destination: Place,
) -> ActiveOperation {
    let what = Operation { kind, chunk, to: destination.pool };
    ActiveOperation::new(OperationId(1), what, (source, destination), CHUNK)
}

/// The same on a chunk in two parts.
pub(crate) fn bringing(goal: Goal, operation: ActiveOperation) -> ActiveOperation {
    ActiveOperation { goal: Some(goal), ..operation }
}

/// The same, with all blocks at its destination; a record says so.
pub(crate) fn switching(operation: ActiveOperation) -> ActiveOperation {
    ActiveOperation { stage: Stage::Switching, ..operation }
}

/// Puts an operation on its chunk; its number.
pub(crate) fn begin(group: &mut GroupState, operation: ActiveOperation) -> u32 {
    let chunk = operation.what.chunk;
    let number = group.operations.insert(operation);
    group.map.hold(chunk.volume);
    group.busy_chunk_of(chunk).set_operation(Some(number));
    number
}

fn chunk(volume: u32) -> ChunkId {
    ChunkId { volume: VolumeId(volume), index: 5 }
}

fn operation(kind: OperationKind) -> ActiveOperation {
    copying(kind, chunk(0), OLD, NEW)
}

fn with_piece(operation: ActiveOperation) -> ActiveOperation {
    let piece =
        Piece { range: BLOCK..3 * BLOCK, to: NEW, from: None, spoiled: false, sums: Vec::new() };
    ActiveOperation { piece: Some(piece), ..operation }
}

/// A chunk in one whole copy.
fn at_home() -> ChunkState {
    let copies = vec![ChunkCopy::wanted(OLD)];
    ChunkState { copies, table: Table::Summed(9), ..ChunkState::default() }
}

fn foretold(operation: &ActiveOperation, mut state: ChunkState) -> ChunkState {
    operation.foretell(&mut state);
    state
}

#[test]
fn a_write_spoils_the_piece_that_it_meets_and_the_blocks_there() {
    let mut operation = with_piece(operation(OperationKind::Migrate));
    operation.presence.mark(&(0..3 * BLOCK));
    for range in [0..BLOCK, 3 * BLOCK..4 * BLOCK] {
        assert!(operation.lets_write(&range));
    }
    assert!(!operation.piece.as_ref().is_some_and(|piece| piece.spoiled));
    assert_eq!(operation.presence.count(), 3, "they met nothing");
    assert!(operation.lets_write(&(512..BLOCK + 512)));
    assert!(operation.piece.as_ref().is_some_and(|piece| piece.spoiled));
    let there: Vec<u32> = (0..3).filter(|&block| operation.presence.holds(block)).collect();
    assert_eq!(there, [0, 2], "the block in the piece may be written after the write");
}

#[test]
fn a_write_waits_for_a_piece_that_was_spoiled_too_often_or_goes_to_the_same_place() {
    let meets = BLOCK..2 * BLOCK;
    let mut operation = with_piece(operation(OperationKind::Migrate));
    operation.spoils = SPOILS_MAX;
    assert!(!operation.lets_write(&meets) && operation.lets_write(&(0..BLOCK)));
    operation.piece = None;
    assert!(operation.lets_write(&meets), "nothing is on its way");
    let sides = bringing(Goal::Both, with_piece(self::operation(OperationKind::Mirror)));
    assert!(!{ sides }.lets_write(&meets));
}

#[test]
fn nothing_is_foretold_of_what_is_still_copied_or_was_given_up() {
    let mut move_away = operation(OperationKind::Migrate);
    assert_eq!(foretold(&move_away, at_home()), at_home());
    move_away = switching(move_away);
    assert_ne!(foretold(&move_away, at_home()), at_home());
    move_away.failed = true;
    assert_eq!(foretold(&move_away, at_home()), at_home());
}

#[test]
fn a_move_names_the_old_copy_behind_the_new_one_as_one_that_may_differ() {
    let state = foretold(&switching(operation(OperationKind::Migrate)), at_home());
    let old = ChunkCopy { place: OLD, role: Role::Prefetched };
    assert_eq!(state.copies, [ChunkCopy::wanted(NEW), old]);
    assert!(state.dirty && state.table == Table::None);
}

#[test]
fn a_chunk_that_moves_is_first_at_its_destination_whatever_other_copies_it_has() {
    let third = ChunkCopy::wanted(Place { pool: PoolId(2), slot: 0 });
    let copies = vec![ChunkCopy::wanted(OLD), third];
    let several = ChunkState { copies, ..ChunkState::default() };
    let state = foretold(&switching(operation(OperationKind::Migrate)), several);
    assert_eq!(state.copies, [ChunkCopy::wanted(NEW), third], "the old one need not stay");
}

#[test]
fn a_copy_that_is_added_stands_behind_the_first() {
    for (kind, role) in
        [(OperationKind::Replicate, Role::Wanted), (OperationKind::Prefetch, Role::Prefetched)]
    {
        let state = foretold(&switching(operation(kind)), at_home());
        assert_eq!(state.copies, [ChunkCopy::wanted(OLD), ChunkCopy { place: NEW, role }]);
    }
}

#[test]
fn a_side_that_lacks_blocks_is_not_named_once_the_chunk_has_left_it() {
    let in_two = |whole: bool| {
        let mut blocks = Blocks::mirrored(CHUNK);
        blocks.copied(&(0..CHUNK));
        if !whole {
            blocks.written(Side::Above, &(0..BLOCK));
        }
        ChunkState { overlay: Some((NEW, blocks)), ..at_home() }
    };
    let towards = switching(bringing(Goal::Above, operation(OperationKind::Migrate)));
    for (whole, count) in [(true, 2), (false, 1)] {
        let state = foretold(&towards, in_two(whole));
        assert_eq!((state.copies.len(), state.copies[0].place), (count, NEW), "{whole}");
        assert!(state.overlay.is_none());
    }
}

#[test]
fn slots_that_are_filled_are_those_that_no_record_and_no_overlay_names() {
    let mut operations = ActiveOperations::default();
    let redirect = operation(OperationKind::Redirect);
    operations.insert(bringing(Goal::Above, redirect));
    let moved = operations.insert(switching(operation(OperationKind::Migrate)));
    assert_eq!(operations.destinations().collect::<Vec<_>>(), [NEW]);
    assert!(operations.will_free() && operations.is_copying());
    operations[moved].failed = true;
    assert_eq!(operations.destinations().count(), 0, "the record that takes it back names it");
}

#[test]
fn a_volume_that_is_deleted_cancels_its_own_operations() {
    let mut operations = ActiveOperations::default();
    for (volume, id) in [(0, 7), (1, 3)] {
        let id = OperationId(id);
        let operation = copying(OperationKind::Migrate, chunk(volume), OLD, NEW);
        operations.insert(ActiveOperation { id, ..operation });
    }
    operations.cancel_volume(VolumeId(1));
    assert!(operations.is_cancelled(OperationId(3)) && !operations.is_cancelled(OperationId(7)));
    assert_eq!(operations.oldest_first(), [1, 0], "ids say which began first");
}
