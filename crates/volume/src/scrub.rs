//! The scrub: reads what pools hold, holds it against its checksums and the copies against each
//! other, and repairs. This file says which chunk comes next; [`crate::comparison`] looks at one.
//!
//! 1. Somebody asks for a scrub, of all pools or of one: it goes through the map from its beginning
//!    to its end, behind the throttle of operations.
//! 2. In front of it go chunks that something is known of: those in which a read found wrong
//!    contents, and those that have come to rest and get tables of checksums.
//! 3. Chunks under an operation, or in two parts after one, are passed over. Where a read found
//!    wrong contents in one, it comes again when the operation has ended.
//!
//! A chunk in which nothing could be repaired is remembered as damaged: reads that meet it again do
//! not start anything. A write to it, or a scrub that finds it well, forgets that.

use crate::comparison::{Comparison, Purpose};
use crate::group::{Group, Service};
use crate::map::NONE;
use std::collections::{BTreeSet, VecDeque};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Chunks of the map that are looked at in one go.
const STEPS_MAX: u32 = 1 << 20;

/// State of scrubs, and counts of findings since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrubStatus {
    /// True if somebody asked for a scrub that has not ended, or a chunk is being looked at or
    /// waits for it.
    pub running: bool,
    /// The scrub under way, or the last one; none: nobody has asked for any.
    pub run: Option<ScrubRun>,
    /// Chunks whose copies were read to the end.
    pub chunks: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Blocks found with other contents than their checksums say, in all copies together.
    pub checksum_errors: u64,
    /// Pieces of copies that could not be read.
    pub unreadable: u64,
    /// Blocks of copies that were written again from a right copy.
    pub repaired: u64,
    /// Copies dropped, to be made anew.
    pub dropped: u64,
    /// Blocks that no copy has as their checksums say, or that cannot be read anywhere.
    pub unrepairable: u64,
    /// Blocks in which copies differ, without a checksum that says which is right.
    pub undecided: u64,
    /// Tables of checksums that were written again.
    pub tables_repaired: u64,
}

/// A scrub that somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubRun {
    /// Counts those that were asked for since the group was opened, from 1.
    pub number: u64,
    /// The only pool whose chunks it reads; none: all that are not across a network.
    pub pool: Option<PoolId>,
    /// True if it has ended.
    pub ended: bool,
    /// Chunks of volumes that it has passed, whether they hold something or not.
    pub passed: u64,
    /// Chunks of volumes when it began.
    pub total: u64,
    /// Chunks that it could not look at: under an operation, or in two parts.
    pub skipped: u64,
}

/// Chunks that wait to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    run: Option<ScrubRun>,
    /// Chunk at which the run goes on.
    cursor: ChunkId,
    /// Chunks in front of it, each once.
    urgent: VecDeque<(ChunkId, Purpose)>,
    listed: BTreeSet<ChunkId>,
    /// Chunks that come again when their operation has ended.
    deferred: BTreeSet<ChunkId>,
    /// Chunks in which something cannot be repaired.
    damaged: BTreeSet<ChunkId>,
    pub(crate) current: Option<Comparison>,
    pub(crate) status: ScrubStatus,
}

impl Scrub {
    /// A write to `chunk` begins; whether the chunk was known to be damaged.
    pub(crate) fn disturb(&mut self, chunk: ChunkId) -> bool {
        if let Some(current) = self.current.as_mut().filter(|current| current.is_of(chunk)) {
            current.disturb();
        }
        self.damaged.remove(&chunk)
    }

    /// Gives a chunk its tables soon.
    pub(crate) fn request_tables(&mut self, chunk: ChunkId) {
        self.request(chunk, Purpose::Tables);
    }

    fn request(&mut self, chunk: ChunkId, purpose: Purpose) {
        let known = purpose == Purpose::Repair && self.damaged.contains(&chunk);
        let current = self.current.as_ref().is_some_and(|current| current.is_of(chunk));
        if !current && !known && self.listed.insert(chunk) {
            self.urgent.push_back((chunk, purpose));
        }
    }

    /// An operation on the chunk has ended.
    pub(crate) fn operation_ended(&mut self, chunk: ChunkId) {
        if self.deferred.remove(&chunk) {
            self.request(chunk, Purpose::Repair);
        }
    }

    /// Nothing could be done for what is wrong in a chunk.
    pub(crate) fn note_damaged(&mut self, chunk: ChunkId) {
        self.damaged.insert(chunk);
    }

    pub(crate) fn note_well(&mut self, chunk: ChunkId) {
        self.damaged.remove(&chunk);
    }

    fn goes_on(&self) -> bool {
        self.run.is_some_and(|run| !run.ended)
    }

    /// True if requests of the scrub are on devices.
    pub(crate) fn is_on_devices(&self) -> bool {
        self.current.as_ref().is_some_and(Comparison::is_on_devices)
    }
}

impl Group {
    /// Begins a scrub of all pools, or of one; true if the group is in service.
    pub(crate) fn begin_scrub(&mut self, pool: Option<PoolId>) -> bool {
        if self.service != Service::Ready {
            return false;
        }
        let volumes = (0..self.map.volume_count()).filter_map(|id| self.map.volume(VolumeId(id)));
        let total = volumes.map(|volume| volume.entries.len() as u64).sum();
        let number = self.scrub.run.map_or(0, |run| run.number) + 1;
        let run = ScrubRun { number, pool, ended: false, passed: 0, total, skipped: 0 };
        self.scrub.run = Some(run);
        self.scrub.cursor = ChunkId::default();
        true
    }

    /// Ends the scrub that is under way, once what is on devices has come back; whether there was
    /// one.
    pub fn cancel_scrub(&mut self) -> bool {
        let found = self.scrub.goes_on();
        if let Some(run) = &mut self.scrub.run {
            run.ended = true;
        }
        found
    }

    /// State of scrubs, and counts of findings.
    pub fn scrub_status(&self) -> ScrubStatus {
        let Scrub { run, current, urgent, .. } = &self.scrub;
        let running = self.scrub.goes_on() || current.is_some() || !urgent.is_empty();
        ScrubStatus { running, run: *run, ..self.scrub.status }
    }

    /// The group closes: nothing more is begun.
    pub(crate) fn stop_scrub(&mut self) {
        self.cancel_scrub();
        self.scrub.urgent.clear();
        self.scrub.listed.clear();
        self.scrub.deferred.clear();
    }

    /// Somebody read wrong contents from a copy of the chunk: it is looked at soon.
    pub(crate) fn mend(&mut self, chunk: ChunkId) {
        self.scrub.request(chunk, Purpose::Repair);
    }

    /// Takes the next step.
    pub(crate) fn pump_scrub(&mut self, now: Nanos) {
        while !self.scrub.is_on_devices() {
            if self.service != Service::Ready {
                self.scrub.current = None;
                return;
            }
            if self.scrub.current.is_some() {
                if !self.compare_on(now) {
                    return;
                }
                continue;
            }
            if self.records_pile_up() && !mutant("scrub_adds_to_the_pile") {
                return; // A chunk that gets its tables adds a record.
            }
            let Some((chunk, purpose)) = self.next_to_compare(now) else { return };
            self.scrub.current = self.comparison_of(chunk, purpose);
            if self.scrub.current.is_none() {
                self.pass_over(now, chunk, purpose);
            }
        }
    }

    /// The chunk cannot be looked at now.
    fn pass_over(&mut self, now: Nanos, chunk: ChunkId, purpose: Purpose) {
        if !self.map.has(chunk) || self.map.entry(chunk).first().is_none() {
            return;
        }
        match purpose {
            Purpose::Tables => self.watch(now, chunk),
            Purpose::Repair if self.operation_on(chunk).is_some() => {
                self.scrub.deferred.insert(chunk);
            }
            Purpose::Repair => {}
            Purpose::Scrub => {
                let run = self.scrub.run.as_mut().expect("a run asked for it");
                run.skipped += 1;
            }
        }
    }

    fn next_to_compare(&mut self, now: Nanos) -> Option<(ChunkId, Purpose)> {
        if let Some((chunk, purpose)) = self.scrub.urgent.pop_front() {
            self.scrub.listed.remove(&chunk);
            return Some((chunk, purpose));
        }
        if !self.scrub.goes_on() {
            return None;
        }
        for _ in 0..STEPS_MAX {
            let chunk = self.scrub.cursor;
            let run = self.scrub.run.as_mut().expect("it goes on");
            if chunk.volume.0 >= self.map.volume_count() {
                run.ended = true;
                return None;
            }
            if !self.map.has(chunk) {
                self.scrub.cursor = ChunkId { volume: VolumeId(chunk.volume.0 + 1), index: 0 };
                continue;
            }
            self.scrub.cursor.index += 1;
            run.passed = (run.passed + 1).min(run.total);
            let pool = run.pool;
            if self.is_in_scope(chunk, pool) {
                return Some((chunk, Purpose::Scrub));
            }
        }
        self.throttle.wake_at(Nanos(now.0 + 1));
        None
    }

    fn is_in_scope(&self, chunk: ChunkId, pool: Option<PoolId>) -> bool {
        let overlay = self.map.overlay(chunk).map(|overlay| overlay.place);
        let mut places = self.map.copies(chunk).map(|copy| copy.place).chain(overlay);
        match pool {
            Some(pool) => places.any(|place| place.pool == pool),
            None => places.any(|place| !self.pools[place.pool].is_far()),
        }
    }

    /// True if a chunk may get tables: it has none, nobody is on it, it is here, and there is room.
    pub(crate) fn may_get_tables(&self, chunk: ChunkId) -> bool {
        let entry = self.map.entry(chunk);
        let idle = entry.traffic == NONE && !entry.is_sealed();
        idle && self.can_have_tables(chunk)
    }
}
