//! A commit of the table, without devices.

use super::{Commit, Waiter};
use crate::LINE;
use crate::format::Side;
use crate::lines::{Lines, mark};
use crate::locks::Hold;
use crate::settings::Settings;
use crate::slots::{make_room, slots_written};
use crate::state::CacheState;
use crate::tasks::Task;
use thermocline_policy::cache::SetRule;
use thermocline_ports::{Completion, DeviceError, Geometry, Payload, Ticket};
use thermocline_units::Bytes;

fn state() -> CacheState {
    let geometry = Geometry { size: Bytes::from_mib(4), discard_zeroes: true, far: false };
    CacheState::new(Settings::default(), geometry, Lines::new(256, SetRule::Lru))
}

/// Has a line written to a slot.
fn write(state: &mut CacheState, line: u32) -> u32 {
    let lock = state.locks.take(line..line + 1, Hold::Write).unwrap();
    let slot = state.lines.find(line).or_else(|| make_room(state, line)).unwrap();
    let at = u64::from(line) * u64::from(LINE);
    slots_written(state, &(at..at + u64::from(LINE)), true);
    let (side, writes) = (Side::Cache, true);
    let task = Task::Piece { request: 0, side, at, length: LINE, writes };
    state.traffic.note_answer(side, &task);
    state.locks.release(lock);
    slot
}

/// The purposes of what is to be sent.
fn sent(state: &mut CacheState) -> String {
    let tasks: Vec<Task> = state.take_outgoing().map(|outgoing| outgoing.task).collect();
    format!("{tasks:?}")
}

fn answers(state: &mut CacheState) -> Vec<Completion> {
    let mut done = Vec::new();
    state.answers.hand_over(&mut done);
    done
}

#[test]
fn the_table_is_written_after_the_flush_and_the_waiter_answered_after_the_table() {
    let (mut commit, mut state) = (Commit::default(), state());
    let slot = write(&mut state, 3);
    commit.join(Waiter::Flush(Ticket(1)));
    commit.pump(&mut state);
    assert_eq!(sent(&mut state), "[Flush { side: Cache }]");
    commit.flushed(&mut state, Side::Cache, Ok(Payload::EMPTY));
    let sector = slot / crate::format::SECTOR_SLOTS;
    let table = format!("[Table {{ sectors: {sector}..{}, tries: 0 }}]", sector + 1);
    assert_eq!(sent(&mut state), table);
    assert_eq!(answers(&mut state), []);
    commit.table_written(&mut state, sector..sector + 1, 0, Ok(Payload::EMPTY));
    let done = answers(&mut state);
    assert!(done.len() == 1 && done[0].ticket == Ticket(1) && done[0].result.is_ok());
    assert!(state.lines.has(slot, mark::VALID | mark::DIRTY | mark::RECORDED));
    assert!(!state.lines.has(slot, mark::RECORDING));
}

#[test]
fn a_cycle_with_nothing_to_tell_answers_at_once() {
    let (mut commit, mut state) = (Commit::default(), state());
    commit.join(Waiter::Flush(Ticket(1)));
    commit.pump(&mut state);
    assert_eq!((sent(&mut state).as_str(), answers(&mut state).len()), ("[]", 1));
}

#[test]
fn whoever_comes_during_a_commit_waits_for_the_next() {
    let (mut commit, mut state) = (Commit::default(), state());
    write(&mut state, 3);
    commit.join(Waiter::Flush(Ticket(1)));
    commit.pump(&mut state);
    commit.join(Waiter::Flush(Ticket(2)));
    commit.pump(&mut state);
    assert_eq!(sent(&mut state), "[Flush { side: Cache }]", "one commit at a time");
}

#[test]
fn after_a_flush_that_forgot_the_table_stays_as_it_was_and_the_cache_has_failed() {
    let (mut commit, mut state) = (Commit::default(), state());
    let slot = write(&mut state, 3);
    commit.join(Waiter::Flush(Ticket(1)));
    commit.pump(&mut state);
    sent(&mut state);
    commit.flushed(&mut state, Side::Cache, Err(DeviceError::Io));
    assert_eq!(sent(&mut state), "[]");
    assert_eq!(answers(&mut state)[0].result, Err(DeviceError::Io));
    assert!(state.failure().is_some() && !state.lines.has(slot, mark::RECORDED));
}
