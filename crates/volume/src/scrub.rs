//! The scrub: reads what pools hold, holds it against its checksums and the copies against each
//! other, and repairs. This file says which chunk comes next; [`comparison`] looks at one.
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

use crate::group_state::service::Service;
use comparison::{Comparison, Purpose, comparison_of};
mod comparison;

use crate::below::Below;
use crate::group_state::GroupState;
use crate::map::ChunkMap;
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
    current: Option<Comparison>,
    counts: ScrubStatus,
}

impl Scrub {
    /// A write to `chunk` begins; whether the chunk was known to be damaged.
    pub(crate) fn disturb(&mut self, chunk: ChunkId) -> bool {
        if let Some(current) = self.current.as_mut().filter(|current| current.is_of(chunk)) {
            current.disturb();
        }
        let known = self.damaged.remove(&chunk);
        assert_eq!(self.urgent.len(), self.listed.len(), "a chunk stands in the list once");
        known
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
        assert_eq!(self.urgent.len(), self.listed.len(), "a chunk stands in the list once");
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

impl Scrub {
    /// Begins a scrub of all pools, or of one.
    pub(crate) fn begin(&mut self, map: &ChunkMap, pool: Option<PoolId>) {
        let volumes = (0..map.volume_count()).filter_map(|id| map.volume(VolumeId(id)));
        let total = volumes.map(|volume| u64::from(volume.chunks())).sum();
        let number = self.run.map_or(0, |run| run.number) + 1;
        let run = ScrubRun { number, pool, ended: false, passed: 0, total, skipped: 0 };
        self.run = Some(run);
        self.cursor = ChunkId::default();
        assert!(self.goes_on(), "it ends with the map, or when somebody ends it");
    }

    /// Ends the scrub that is under way, once what is on devices has come back; whether there was
    /// one.
    pub(crate) fn cancel(&mut self) -> bool {
        let found = self.goes_on();
        if let Some(run) = &mut self.run {
            run.ended = true;
        }
        assert!(!self.goes_on(), "nobody asks for more");
        found
    }

    /// State of scrubs, and counts of findings.
    pub(crate) fn status(&self) -> ScrubStatus {
        let Scrub { run, current, urgent, .. } = self;
        let running = self.goes_on() || current.is_some() || !urgent.is_empty();
        ScrubStatus { running, run: *run, ..self.counts }
    }

    /// The group closes: nothing more is begun.
    pub(crate) fn stop(&mut self) {
        self.cancel();
        self.urgent.clear();
        self.listed.clear();
        self.deferred.clear();
        assert!(!self.goes_on(), "a group that closes begins nothing");
    }

    /// Takes note that somebody read wrong contents from a copy of the chunk, so many blocks: it is
    /// looked at soon.
    pub(crate) fn mend(&mut self, chunk: ChunkId, blocks: u32) {
        self.counts.checksum_errors += u64::from(blocks);
        self.request(chunk, Purpose::Repair);
    }

    /// Takes the next step.
    pub(crate) fn pump(&mut self, below: &mut Below) {
        while !self.is_on_devices() {
            if below.group.service != Service::Ready {
                self.current = None;
                return;
            }
            if self.current.is_some() {
                if !self.compare_on(below) {
                    return;
                }
                continue;
            }
            if below.group.records_pile_up() && !mutant("scrub_adds_to_the_pile") {
                return; // A chunk that gets its tables adds a record.
            }
            let Some((chunk, purpose)) = self.next_to_compare(below) else { return };
            assert!(!self.listed.contains(&chunk), "who is looked at waits no more");
            self.current = comparison_of(below.group, chunk, purpose);
            if self.current.is_none() {
                self.pass_over(below, chunk, purpose);
            }
        }
    }

    /// The chunk cannot be looked at now.
    fn pass_over(&mut self, below: &mut Below, chunk: ChunkId, purpose: Purpose) {
        assert!(self.current.is_none(), "what is looked at is not passed over");
        if !below.group.map.has(chunk) || below.group.map.entry(chunk).first().is_none() {
            return;
        }
        match purpose {
            Purpose::Tables => below.checksums.watch(below.group, below.now, chunk),
            Purpose::Repair if below.group.operation_on(chunk).is_some() => {
                self.deferred.insert(chunk);
            }
            Purpose::Repair => {}
            Purpose::Scrub => {
                let run = self.run.as_mut().expect("a run asked for it");
                run.skipped += 1;
            }
        }
    }

    fn next_to_compare(&mut self, below: &mut Below) -> Option<(ChunkId, Purpose)> {
        if let Some((chunk, purpose)) = self.urgent.pop_front() {
            let listed = self.listed.remove(&chunk);
            assert!(listed, "a chunk stands in the list once");
            return Some((chunk, purpose));
        }
        if !self.goes_on() {
            return None;
        }
        for _ in 0..STEPS_MAX {
            let chunk = self.cursor;
            let run = self.run.as_mut().expect("it goes on");
            if chunk.volume.0 >= below.group.map.volume_count() {
                // Chunks of volumes that were deleted meanwhile were counted, and are not met.
                (run.ended, run.passed) = (true, run.total);
                return None;
            }
            if !below.group.map.has(chunk) {
                self.cursor = ChunkId { volume: VolumeId(chunk.volume.0 + 1), index: 0 };
                continue;
            }
            self.cursor.index += 1;
            run.passed = (run.passed + 1).min(run.total);
            let pool = run.pool;
            if is_in_scope(below.group, chunk, pool) {
                return Some((chunk, Purpose::Scrub));
            }
        }
        below.copy_throttle.wake_at(Nanos(below.now.0 + 1));
        None
    }
}

/// True if a scrub of `pool`, or of all, reads the chunk.
fn is_in_scope(group: &GroupState, chunk: ChunkId, pool: Option<PoolId>) -> bool {
    let overlay = group.map.overlay(chunk).map(|overlay| overlay.place);
    let mut places = group.map.copies(chunk).map(|copy| copy.place).chain(overlay);
    match pool {
        Some(pool) => places.any(|place| place.pool == pool),
        None => places.any(|place| !group.pools[place.pool].is_far()),
    }
}

#[cfg(test)]
mod tests;
