//! Runs that go back, without devices.

use super::WriteBack;
use crate::LINE;
use crate::format::Side;
use crate::lines::{Lines, mark};
use crate::locks::Hold;
use crate::settings::Settings;
use crate::slots::{make_room, slots_written};
use crate::state::{CacheState, Effect};
use crate::tasks::{Outgoing, Task};
use std::ops::Range;
use thermocline_policy::cache::SetRule;
use thermocline_ports::{DeviceError, Geometry, Payload};
use thermocline_units::{Bytes, Nanos};

fn state() -> CacheState {
    let geometry = Geometry { size: Bytes::from_mib(4), discard_zeroes: true, far: false };
    let settings = Settings { dirty_percent: 0, ..Settings::default() };
    CacheState::new(settings, geometry, Lines::new(256, SetRule::Lru))
}

fn bytes_of(lines: &Range<u32>) -> Range<u64> {
    let line = u64::from(LINE);
    u64::from(lines.start) * line..u64::from(lines.end) * line
}

/// Has lines written to slots.
fn write(state: &mut CacheState, lines: Range<u32>) {
    let lock = state.locks.take(lines.clone(), Hold::Write).unwrap();
    for line in lines.clone() {
        if state.lines.find(line).is_none() {
            make_room(state, line).unwrap();
        }
    }
    slots_written(state, &bytes_of(&lines), true);
    state.locks.release(lock);
}

/// Answers the reads of the one run that was begun; its lines.
fn read_all(back: &mut WriteBack, state: &mut CacheState) -> Vec<u32> {
    let sent: Vec<Outgoing> = state.take_outgoing().collect();
    let mut lines = Vec::new();
    for Outgoing { side, task, .. } in sent {
        let Task::BackRead { run, at } = task else { panic!("{task:?}") };
        assert_eq!((side, run), (Side::Cache, 0));
        lines.push(at);
        back.back_read(state, run, at, Ok(Payload::Zeroes(LINE)));
    }
    lines
}

fn is_dirty(state: &CacheState, line: u32) -> bool {
    state.lines.has(state.lines.find(line).unwrap(), mark::DIRTY)
}

#[test]
fn neighbours_are_read_one_by_one_and_written_at_once_and_are_clean_then() {
    let (mut back, mut state) = (WriteBack::default(), state());
    write(&mut state, 5..8);
    back.pump(&mut state);
    assert_eq!(read_all(&mut back, &mut state), [5, 6, 7]);
    let sent: Vec<Outgoing> = state.take_outgoing().collect();
    assert!(matches!(sent[..], [Outgoing { task: Task::BackWrite { run: 0 }, .. }]));
    assert!(is_dirty(&state, 6), "until the slow device has it");
    back.back_written(&mut state, 0, Ok(Payload::EMPTY));
    assert!((5..8).all(|line| !is_dirty(&state, line)));
    assert!(matches!(state.next_effect(), Some(Effect::Unlocked(_))));
}

#[test]
fn a_line_that_is_written_meanwhile_stays_dirty() {
    let (mut back, mut state) = (WriteBack::default(), state());
    write(&mut state, 5..8);
    back.pump(&mut state);
    read_all(&mut back, &mut state);
    write(&mut state, 6..7);
    back.back_written(&mut state, 0, Ok(Payload::EMPTY));
    assert_eq!([5, 6, 7].map(|line| is_dirty(&state, line)), [false, true, false]);
}

#[test]
fn after_a_run_that_failed_there_is_a_pause_and_the_lines_stay_dirty() {
    let (mut back, mut state) = (WriteBack::default(), state());
    state.now = Nanos(1);
    write(&mut state, 5..8);
    back.pump(&mut state);
    read_all(&mut back, &mut state);
    back.back_written(&mut state, 0, Err(DeviceError::NoSpace));
    assert!((5..8).all(|line| is_dirty(&state, line)));
    let until = back.resume_at().unwrap();
    let Some(Effect::Unlocked(lock)) = state.next_effect() else { panic!("it is held still") };
    state.locks.release(lock);
    state.take_outgoing().for_each(drop);
    back.pump(&mut state);
    assert_eq!(state.take_outgoing().count(), 0);
    assert!(back.end_pause(until));
    back.pump(&mut state);
    assert_eq!(state.take_outgoing().count(), 3);
}

#[test]
fn a_run_is_of_64_lines_at_most() {
    let (mut back, mut state) = (WriteBack::default(), state());
    write(&mut state, 0..100);
    back.pump(&mut state);
    let sent: Vec<Outgoing> = state.take_outgoing().collect();
    assert!(sent.iter().all(|out| matches!(out.task, Task::BackRead { run: 0, .. })));
    assert_eq!(sent.len(), 64, "what overlaps with the run waits for its end");
}
