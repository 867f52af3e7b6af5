//! Who may start on a chunk, and who waits.
//!
//! Reads wait for nothing but a slot being opened and a locking copy. A write waits for
//! - writes under way that it overlaps: copies would otherwise end up different;
//! - the journal, when it is the first since the chunk's copies were last known to be equal, when
//!   the journal calls the chunk's table of checksums right, or has not yet opened its region
//!   ([`crate::regions`]), and when it still calls a copy equal that has been dropped: a crash
//!   would bring it back;
//! - the piece that an operation is copying just now, when it overlaps, and the writes have spoiled
//!   it too often or go to the same place: one request's service time;
//! - blocks of the chunk that are being repaired, and checksums that are being read.
//!
//! What frees the chunk waits until nobody is on it. Nobody overtakes who waits.

use crate::block_checksums::BlockChecksums;
use crate::core::Core;
use crate::core::Effect;
use crate::core::traffic::Verb;
use crate::journal::Waiter;
use crate::presence::around_blocks;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos};

/// Copies of one piece that foreground writes may spoil before they wait for it.
pub(crate) const SPOILS_MAX: u32 = 3;

/// True if `part` may start on its chunk; sets going what it has to wait for.
pub(crate) fn pass_hazards(
    core: &mut Core,
    checksums: &mut BlockChecksums,
    now: Nanos,
    part: u32,
) -> bool {
    let state = &core.parts[part];
    let (chunk, range, writes) = (state.chunk, state.range.clone(), state.is_write());
    let frees = matches!(state.verb, Verb::Zero | Verb::Discard) && core.covers_chunk(part);
    let traffic = &core.traffic[core.map.entry(chunk).traffic];
    if !traffic.waiting.is_empty() || traffic.opening.is_some() {
        return false;
    }
    if writes && traffic.repairing {
        return false;
    }
    let operation = traffic.operation;
    let idle = traffic.running.is_empty();
    let changes_map = frees || writes && core.map.entry(chunk).first().is_none();
    let adds_record = changes_map || writes && core.lacks_announcement(chunk);
    if adds_record && core.records_pile_up() {
        await_room(core, chunk);
        return false;
    }
    if frees {
        if let Some(operation) = operation {
            core.operations[operation].cancelled = true;
            return false;
        }
        return idle || mutant("unmapped_under_parts");
    }
    let traffic = &core.traffic[core.map.entry(chunk).traffic];
    // No block of a chunk in two parts may be written on both sides at once.
    let in_two = core.map.overlay(chunk).is_some();
    met_if(
        writes && in_two && !core.writes_under_way(chunk, &range) && {
            core.writes_under_way(chunk, &around_blocks(&range))
        },
        "two writes into one block of a mirror",
    );
    let touched = if in_two && !mutant("two_writes_into_one_block") {
        around_blocks(&range)
    } else {
        range.clone()
    };
    met_if(writes && traffic.dropping > 0, "write waited for the record of a drop");
    if writes && (traffic.dropping > 0 || core.writes_under_way(chunk, &touched)) {
        return false;
    }
    if let Some(operation) = operation
        && !passes_operation(core, operation, writes, &range)
    {
        return false;
    }
    // What a write waits for is fetched while the journal is being told.
    let at_hand = checksums.seal_is_at_hand(core, now, chunk);
    if !writes {
        return at_hand;
    }
    let may_write = journal_expects_writes(core, checksums, now, chunk) && at_hand;
    if may_write {
        checksums.take_table(core, now, chunk);
    }
    may_write
}

/// The chunk's parts are looked at again when the journal has taken what is queued.
fn await_room(core: &mut Core, chunk: ChunkId) {
    let traffic = core.map.entry(chunk).traffic;
    if !std::mem::replace(&mut core.traffic[traffic].awaits_room, true) {
        core.journal.join(Waiter::Room(chunk));
    }
}

fn passes_operation(
    core: &mut Core,
    operation: u32,
    writes: bool,
    range: &std::ops::Range<u32>,
) -> bool {
    let locking = core.settings.copying.locking;
    let operation = &mut core.operations[operation];
    if locking && operation.is_copying() {
        return false;
    }
    let Some(piece) = operation.piece.as_mut().filter(|_| writes) else { return true };
    let earlier = range.start < piece.range.start && mutant("earlier_write_spoils_no_piece");
    if piece.range.end <= range.start || range.end <= piece.range.start || earlier {
        return true;
    }
    if operation.goal.is_some() || operation.spoils >= SPOILS_MAX {
        return false;
    }
    piece.spoiled = true;
    true
}

/// True if the journal knows that the chunk's copies may differ, where there are several, and
/// that its seal is broken, where it had one.
fn journal_expects_writes(
    core: &mut Core,
    checksums: &mut BlockChecksums,
    now: Nanos,
    chunk: ChunkId,
) -> bool {
    if core.needs_announcement(chunk) {
        core.announce_writes(chunk);
        if core.map.entry(chunk).is_called_right() {
            checksums.open_regions(core, now, chunk);
        }
        return mutant("write_before_its_intent");
    }
    !checksums.waits_for_region(core, chunk)
}

/// The journal knows now that a copy of the chunk is gone.
pub(crate) fn drop_durable(core: &mut Core, chunk: ChunkId) {
    let traffic = core.traffic_of(chunk);
    assert!(core.traffic[traffic].dropping > 0, "each drop is durable once");
    core.traffic[traffic].dropping -= 1;
    core.map.let_go(chunk.volume);
    core.emit(Effect::Eased(chunk));
}

/// The journal knows now that the chunk's copies may differ, and that its seal is broken.
pub(crate) fn intent_durable(
    core: &mut Core,
    checksums: &mut BlockChecksums,
    now: Nanos,
    chunk: ChunkId,
) {
    let traffic = core.traffic_of(chunk);
    core.traffic[traffic].intent = false;
    core.map.let_go(chunk.volume);
    checksums.break_seal(core, now, chunk);
    if core.map.may_differ(chunk) {
        let extra = core.map.extra_mut(chunk);
        if !std::mem::replace(&mut extra.dirty, true) {
            core.dirty_chunks.push(chunk);
        }
        core.touch_copies(now, chunk);
    }
    core.emit(Effect::Eased(chunk));
}
