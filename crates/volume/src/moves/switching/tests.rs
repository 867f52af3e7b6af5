//! Ends of operations: what may be read and written at the destination, the switch, taking back.

use super::{arriving_copy, mirror_disagrees, mirror_of};
use crate::format::Record;
use crate::group_state::effect::Effect;
use crate::group_state::tests::{FAST, SLOW, chunk, effects, said, settle};
use crate::io::busy_chunk::bit;
use crate::journal::Outcome as Became;
use crate::map::overlay::Goal;
use crate::map::place::{ChunkCopy, Role};
use crate::moves::active::ActiveOperation;
use crate::moves::active::tests::bringing;
use crate::moves::operation::{OperationKind, Outcome};
use crate::moves::tests::Bench;

const BLOCK: u32 = 4096;
const CHUNK: u32 = 16 * BLOCK;

/// A migration of the first chunk; its first two blocks are at the destination.
fn two_blocks() -> (Bench, ActiveOperation) {
    let mut bench = Bench::new(1);
    let mut migration = bench.migration();
    migration.presence.mark(&(0..2 * BLOCK));
    (bench, migration)
}

/// A migration whose record is queued.
fn switched(proposed: bool) -> (Bench, u32) {
    let mut bench = Bench::new(1);
    let mut migration = bench.migration();
    migration.presence.mark(&(0..CHUNK));
    let number = bench.add(ActiveOperation { proposed, ..migration });
    bench.step(|moves, below| moves.switch(below, number));
    effects(&mut bench.group);
    (bench, number)
}

#[test]
fn a_read_uses_the_destination_only_where_all_of_its_blocks_are() {
    let (mut bench, migration) = two_blocks();
    let place = migration.destination;
    let number = bench.add(migration);
    let reads = |bench: &Bench, range| arriving_copy(&bench.group, chunk(0), &range);
    assert_eq!(reads(&bench, 512..2 * BLOCK), Some(place));
    assert_eq!(reads(&bench, BLOCK..2 * BLOCK + 512), None);
    bench.group.operations[number].failed = true;
    assert_eq!(reads(&bench, 0..BLOCK), None);
}

#[test]
fn a_write_goes_to_the_destination_where_any_of_its_blocks_is() {
    let (mut bench, migration) = two_blocks();
    let place = migration.destination;
    let number = bench.add(migration);
    let writes = |bench: &Bench, range| mirror_of(&bench.group, chunk(0), &range);
    assert_eq!(writes(&bench, BLOCK + 512..3 * BLOCK), Some(place));
    assert_eq!(writes(&bench, 2 * BLOCK..3 * BLOCK), None, "it is copied later");
    bench.group.operations[number].failed = true;
    assert_eq!(writes(&bench, 0..BLOCK), None);
}

#[test]
fn neither_is_done_on_a_chunk_in_two_parts() {
    let (mut bench, migration) = two_blocks();
    bench.add(bringing(Goal::Above, migration));
    assert_eq!(arriving_copy(&bench.group, chunk(0), &(0..BLOCK)), None);
    assert_eq!(mirror_of(&bench.group, chunk(0), &(0..BLOCK)), None);
}

#[test]
fn a_destination_that_missed_a_write_is_given_up_and_one_that_is_ahead_copied_anew() {
    let disagrees = |failed, safe| {
        let (mut bench, migration) = two_blocks();
        let number = bench.add(migration);
        mirror_disagrees(&mut bench.group, chunk(0), &(0..BLOCK), failed, safe);
        let copy = &bench.group.operations[number];
        (copy.failed, copy.presence.count())
    };
    assert_eq!(disagrees(bit(FAST), false), (true, 2));
    assert_eq!(disagrees(bit(SLOW), false), (false, 1));
    assert_eq!(disagrees(bit(SLOW), true), (false, 2), "another copy has the write");
}

#[test]
fn a_switch_whose_destination_missed_a_write_is_taken_back_by_a_second_record() {
    let (mut bench, number) = switched(false);
    let destination = bench.group.operations[number].destination;
    for _ in 0..2 {
        mirror_disagrees(&mut bench.group, chunk(0), &(0..BLOCK), bit(FAST), false);
    }
    assert!(bench.group.operations[number].failed);
    assert_eq!(bench.group.journal.places_left().collect::<Vec<_>>(), [destination], "once");
    let records = said(&mut bench.group);
    let now = Record::Chunk(chunk(0), bench.group.map.state(chunk(0)));
    assert_eq!((records.len(), records.last()), (2, Some(&now)), "the last one counts");
    bench.step(|moves, below| moves.switch_durable(below, number));
    assert_eq!(bench.finished().first().map(|end| end.outcome), Some(Outcome::Failed));
}

#[test]
fn a_chunk_is_at_its_destination_when_the_switch_is_durable_and_its_old_slot_parts() {
    let (mut bench, number) = switched(false);
    let copy = &bench.group.operations[number];
    let (source, destination) = (copy.source, copy.destination);
    assert_eq!(bench.group.map.entry(chunk(0)).first(), Some(source));
    let outcomes = settle(&mut bench.group);
    assert!(matches!(&outcomes[..], [Became::Durable { left, .. }] if left.is_empty()));
    bench.step(|moves, below| moves.switch_durable(below, number));
    let copies: Vec<ChunkCopy> = bench.group.map.copies(chunk(0)).collect();
    assert_eq!(copies, [ChunkCopy::wanted(destination)]);
    assert_eq!(bench.finished().first().map(|end| end.outcome), Some(Outcome::Done));
    let parts = |effect: &Effect| matches!(effect, Effect::Parted(_, place) if *place == source);
    assert!(effects(&mut bench.group).iter().any(parts), "another record drops it");
    assert!(bench.group.pools[SLOW].slots.is_taken(source.slot));
    assert!(bench.group.operation_on(chunk(0)).is_none() && bench.moves.count() == 0);
}

#[test]
fn a_placements_move_up_leaves_a_kept_copy_that_the_journal_calls_different() {
    let (mut bench, number) = switched(true);
    let source = bench.group.operations[number].source;
    settle(&mut bench.group);
    bench.step(|moves, below| moves.switch_durable(below, number));
    assert_eq!(bench.group.map.kept_copy(chunk(0)), Some(source));
    assert!(bench.group.map.is_called_differing(chunk(0)) && bench.group.pools[SLOW].kept == 1);
    let kept = |effect: &Effect| matches!(effect, Effect::Kept(_, pool) if *pool == SLOW);
    assert!(effects(&mut bench.group).iter().any(kept));
}

#[test]
fn a_prefetch_that_is_given_up_leaves_its_slot_and_is_counted_no_more() {
    let (mut bench, migration) = two_blocks();
    let destination = migration.destination;
    let what = crate::Operation { kind: OperationKind::Prefetch, ..migration.what };
    bench.group.pools[FAST].count_copy(Role::Prefetched);
    let number = bench.add(ActiveOperation { what, cancelled: true, ..migration });
    bench.step(|moves, below| moves.advance(below, number));
    assert_eq!(bench.group.pools[FAST].prefetched, 0);
    let left = |effect: &Effect| matches!(effect, Effect::Left(_, place) if *place == destination);
    assert!(effects(&mut bench.group).iter().any(left));
    assert_eq!(bench.finished().first().map(|end| end.outcome), Some(Outcome::Cancelled));
}

#[test]
fn an_operation_that_switches_is_not_cancelled_any_more() {
    let (mut bench, number) = switched(false);
    let id = bench.group.operations[number].status().id;
    let Bench { group, moves, .. } = &mut bench;
    assert!(!moves.cancel_copying(group, id));
    let (mut bench, migration) = two_blocks();
    let id = migration.status().id;
    bench.add(migration);
    let Bench { group, moves, .. } = &mut bench;
    assert!(moves.cancel_copying(group, id) && group.operations.is_cancelled(id));
}
