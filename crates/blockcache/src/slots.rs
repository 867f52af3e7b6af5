//! Slots for the lines of requests: giving them, writing them, forgetting them.
//!
//! Functions over the shared state, each of which leaves marks that agree with each other.

use crate::lines::mark;
use crate::segments::lines_of;
use crate::state::{CacheState, Effect};
use std::ops::Range;
use thermocline_policy::cache::Sets;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// A slot for a line that has none.
pub(crate) fn make_room(state: &mut CacheState, line: u32) -> Option<u32> {
    let locks = &state.locks;
    let staying = match mutant("slot_reused_while_the_table_names_it") {
        true => mark::DIRTY,
        false => mark::DIRTY | mark::RECORDED,
    };
    let may_leave = |sets: &Sets, slot: u32| {
        sets.marks(slot) & staying == 0 && sets.line_in(slot).is_some_and(|line| !locks.holds(line))
    };
    match state.lines.take_slot(line, may_leave) {
        Some(slot) => {
            assert!(state.lines.marks(slot) == 0, "a slot is given without marks");
            debug_assert!(locks.holds(line), "a slot is given to a line that is held");
            Some(slot)
        }
        None => {
            // Some of the set may be clean, and only named by the table still.
            met("a set has no slot to give");
            state.emit(Effect::TableWanted);
            None
        }
    }
}

/// The slots that hold contents of `lines`.
pub(crate) fn slots_in(state: &CacheState, lines: &Range<u32>) -> Vec<u32> {
    if lines.end - lines.start < state.lines.slots() {
        return lines.clone().filter_map(|line| state.lines.slot_of(line)).collect();
    }
    let inside = |&slot: &u32| {
        state.lines.has(slot, mark::VALID)
            && state.lines.line_in(slot).is_some_and(|line| lines.contains(&line))
    };
    (0..state.lines.slots()).filter(inside).collect()
}

/// Lines whose slots cannot be read are forgotten, if the slow device has them all.
pub(crate) fn forget_clean(state: &mut CacheState, bytes: &Range<u64>) -> bool {
    let slots = slots_in(state, &lines_of(bytes));
    let clean = slots.iter().all(|&slot| !state.lines.has(slot, mark::DIRTY));
    met(if clean { "a clean line cannot be read" } else { "a dirty line cannot be read" });
    let clean = clean || mutant("dirty_line_read_from_the_slow_device");
    if clean {
        slots.into_iter().for_each(|slot| state.lines.forget(slot));
        debug_assert!(slots_in(state, &lines_of(bytes)).is_empty(), "they are not cached any more");
    }
    clean
}

/// Notes that the slots of lines were written, or were not.
pub(crate) fn slots_written(state: &mut CacheState, bytes: &Range<u64>, done: bool) {
    for line in lines_of(bytes) {
        let slot = state.lines.find(line).expect("a line that is being written has a slot");
        debug_assert!(state.locks.holds(line), "a line is written while it is held");
        if done {
            state.lines.remark(slot, mark::VALID | mark::DIRTY | mark::REWRITTEN, 0);
        } else if state.lines.has(slot, mark::DIRTY) && !mutant("failed_write_forgets_a_dirty_line")
        {
            met("a write to a dirty line fails");
            // Each sector is old or new, and the slow device has neither for certain.
            state.lines.remark(slot, mark::REWRITTEN, 0);
        } else {
            state.lines.forget(slot);
        }
    }
}

/// True if a crash would find everything in `bytes` as it is: on the slow device, or in a slot
/// that the table names. A slot that it still names without reason would hide the slow device.
pub(crate) fn is_recorded(state: &CacheState, bytes: &Range<u64>) -> bool {
    let named = mark::VALID | mark::RECORDED;
    let told = match mutant("recorded_although_the_table_is_under_way") {
        true => named,
        false => named | mark::RECORDING | mark::FREEING,
    };
    lines_of(bytes)
        .filter_map(|line| state.lines.find(line))
        .all(|slot| state.lines.marks(slot) & told == named)
}
