//! Making the table of dirty lines durable: group commits.
//!
//! The table names the slots whose lines the slow device does not have. A commit
//!
//! 1. notes which slots the table must name from now on, and which no longer, as of now;
//! 2. flushes both devices, if they were written;
//! 3. writes the sectors of the table that are about those slots, to the medium;
//! 4. answers who waited: flushes, and forced writes to lines that the table did not name.
//!
//! So a line's contents are durable before the table names them, and the slow device has a line for
//! good before the table stops naming it. A slot that the table names, or may name, is not given to
//! another line. One commit runs at a time; whoever comes meanwhile shares the next.
//!
//! A flush that failed may have forgotten what it was to make durable, and the next one would say
//! that all is well (Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC
//! 2020). Then the table stays as it was, and every request is answered with an error: what was
//! flushed before is found when the cache is opened again. From the failed flush on nothing is
//! taken back either: a slot may show what was in it before. A flush that took too long is tried
//! again.

use crate::format::{SECTOR_SLOTS, Side, encode_table, table_offset};
use crate::lines::mark;
use crate::state::CacheState;
use crate::tasks::Task;
use std::collections::BTreeSet;
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload, SECTOR, Ticket};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Most times that a sector of the table is written before the cache gives up: a cache without its
/// table loses data.
const TRIES_MAX: u32 = 3;
/// Sectors of the table that are written at once: 128 KiB.
const RUN_SECTORS: u32 = 256;

const _: () = assert!((RUN_SECTORS as u64) * (SECTOR as u64) <= u32::MAX as u64, "one request");

/// A waiter for a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A flush.
    Flush(Ticket),
    /// A forced write.
    Write(Ticket),
}

impl Waiter {
    fn ticket(self) -> Ticket {
        match self {
            Waiter::Flush(ticket) | Waiter::Write(ticket) => ticket,
        }
    }
}

/// The stage of the commit under way, if there is one. It goes from each to the next, and from each
/// back to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Idle,
    Flushing,
    Writing,
}

/// The group commit of the table's sectors.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    stage: Stage,
    /// True if a commit shall run although nobody waits.
    wanted: bool,
    /// Slots of the commit under way.
    changing: Vec<u32>,
    waiters: Vec<Waiter>,
    next_waiters: Vec<Waiter>,
    outstanding: u32,
    /// Error of the commit's first flush that failed, or of one that may have forgotten writes.
    failed: Option<DeviceError>,
}

impl Commit {
    /// Joins the next commit.
    pub(crate) fn join(&mut self, waiter: Waiter) {
        self.next_waiters.push(waiter);
    }

    /// Has a commit run although nobody waits.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Starts a commit when somebody wants one and none is under way.
    pub(crate) fn pump(&mut self, state: &mut CacheState) {
        if state.failure().is_some() {
            return self.turn_away(state);
        }
        let wanted = self.wanted && state.lines.has_news();
        if self.stage != Stage::Idle || self.next_waiters.is_empty() && !wanted {
            return;
        }
        assert!(self.waiters.is_empty(), "the waiters of the last commit were answered");
        assert!(self.outstanding == 0, "nothing of the last commit is under way");
        self.wanted = false;
        self.stage = Stage::Flushing;
        self.failed = None;
        self.waiters = std::mem::take(&mut self.next_waiters);
        met_if(self.waiters.len() > 1, "several wait for one commit");
        self.choose_slots(state);
        for side in [Side::Cache, Side::Origin] {
            let skips = match side {
                Side::Cache => mutant("fast_device_not_flushed"),
                Side::Origin => mutant("slow_device_not_flushed"),
            };
            if state.traffic.take_volatile(side) && !skips {
                self.outstanding += 1;
                state.send(side, Task::Flush { side }, Io::Flush);
            }
        }
        if self.outstanding == 0 {
            self.write_table(state);
        }
        let waits = self.outstanding > 0;
        assert!(waits == (self.stage != Stage::Idle), "a commit goes on when a device answers");
    }

    /// Step 1. A slot is dirty from the end of its write on, so what it holds comes before the
    /// flush.
    fn choose_slots(&mut self, state: &mut CacheState) {
        assert!(self.changing.is_empty(), "the slots of the last commit were settled");
        for slot in state.lines.take_news() {
            let marks = state.lines.marks(slot);
            let named = marks & mark::RECORDED != 0;
            match marks & mark::DIRTY != 0 {
                true if !named => state.lines.remark(slot, mark::RECORDED | mark::RECORDING, 0),
                false if named && marks & mark::FREEING == 0 => {
                    state.lines.remark(slot, mark::FREEING, 0)
                }
                _ => continue,
            }
            self.changing.push(slot);
        }
        let changes = |&slot: &u32| {
            state.lines.has(slot, mark::RECORDING) || state.lines.has(slot, mark::FREEING)
        };
        debug_assert!(self.changing.iter().all(changes), "a commit is about what changes");
        let distinct = self.changing.iter().collect::<BTreeSet<_>>().len();
        debug_assert!(distinct == self.changing.len(), "a commit is about a slot once");
    }

    /// A device is flushed, or is not.
    pub(crate) fn flushed(
        &mut self,
        state: &mut CacheState,
        side: Side,
        result: Result<Payload, DeviceError>,
    ) {
        assert!(self.stage == Stage::Flushing, "devices are flushed before the table is written");
        assert!(self.outstanding > 0, "each flush of a commit is answered once");
        if let Err(error) = result {
            // A device across a network keeps what it could not send.
            let keeps = side == Side::Origin && state.geometry.far;
            let forgets = matches!(error, DeviceError::Io | DeviceError::NoSpace) && !keeps;
            if forgets && !mutant("failed_flush_tried_again") {
                state.answers.forget();
            }
            if self.failed.is_none() || forgets {
                self.failed = Some(error);
            }
        }
        self.outstanding -= 1;
        if self.outstanding > 0 {
            return;
        }
        let Some(error) = self.failed else { return self.write_table(state) };
        // Which writes are durable is not known; the table stays as it was.
        met("a flush of a commit fails");
        state.traffic.set_volatile(!mutant("failed_flush_forgets_what_was_volatile"));
        self.end_commit(state, Err(error));
        if state.answers.have_forgotten() {
            met("a flush of a commit may have forgotten writes");
            state.fail(error);
        }
    }

    /// Step 3.
    fn write_table(&mut self, state: &mut CacheState) {
        assert!(self.stage == Stage::Flushing, "a table is written once a commit");
        assert!(self.outstanding == 0 && self.failed.is_none(), "and after its flushes ended well");
        self.stage = Stage::Writing;
        let mut sectors: Vec<u32> = self.changing.iter().map(|slot| slot / SECTOR_SLOTS).collect();
        sectors.sort_unstable();
        sectors.dedup();
        let count = sectors.len();
        let mut runs: Vec<Range<u32>> = Vec::new();
        for sector in sectors {
            match runs.last_mut() {
                Some(run) if run.end == sector && run.len() < RUN_SECTORS as usize => run.end += 1,
                _ => runs.push(sector..sector + 1),
            }
        }
        assert!(runs.iter().map(Range::len).sum::<usize>() == count, "runs have each sector once");
        met_if(runs.len() > 1, "a commit writes several runs of the table");
        for run in runs {
            self.outstanding += 1;
            self.write_sectors(state, run, 0);
        }
        if self.outstanding == 0 {
            self.end_commit(state, Ok(()));
        }
    }

    fn write_sectors(&self, state: &mut CacheState, sectors: Range<u32>, tries: u32) {
        let named = |slot: u32| {
            let marks =
                if slot < state.lines.slots() { state.lines.marks(slot) } else { mark::FREEING };
            let named = marks & (mark::RECORDED | mark::FREEING) == mark::RECORDED;
            if named { state.lines.line_in(slot) } else { None }
        };
        let mut bytes = Vec::new();
        for sector in sectors.clone() {
            encode_table(state.identity, sector, named, &mut bytes);
        }
        let ends_at = table_offset(sectors.end).0;
        assert!(ends_at <= state.lines.slot_offset(0).0, "the table ends before the first slot");
        assert!(bytes.len() == sectors.len() * SECTOR as usize, "sectors are whole");
        state.status.table.0 += bytes.len() as u64;
        let offset = table_offset(sectors.start);
        let fua = !mutant("table_not_forced");
        let io = Io::Write { offset, data: Payload::from(bytes), fua };
        state.send(Side::Cache, Task::Table { sectors, tries }, io);
    }

    /// A run of the table is written, or is not.
    pub(crate) fn table_written(
        &mut self,
        state: &mut CacheState,
        sectors: Range<u32>,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        assert!(self.stage == Stage::Writing, "the table is written in a commit");
        assert!(tries <= TRIES_MAX, "a sector is tried {TRIES_MAX} times at most");
        match result {
            Err(_) if tries < TRIES_MAX => {
                met("the table is written again");
                return self.write_sectors(state, sectors, tries + 1);
            }
            Err(_) if mutant("table_failure_ignored") => {}
            Err(error) => {
                met("the table cannot be written");
                state.fail(error);
            }
            Ok(_) => {}
        }
        assert!(self.outstanding > 0, "each write of a commit is answered once");
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.end_commit(
                state,
                match state.failure() {
                    None => Ok(()),
                    Some(_) => Err(DeviceError::Gone),
                },
            );
        }
    }

    /// Step 4. A commit that failed has written nothing of the table, or the cache has failed.
    fn end_commit(&mut self, state: &mut CacheState, result: Result<(), DeviceError>) {
        let done = result.is_ok();
        assert!(self.stage != Stage::Idle, "a commit ends once");
        assert!(self.outstanding == 0, "a commit ends when all devices have answered");
        self.stage = Stage::Idle;
        // A part of the table may have been written. What it names must not be used for other lines
        // any more: opened again, the cache would take those for the ones that are named.
        let unknown = state.failure().is_some();
        for slot in std::mem::take(&mut self.changing) {
            let named = state.lines.has(slot, mark::FREEING) != done;
            let cleared = if named || unknown { 0 } else { mark::RECORDED };
            assert!(
                state.lines.has(slot, mark::RECORDING) || state.lines.has(slot, mark::FREEING),
                "slot {slot} was settled while its commit went on"
            );
            state.lines.remark(slot, 0, cleared | mark::RECORDING | mark::FREEING);
            // What changed in the meantime, or is to be tried again.
            if state.lines.has(slot, mark::DIRTY) != named
                && !mutant("change_in_a_commit_not_noted")
            {
                met("a slot changes during its commit");
                state.lines.note(slot);
            }
        }
        for waiter in std::mem::take(&mut self.waiters) {
            state.answers.answer(waiter.ticket(), result.map(|()| Payload::EMPTY));
        }
    }

    /// The cache has failed: nobody waits for a commit that will not come.
    fn turn_away(&mut self, state: &mut CacheState) {
        assert!(state.failure().is_some(), "only a cache that has failed turns away");
        for waiter in std::mem::take(&mut self.next_waiters) {
            let refusal = state.answers.refusal();
            state.answers.answer(waiter.ticket(), Err(refusal));
        }
    }
}

#[cfg(test)]
mod tests;
