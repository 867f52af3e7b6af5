//! Making changes durable: group commits of flush and journal.
//!
//! A group commit takes the pages filled so far, flushes the device (so that the blocks that the
//! records name are durable), writes the pages to the journal with FUA, and serves the waiters
//! whose records are durable. One group commit runs at a time; requests that come meanwhile share
//! the next.

use crate::format::{Head, Kind, seal_block};
use crate::journal::{Page, Waiter};
use crate::name::BLOCK;
use crate::state::{Effect, Mode, Progress, StoreState};
use crate::tasks::{TRIES_MAX, Task, offset};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Pages of one group commit.
const COMMIT_BLOCKS_MAX: usize = 256;

/// The group commit that is under way, if any.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    taken: Vec<Page>,
    /// Writes of the journal under way.
    outstanding: u32,
}

impl Commits {
    /// Starts a group commit when one is wanted.
    pub(crate) fn pump(&mut self, state: &mut StoreState, progress: Progress) {
        let is_instead = state.wants.checkpoint == Some(Mode::Instead);
        let holds = progress.checkpoint_holds_commits || is_instead && !progress.is_checkpointing;
        if state.journal.is_busy() || holds {
            return;
        }
        let is_wanted =
            |state: &StoreState| state.wants.checkpoint.is_some() && !progress.is_checkpointing;
        let ring = u64::from(state.layout.journal_blocks);
        let pile = (ring / 4).min(COMMIT_BLOCKS_MAX as u64) as usize;
        let someone = state.journal.has_waiters() || state.wants.commit || is_wanted(state);
        if state.journal.is_settled() || (!someone && state.journal.queued() < pile) {
            state.wants.commit = false;
            return;
        }
        if state.journal.used() * 2 > ring {
            state.wants.checkpoint(Mode::Beside);
        }
        let room = ring.saturating_sub(state.journal.used()) as usize;
        if room == 0 {
            met("journal was full");
            state.wants.checkpoint(Mode::Instead);
            return;
        }
        state.wants.commit = false;
        let (taken, has_all) = state.journal.take(room.min(COMMIT_BLOCKS_MAX));
        self.taken = taken;
        met_if(!has_all, "commit took a part of the records");
        met_if(self.taken.len() > 1, "commit of several blocks");
        if has_all && is_wanted(state) {
            state.emit(Effect::AllTaken);
        }
        if state.is_volatile && !mutant("record_before_its_block") {
            state.is_volatile = false;
            state.send(Task::CommitFlush, Io::Flush);
        } else {
            self.write_journal(state);
        }
    }

    /// The device was flushed, or was not.
    pub(crate) fn flushed(&mut self, state: &mut StoreState, result: Result<Payload, DeviceError>) {
        match result {
            Ok(_) => self.write_journal(state),
            // What was to become durable may be forgotten: nothing that was not acknowledged.
            Err(error) => state.stop(error),
        }
    }

    fn write_journal(&mut self, state: &mut StoreState) {
        let count = self.taken.len() as u32;
        let ring = u64::from(state.layout.journal_blocks);
        let to_end = (ring - state.journal.next_block() % ring).min(u64::from(count)) as u32;
        met_if(to_end < count, "commit across the journal's end");
        self.outstanding = 0;
        for (first, end) in [(0, to_end), (to_end, count)] {
            if first < end {
                self.outstanding += 1;
                self.send_journal(state, first, end - first, 0);
            }
        }
    }

    fn send_journal(&self, state: &mut StoreState, first: u32, count: u32, tries: u32) {
        let mut data = Vec::with_capacity((count * BLOCK) as usize);
        let sequence = state.journal.next_block() + u64::from(first);
        for index in first..first + count {
            let head = Head {
                identity: state.identity,
                generation: state.journal.generation(),
                sequence: state.journal.next_block() + u64::from(index),
                part: if mutant("block_forgets_its_commit") { 0 } else { index as u16 },
                extra: 0,
            };
            seal_block(Kind::Journal, head, &self.taken[index as usize].bytes, &mut data);
        }
        let offset = offset(state.layout.journal(sequence));
        let fua = !mutant("journal_not_forced");
        let io = Io::Write { offset, data: Payload::from(data), fua };
        state.send(Task::Journal { first, count, tries }, io);
    }

    /// Blocks of the journal were written, or were not.
    pub(crate) fn journal_written(
        &mut self,
        state: &mut StoreState,
        first: u32,
        count: u32,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        match result {
            Ok(_) => {
                self.outstanding -= 1;
                if self.outstanding == 0 {
                    let taken = std::mem::take(&mut self.taken);
                    state.counters.commits += 1;
                    state.counters.journal_blocks += taken.len() as u64;
                    state.journal.written(&taken);
                    serve(state);
                }
            }
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                met("journal written again");
                self.send_journal(state, first, count, tries + 1);
            }
            Err(error) => state.stop(error),
        }
    }
}

/// Carries out the actions of all waiters whose records are durable.
pub(crate) fn serve(state: &mut StoreState) {
    while let Some(waiter) = state.journal.served() {
        match waiter {
            Waiter::Answer(id, completed) => state.answer(id, Ok(completed)),
            Waiter::Free(numbers) => state.emit(Effect::Swept(numbers)),
            Waiter::Seal(segment) => state.emit(Effect::Seal(segment)),
            Waiter::Wipe(segment) => state.emit(Effect::Leave(segment)),
        }
    }
}
