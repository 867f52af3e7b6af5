//! The store's side of commits: flush, journal, and what is done for those who waited; and the
//! trailers of segments, which come and go when records are durable.

use crate::checkpoint::Mode;
use crate::commit::{COMMIT_BLOCKS_MAX, Stage, Waiter};
use crate::format::{Head, Kind, encode_trailer, seal_block};
use crate::name::BLOCK;
use crate::segments::State;
use crate::store::{Store, Task, offset};
use thermocline_ports::{Device, DeviceError, Io, Payload};
use thermocline_units::Bytes;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Number of times a failed write of metadata is repeated before the store stops.
pub(crate) const TRIES_MAX: u32 = 3;

impl<D: Device> Store<D> {
    /// Starts a commit when one is wanted, and serves waiters whose records are durable.
    pub(crate) fn pump_commit(&mut self) {
        self.serve();
        if self.commit.stage != Stage::Idle || self.checkpoint.holds_commits() {
            return;
        }
        let ring = u64::from(self.layout.journal_blocks);
        let pile = (ring / 4).min(COMMIT_BLOCKS_MAX as u64) as usize;
        let someone =
            self.commit.has_waiters() || self.commit.wanted || self.checkpoint.is_wanted();
        if self.commit.is_settled() || (!someone && self.commit.queued() < pile) {
            self.commit.wanted = false;
            return;
        }
        if self.commit.used() * 2 > ring {
            self.checkpoint.want(Mode::Beside);
        }
        let room = ring.saturating_sub(self.commit.used()) as usize;
        if room == 0 {
            met("journal was full");
            self.checkpoint.want(Mode::Instead);
            return;
        }
        self.commit.wanted = false;
        let has_all = self.commit.take(room.min(COMMIT_BLOCKS_MAX));
        met_if(!has_all, "commit took a part of the records");
        met_if(self.commit.taken.len() > 1, "commit of several blocks");
        self.commit.stage = Stage::Flushing;
        if has_all && self.checkpoint.is_wanted() {
            self.capture(Mode::Beside);
        }
        if self.is_volatile && !mutant("record_before_its_block") {
            self.is_volatile = false;
            self.send(Task::CommitFlush, Io::Flush);
        } else {
            self.write_journal();
        }
    }

    pub(crate) fn commit_flushed(&mut self, result: Result<Payload, DeviceError>) {
        match result {
            Ok(_) => self.write_journal(),
            // What was to become durable may be forgotten: nothing that was not acknowledged.
            Err(error) => self.stop(error),
        }
    }

    fn write_journal(&mut self) {
        self.commit.stage = Stage::Writing;
        let count = self.commit.taken.len() as u32;
        let ring = u64::from(self.layout.journal_blocks);
        let to_end = (ring - self.commit.next % ring).min(u64::from(count)) as u32;
        met_if(to_end < count, "commit across the journal's end");
        self.commit.outstanding = 0;
        for (first, end) in [(0, to_end), (to_end, count)] {
            if first < end {
                self.commit.outstanding += 1;
                self.send_journal(first, end - first, 0);
            }
        }
    }

    fn send_journal(&mut self, first: u32, count: u32, tries: u32) {
        let mut data = Vec::with_capacity((count * BLOCK) as usize);
        let sequence = self.commit.next + u64::from(first);
        for index in first..first + count {
            let head = Head {
                identity: self.identity,
                generation: self.commit.generation,
                sequence: self.commit.next + u64::from(index),
                part: if mutant("block_forgets_its_commit") { 0 } else { index as u16 },
                extra: 0,
            };
            seal_block(Kind::Journal, head, &self.commit.taken[index as usize].bytes, &mut data);
        }
        let offset = offset(self.layout.journal(sequence));
        let fua = !mutant("journal_not_forced");
        let io = Io::Write { offset, data: Payload::from(data), fua };
        self.send(Task::Journal { first, count, tries }, io);
    }

    pub(crate) fn journal_written(
        &mut self,
        first: u32,
        count: u32,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        match result {
            Ok(_) => {
                self.commit.outstanding -= 1;
                if self.commit.outstanding == 0 {
                    self.counters.commits += 1;
                    self.counters.journal_blocks += self.commit.taken.len() as u64;
                    self.commit.written();
                    self.serve();
                }
            }
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                met("journal written again");
                self.send_journal(first, count, tries + 1);
            }
            Err(error) => self.stop(error),
        }
    }

    /// Carries out the actions of all waiters whose records are durable.
    pub(crate) fn serve(&mut self) {
        while let Some(waiter) = self.commit.served() {
            match waiter {
                Waiter::Answer(id, completed) => self.answer(id, Ok(completed)),
                Waiter::Free(numbers) => self.free_swept(numbers),
                Waiter::Seal(segment) => self.seal(segment),
                Waiter::Wipe(segment) => self.room.leaving.push(segment),
            }
        }
    }

    /// Notes that the write of a slot ended, `None` if it failed. Queues the trailer of its segment
    /// if that was the last slot.
    pub(crate) fn slot_written(&mut self, place: u32, stored: Option<crate::format::Stored>) {
        if let Some(segment) = self.segments.written(place, stored) {
            self.commit.join(Waiter::Seal(segment));
        }
    }

    /// Writes the trailer of a full segment whose blocks are durable.
    fn seal(&mut self, segment: u32) {
        let unsealed = &self.segments.unsealed[&segment];
        let head = Head {
            identity: self.identity,
            generation: unsealed.sequence,
            sequence: u64::from(segment),
            part: 0,
            extra: u32::from(unsealed.class),
        };
        let data = Payload::from(encode_trailer(head, &unsealed.entries));
        self.segments.get_mut(segment).state = State::Sealing;
        met("segment sealed");
        self.send_seal(segment, data, 0);
    }

    fn send_seal(&mut self, segment: u32, data: Payload, tries: u32) {
        let offset = offset(u64::from(self.layout.trailer(segment)));
        let io = Io::Write { offset, data: data.clone(), fua: true };
        self.send(Task::Seal { segment, data, tries }, io);
    }

    pub(crate) fn seal_written(
        &mut self,
        segment: u32,
        data: Payload,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        match result {
            Ok(_) => self.segments.sealed(segment),
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                self.send_seal(segment, data, tries + 1);
            }
            Err(error) => self.stop(error),
        }
    }

    /// Lets go of segments that nothing lies on: their trailers are wiped as soon as the records
    /// that left them are durable and nobody reads there.
    pub(crate) fn pump_segments(&mut self) {
        for segment in std::mem::take(&mut self.segments.emptied) {
            if mutant("segment_free_before_the_moves_are_durable") {
                self.room.leaving.push(segment);
            } else {
                self.commit.join(Waiter::Wipe(segment));
            }
        }
        let leaving = std::mem::take(&mut self.room.leaving);
        for segment in leaving {
            let is_read = self.segments.get(segment).readers > 0;
            met_if(is_read, "emptied segment waited for a read");
            if is_read && !mutant("segment_free_under_a_read") {
                self.room.leaving.push(segment);
            } else {
                self.send_wipe(segment, 0);
            }
        }
    }

    fn send_wipe(&mut self, segment: u32, tries: u32) {
        let offset = offset(u64::from(self.layout.trailer(segment)));
        let io = Io::Write { offset, data: Payload::Zeroes(BLOCK), fua: true };
        self.send(Task::Wipe { segment, tries }, io);
    }

    pub(crate) fn wiped(&mut self, segment: u32, tries: u32, result: Result<Payload, DeviceError>) {
        match result {
            Ok(_) if self.settings.discard => {
                let offset = offset(u64::from(self.layout.first_slot(segment)));
                let length = Bytes(u64::from(self.layout.slots()) * u64::from(BLOCK));
                self.send(Task::Discard { segment }, Io::Discard { offset, length });
            }
            Ok(_) => self.segments.free(segment),
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                self.send_wipe(segment, tries + 1);
            }
            Err(error) => self.stop(error),
        }
    }
}
