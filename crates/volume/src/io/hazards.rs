//! Order of requests and copies on a chunk: which may start, and which wait.
//!
//! Reads wait for nothing but a slot being opened and a locking copy. A write waits for
//! - writes under way that it overlaps: copies would otherwise end up different;
//! - the journal, when it is the first since the chunk's copies were last known to be equal, when
//!   the journal calls the chunk's table of checksums right, or has not yet opened its region
//!   ([`crate::map::regions`]), and when it still calls a copy equal that has been dropped: a crash
//!   would bring it back;
//! - the piece that an operation is copying just now, when it overlaps, and the writes have spoiled
//!   it too often or go to the same place: one request's service time;
//! - blocks of the chunk that are being repaired, and checksums that are being read.
//!
//! What frees the chunk waits until nobody is on it. Nobody overtakes who waits.

use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::io::busy_chunk::Verb;
use crate::journal::commit::Waiter;
use crate::map::block_checksums::BlockChecksums;
use crate::map::presence::around_blocks;
use std::ops::Range;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos};

/// True if `sub_request` may start on its chunk; sets going what it has to wait for.
pub(crate) fn pass_hazards(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    now: Nanos,
    sub_request: u32,
) -> bool {
    let state = &group.sub_requests[sub_request];
    let (chunk, range, writes) = (state.chunk, state.range.clone(), state.is_write());
    let frees = matches!(state.verb, Verb::Zero | Verb::Discard) && group.covers_chunk(sub_request);
    let busy = group.busy_chunk(chunk).expect("the sub-request has come to it");
    if !busy.waiting.is_empty() || busy.opening.is_some() {
        return false;
    }
    if writes && busy.repairing {
        return false;
    }
    let operation = busy.operation;
    let idle = busy.running.is_empty();
    let changes_map = frees || writes && group.map.entry(chunk).first().is_none();
    let drops_kept = writes && group.map.kept_copy(chunk).is_some();
    let adds_record = changes_map || drops_kept || writes && group.lacks_announcement(chunk);
    if adds_record && group.records_pile_up() {
        await_room(group, chunk);
        return false;
    }
    if frees {
        if let Some(operation) = operation {
            group.operations[operation].cancel();
            return false;
        }
        return idle || mutant("unmapped_under_sub_requests");
    }
    if writes && meets_writes(group, chunk, &range) {
        return false;
    }
    if let Some(operation) = operation
        && !passes_operation(group, operation, writes, &range)
    {
        return false;
    }
    // What a write waits for is fetched while the journal is being told.
    let at_hand = checksums.table_is_at_hand(group, now, chunk);
    if !writes {
        return at_hand;
    }
    let may_write = journal_expects_writes(group, checksums, now, chunk) && at_hand;
    if may_write {
        checksums.take_table(group, now, chunk);
        let expected = !group.needs_announcement(chunk) || mutant("write_before_its_intent");
        assert!(expected, "the journal expects the write");
        assert!(
            !group.map.entry(chunk).has_checksums() || !expected,
            "no table is right from now on"
        );
    }
    may_write
}

/// True if a write to `range` has to wait for others to the chunk, or for the record of a copy that
/// is being dropped.
fn meets_writes(group: &GroupState, chunk: ChunkId, range: &Range<u32>) -> bool {
    // No block of a chunk in two parts may be written on both sides at once.
    let in_two = group.map.overlay(chunk).is_some();
    let blocks = around_blocks(range);
    met_if(
        in_two && !group.writes_under_way(chunk, range) && group.writes_under_way(chunk, &blocks),
        "two writes into one block of a mirror",
    );
    let by_blocks = in_two && !mutant("two_writes_into_one_block");
    let touched = if by_blocks { &blocks } else { range };
    let dropping = group.busy_chunk(chunk).is_some_and(|busy| busy.dropping > 0);
    met_if(dropping, "write waited for the record of a drop");
    dropping || group.writes_under_way(chunk, touched)
}

/// The chunk's sub-requests are looked at again when the journal has taken what is queued.
fn await_room(group: &mut GroupState, chunk: ChunkId) {
    assert!(group.records_pile_up(), "there is room");
    if !std::mem::replace(&mut group.busy_chunk_of(chunk).awaits_room, true) {
        group.journal.join(Waiter::Room(chunk));
    }
}

fn passes_operation(
    group: &mut GroupState,
    operation: u32,
    writes: bool,
    range: &std::ops::Range<u32>,
) -> bool {
    let locking = group.settings.copying.locking;
    let operation = &mut group.operations[operation];
    !(locking && operation.is_copying()) && (!writes || operation.lets_write(range))
}

/// True if the journal knows that the chunk's copies may differ, where there are several, and
/// that its checksums are void, where it had one.
fn journal_expects_writes(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    now: Nanos,
    chunk: ChunkId,
) -> bool {
    if group.needs_announcement(chunk) {
        group.announce_writes(chunk);
        assert!(!group.lacks_announcement(chunk), "a chunk is announced once");
        if group.map.entry(chunk).is_called_right() {
            checksums.open_regions(group, now, chunk);
        }
        return mutant("write_before_its_intent");
    }
    !checksums.waits_for_region(group, chunk)
}

/// The journal knows now that a copy of the chunk is gone.
pub(crate) fn drop_durable(group: &mut GroupState, chunk: ChunkId) {
    let busy = group.busy_chunk_of(chunk);
    assert!(busy.dropping > 0, "each drop is durable once");
    busy.dropping -= 1;
    group.map.let_go(chunk.volume);
    group.emit(Effect::Eased(chunk));
}

/// The journal knows now that the chunk's copies may differ, and that its checksums are void.
pub(crate) fn intent_durable(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    now: Nanos,
    chunk: ChunkId,
) {
    let announced = std::mem::replace(&mut group.busy_chunk_of(chunk).intent, false);
    assert!(announced, "each intent is durable once");
    group.map.let_go(chunk.volume);
    checksums.void_checksums(group, now, chunk);
    if group.map.may_differ(chunk) {
        group.map.call_differing(chunk);
        group.map.touch_copies(now, chunk);
    }
    group.emit(Effect::Eased(chunk));
}

/// Sub-requests of a chunk waited until less is queued for the journal.
pub(crate) fn room_may_be_there(group: &mut GroupState, chunk: ChunkId) {
    // Who waited may have gone: with the mirror that it would have announced, or with its volume,
    // whose number a shorter one may have by now.
    if !group.map.is_busy(chunk) {
        return;
    }
    group.busy_chunk_of(chunk).awaits_room = false;
    assert!(group.map.is_busy(chunk), "it was busy before, and still is");
    group.emit(Effect::Eased(chunk));
}

#[cfg(test)]
mod tests;
