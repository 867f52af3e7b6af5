//! Taking dirty lines back to the slow device.
//!
//! 1. While more than `dirty_percent` of the slots are dirty, a hand goes over the slots and takes
//!    dirty lines. The tactic of write-back ([`thermocline_policy::tactics::WriteBack`]) says how
//!    many runs are under way, and if lines that were hit since they came go as well.
//! 2. Dirty neighbours on both sides go together, up to 64 lines. They are read from their slots
//!    and written in one request: slots are in no order of the slow device, and a seek a line would
//!    cost it more than the cache spares it.
//! 3. After a run that failed nothing is taken back for [`PAUSE`]: a slow device that refuses every
//!    write is not asked as fast as it refuses.
//! 4. A line that was written meanwhile stays dirty. The others are clean at once, and stay cached;
//!    the table is told in the next commit, after a flush of the slow device.
//!
//! Lines of a write that had no slot, because its set was full of dirty lines, went to the slow
//! device themselves: that is what holds writers back.

use crate::LINE;
use crate::format::{ORIGIN_OFFSET, Side};
use crate::lines::mark;
use crate::locks::Hold;
use crate::segments::assemble;
use crate::state::{CacheState, Effect};
use crate::tasks::Task;
use std::ops::Range;
use thermocline_policy::tactics::DirtyLines;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, Nanos, Slab};

/// Lines of a run, at most: 256 KiB.
const RUN_LINES: u32 = 64;
/// Slots that the hand passes at once, at most.
const STRIDE: u32 = 4096;

const _: () =
    assert!((RUN_LINES as u64) * (LINE as u64) <= u32::MAX as u64, "a run is one request");

/// Pause of taking back after a run that failed.
const PAUSE: Nanos = Nanos(100_000_000);

/// Neighbours on their way.
#[derive(Debug)]
struct Run {
    lines: Range<u32>,
    lock: u32,
    /// Reads that are not answered.
    outstanding: u32,
    pieces: Vec<(u64, Payload)>,
    failed: bool,
}

/// The taking back of dirty lines.
#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    runs: Slab<Run>,
    hand: u32,
    /// End of the pause after a run that failed; `None`: no pause.
    resume_at: Option<Nanos>,
}

impl WriteBack {
    /// End of the pause, if there is one.
    pub(crate) fn resume_at(&self) -> Option<Nanos> {
        self.resume_at
    }

    /// Ends a pause whose time has come; true if there was one.
    pub(crate) fn end_pause(&mut self, now: Nanos) -> bool {
        self.resume_at.take_if(|at| *at <= now).is_some()
    }

    /// Starts as many runs as there should be.
    pub(crate) fn pump(&mut self, state: &mut CacheState) {
        let slots = u64::from(state.lines.slots());
        let lines = DirtyLines {
            slots,
            dirty: u64::from(state.lines.counts().1),
            allowed: slots * u64::from(state.settings.dirty_percent) / 100,
            runs_max: state.settings.writers_max.max(1),
            clients_wait: state.traffic.is_origin_awaited(),
        };
        let enough = lines.dirty <= lines.allowed;
        if enough || state.failure().is_some() || self.resume_at.is_some() {
            return;
        }
        assert!(self.hand < state.lines.slots(), "the hand is on a slot");
        let tactic = &state.settings.tactics.write_back;
        let (runs, pressed) = tactic.ask(|it| (it.runs(&lines), it.takes_used(&lines)));
        let runs = runs.clamp(1, lines.runs_max) as usize;
        let mut passed = 0;
        while self.runs.len() < runs && passed < STRIDE.min(state.lines.slots()) {
            let slot = self.hand;
            self.hand = (slot + 1) % state.lines.slots();
            passed += 1;
            if state.lines.has(slot, mark::DIRTY) && (pressed || !state.lines.is_near(slot)) {
                let line = state.lines.line_in(slot).expect("a dirty slot has a line");
                self.take_back(state, line);
            }
        }
        let most = lines.runs_max as usize;
        assert!(self.runs.len() <= most, "{} runs are under way, of {most}", self.runs.len());
    }

    /// Takes `line`, and the dirty ones around it, unless somebody drops them just now.
    fn take_back(&mut self, state: &mut CacheState, line: u32) {
        let dirty = |line: &u32| {
            state.lines.find(*line).is_some_and(|slot| state.lines.has(slot, mark::DIRTY))
        };
        let earliest = line.saturating_sub(RUN_LINES - 1);
        let start = (earliest..line).rev().take_while(dirty).last().unwrap_or(line);
        // The last possible line is not in use, so a run that is cut there loses none.
        let bound = start.saturating_add(RUN_LINES);
        let end = (line..bound).take_while(dirty).last().expect("the first one is") + 1;
        let lines = start..end;
        assert!(lines.contains(&line) && lines.len() <= RUN_LINES as usize, "a run is bounded");
        let Some(lock) = state.locks.take(lines.clone(), Hold::Back) else { return };
        let run = self.runs.insert(Run {
            lines: lines.clone(),
            lock,
            outstanding: lines.end - lines.start,
            pieces: Vec::new(),
            failed: false,
        });
        for line in lines {
            let slot = state.lines.find(line).expect("just found");
            assert!(state.lines.has(slot, mark::DIRTY), "only dirty lines go back");
            if !mutant("rewritten_lines_stay_so") {
                state.lines.remark(slot, 0, mark::REWRITTEN);
            }
            let bytes = state.bytes_of(line);
            let length = (bytes.end - bytes.start) as u32;
            let io = Io::Read { offset: state.lines.slot_offset(slot), length };
            state.send(Side::Cache, Task::BackRead { run, at: line }, io);
        }
    }

    /// A line of a run was read, or was not.
    pub(crate) fn back_read(
        &mut self,
        state: &mut CacheState,
        run: u32,
        line: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let it = &mut self.runs[run];
        assert!(it.outstanding > 0, "each request of a write-back is answered once");
        it.outstanding -= 1;
        match result {
            Ok(payload) => it.pieces.push((u64::from(line) * u64::from(LINE), payload)),
            Err(_) => it.failed = true,
        }
        let accounted = it.pieces.len() + it.outstanding as usize;
        assert!(accounted <= it.lines.len(), "a line of a run is read once");
        assert!(it.failed || accounted == it.lines.len(), "each line of a run is read");
        if it.outstanding > 0 {
            return;
        }
        if state.answers.have_forgotten() {
            // The fast device may show what was in the slot before, and the slow one has better.
            met("a line is not taken back after a flush that forgot");
            return self.end_run(state, run, false);
        }
        if it.failed {
            met("a line that is taken back cannot be read");
            return self.end_run(state, run, false);
        }
        let lines = it.lines.clone();
        let mut pieces = std::mem::take(&mut it.pieces);
        let bytes = state.bytes_of(lines.start).start..state.bytes_of(lines.end - 1).end;
        let data = assemble(&bytes, &mut pieces);
        let offset = Bytes(ORIGIN_OFFSET + bytes.start);
        let io = Io::Write { offset, data, fua: false };
        state.send(Side::Origin, Task::BackWrite { run }, io);
    }

    /// A run is on the slow device, or is not.
    pub(crate) fn back_written(
        &mut self,
        state: &mut CacheState,
        run: u32,
        result: Result<Payload, DeviceError>,
    ) {
        met_if(result.is_err(), "a line cannot be taken back");
        self.end_run(state, run, result.is_ok() || mutant("failed_taking_back_counts"));
    }

    fn end_run(&mut self, state: &mut CacheState, run: u32, done: bool) {
        let Run { lines, lock, outstanding, .. } = self.runs.remove(run);
        assert!(outstanding == 0, "a run ends when all its reads have");
        if !done {
            self.resume_at = Some(Nanos(state.now.0 + PAUSE.0));
        }
        for line in lines {
            let slot = state.lines.find(line).expect("nobody drops a line that is taken back");
            assert!(state.lines.has(slot, mark::DIRTY), "a line is dirty until its run ends");
            let rewritten = state.lines.has(slot, mark::REWRITTEN);
            met_if(rewritten, "a line is written while it is taken back");
            if done && (!rewritten || mutant("rewritten_line_called_clean")) {
                let bytes = state.bytes_of(line);
                state.status.written_back.0 += bytes.end - bytes.start;
                state.lines.remark(slot, 0, mark::DIRTY);
            }
        }
        state.emit(Effect::Unlocked(lock));
    }
}

#[cfg(test)]
mod tests;
