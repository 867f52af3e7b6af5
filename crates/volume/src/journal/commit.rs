//! Group commits: what each makes durable, and for whom.
//!
//! Every change of the map is queued as a record, in the order in which it became true. A commit
//!
//! 1. takes the records queued so far, with the blocks that arrived in overlays;
//! 2. flushes every pool that was written since its last flush, unless all records only say that
//!    writes are to come;
//! 3. writes the records to the journal on all its replicas, forced to the medium;
//! 4. tells everybody who waited, and lets go of the slots that the records free.
//!
//! So data is durable before a record says where it is, and a slot is not reused before the record
//! that frees it is durable. One commit runs at a time; whoever comes meanwhile shares the next. A
//! flush of a client is a commit, with or without records.

use crate::format::{Record, encode_record};
use crate::map::place::Place;
use crate::map::regions::Region;
use crate::sizes::COMMIT_BLOCKS_MAX;
use std::collections::VecDeque;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, PoolId};

/// Bytes of the record by which a chunk gets its first slot.
const OPENING_BYTES: usize = 20;

/// Switches of operations that wait for one another before a commit starts for them alone.
pub(crate) const SWITCHES_TOGETHER: usize = 16;

/// Blocks by which a commit may grow when one of its flushes ends a pool.
pub(super) const FOR_A_DEATH: u64 = 1;

const _: () =
    assert!(COMMIT_BLOCKS_MAX + FOR_A_DEATH <= u16::MAX as u64, "a block counts those before it");

/// Somebody who waits for a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A client's flush.
    Flush(u32),
    /// A forced write whose chunk is not yet durable where it is.
    SubRequest(u32),
    /// Writes to a chunk whose copies are about to differ.
    Intent(ChunkId),
    /// Writes to a chunk that has lost a copy.
    Dropped(ChunkId),
    /// Writes to a region of chunks.
    Region(Region),
    /// Sub-requests that must not add to what is queued.
    Room(ChunkId),
    /// A sub-request that found no free slot.
    Space(u32),
    /// An operation's switch.
    Switch(u32),
    /// A checkpoint that covers all that is queued; which attempt at one.
    Checkpoint(u64),
}

/// A record on its way to the journal.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) bytes: Vec<u8>,
    /// True if what was written before must be durable before it.
    needs_flush: bool,
    /// Slots that nobody refers to once the record is durable.
    pub(super) left: Vec<(ChunkId, Place)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    Flushing,
    Writing,
    /// A flush without records, for a checkpoint that takes them in.
    FlushingAlone,
}

/// The queue of records, those who wait for them, and the commit under way.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(super) stage: Stage,
    /// True if a commit shall run although nobody waits.
    pub(super) wanted: bool,
    queue: VecDeque<Change>,
    queued_bytes: usize,
    /// Slots being made ready, each of which will queue a record.
    openings: usize,
    /// Records of the commit under way.
    pub(super) taken: Vec<Change>,
    /// Waiters of the commit under way.
    pub(super) waiters: Vec<Waiter>,
    /// Waiters of a later one, with the number of records that must be taken before it serves them:
    /// those that were queued when the first commit after their arrival began.
    later_waiters: VecDeque<(u64, Waiter)>,
    /// Waiters that have come since a commit last began.
    next_waiters: Vec<Waiter>,
    /// Records that were ever queued.
    records: u64,
    /// Requests of the commit under way that are not answered.
    pub(super) outstanding: u32,
    pub(super) generation: u64,
    /// Sequence of the next block to be written.
    next: u64,
    /// Sequence of the first block that a recovery needs.
    start: u64,
    /// Blocks of the commit under way.
    pub(super) blocks: u64,
    /// Pools that hold the journal.
    pub(super) replicas: Vec<PoolId>,
    /// True if the commit under way has written its records and waits for replicas to be in force.
    pub(super) awaits_replicas: bool,
    /// True if a superblock that never came in force may be durable on a pool that has died. If it
    /// comes back, that one counts, and the journal of the replicas that it names, until there is a
    /// younger one.
    pub(super) superseded: bool,
    /// Records and waiters of commits that were written meanwhile.
    pub(super) held: (Vec<Change>, Vec<Waiter>),
}

impl Commit {
    /// Nothing is queued, and no replica is in force.
    pub(super) fn new(generation: u64) -> Commit {
        Commit {
            stage: Stage::Idle,
            wanted: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            openings: 0,
            taken: Vec::new(),
            waiters: Vec::new(),
            later_waiters: VecDeque::new(),
            next_waiters: Vec::new(),
            records: 0,
            outstanding: 0,
            generation,
            next: 0,
            start: 0,
            blocks: 0,
            replicas: Vec::new(),
            awaits_replicas: false,
            superseded: false,
            held: (Vec::new(), Vec::new()),
        }
    }

    /// Queues a record, and the slots that nobody refers to once it is durable.
    pub(super) fn queue(&mut self, record: &Record, left: Vec<(ChunkId, Place)>) {
        let mut bytes = Vec::with_capacity(24);
        encode_record(record, &mut bytes);
        assert!(!bytes.is_empty(), "a record says something");
        self.queued_bytes += bytes.len();
        self.records += 1;
        self.queue.push_back(Change { bytes, needs_flush: true, left });
    }

    /// Queues a record that says that writes are to come; whether what was written before must be
    /// durable before it.
    pub(crate) fn queue_announcement(&mut self, record: &Record, needs_flush: bool) {
        self.queue(record, Vec::new());
        let change = self.queue.back_mut().expect("just queued");
        change.needs_flush = needs_flush;
    }

    /// True if the commit under way says only that writes are to come, and tells nobody else.
    pub(super) fn only_announces(&self) -> bool {
        let waits_for_word = |waiter: &Waiter| {
            matches!(waiter, Waiter::Intent(_) | Waiter::Region(_) | Waiter::Room(_))
        };
        let told = self.waiters.iter().all(waits_for_word);
        told && !self.taken.is_empty() && !self.taken.iter().any(|change| change.needs_flush)
    }

    /// Queues a record in front of all others that are not yet on their way to the journal:
    /// whatever they say about the pool was not flushed there, and must not outlive this.
    pub(crate) fn queue_death(&mut self, pool: PoolId) {
        let mut bytes = Vec::new();
        encode_record(&Record::PoolDead(pool), &mut bytes);
        let change = Change { bytes, needs_flush: true, left: Vec::new() };
        if self.stage == Stage::Flushing {
            met_if(!self.taken.is_empty(), "death record in front of a commit under way");
            match mutant("death_record_last") {
                true => self.taken.push(change),
                false => self.taken.insert(0, change),
            }
            assert!(self.outstanding > 0, "the commit has not framed its records");
        } else {
            self.queued_bytes += change.bytes.len();
            self.records += 1;
            // Who waits for the last record queued waits for one more.
            self.later_waiters.iter_mut().for_each(|(records, _)| *records += 1);
            met_if(!self.queue.is_empty(), "death record in front of others");
            match mutant("death_record_last") {
                true => self.queue.push_back(change),
                false => self.queue.push_front(change),
            }
        }
        self.check_invariants();
    }

    /// True if a waiter is served by a commit that starts now. Who waits for room is not when no
    /// record is queued and slots that are being made ready take the room: an empty commit would
    /// let it look again, find no room and wait, for ever. A switch waits for others, for each
    /// commit flushes pools that clients use: `hurried` says that no other is on its way.
    pub(super) fn someone_waits(&self, has_changes: bool, hurried: bool) -> bool {
        let room_comes = has_changes || self.openings == 0;
        let together = hurried || self.switches_waiting() >= SWITCHES_TOGETHER;
        let served = |waiter: &Waiter| match waiter {
            Waiter::Room(_) | Waiter::Space(_) => room_comes,
            Waiter::Switch(_) => together,
            _ => true,
        };
        !self.later_waiters.is_empty() || self.next_waiters.iter().any(served)
    }

    /// Operations whose switch no commit has begun to make durable.
    pub(crate) fn switches_waiting(&self) -> usize {
        self.next_waiters.iter().filter(|waiter| matches!(waiter, Waiter::Switch(_))).count()
    }

    /// Moves the waiters into the commit whose records are all taken. Whoever has come since a
    /// commit last began may wait for the last record that is queued now.
    pub(super) fn take_waiters(&mut self) {
        let records = self.records;
        assert!(self.waiters.is_empty(), "those of the commit before have been told");
        self.later_waiters.extend(
            std::mem::take(&mut self.next_waiters).into_iter().map(|waiter| (records, waiter)),
        );
        let left = match mutant("flush_answered_with_records_left") {
            true => 0,
            false => self.queue.len() as u64,
        };
        while let Some((_, waiter)) =
            self.later_waiters.pop_front_if(|(by, _)| *by + left <= records)
        {
            self.waiters.push(waiter);
        }
        let served = self.later_waiters.is_empty();
        assert!(served || self.is_queued(), "who waits on waits for records that are queued");
        self.check_invariants();
    }

    /// A commit shall run although nobody waits.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// A slot is being made ready, which will queue a record.
    pub(super) fn expect_record(&mut self) {
        self.openings += 1;
    }

    /// The slot is ready, or given up.
    pub(super) fn expected_record_came(&mut self) {
        assert!(self.openings > 0, "each slot that is made ready ends once");
        self.openings -= 1;
    }

    /// Bytes of records that are queued, or will be.
    pub(super) fn bytes_queued(&self) -> usize {
        self.queued_bytes + self.openings * OPENING_BYTES
    }

    /// True if records are queued that no commit has taken.
    pub(super) fn is_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Moves records into the commit, in their order: as many as fill so many blocks with so many
    /// bytes each.
    pub(super) fn take(&mut self, blocks_max: u64, payload: usize) {
        assert!(self.taken.is_empty(), "the commit before has ended");
        let (mut blocks, mut used) = (0, payload);
        while let Some(change) = self.queue.front() {
            if used + change.bytes.len() > payload {
                if blocks == blocks_max {
                    break;
                }
                blocks += 1;
                used = 0;
            }
            used += change.bytes.len();
            let change = self.queue.pop_front().expect("looked at it");
            self.queued_bytes -= change.bytes.len();
            self.taken.push(change);
        }
        self.blocks = blocks;
        assert!(blocks <= blocks_max, "a commit writes no more than there is room for");
        met_if(!self.queue.is_empty(), "commit took a part of the queue");
    }

    /// Counts agree with what is counted.
    fn check_invariants(&self) {
        let bytes = |queue: &VecDeque<Change>| queue.iter().map(|change| change.bytes.len()).sum();
        debug_assert_eq!(self.queued_bytes, bytes(&self.queue), "bytes of what is queued");
        let waits = self.later_waiters.iter().map(|(records, _)| *records);
        debug_assert!(waits.clone().is_sorted(), "who came first is served first");
        debug_assert!(waits.max().is_none_or(|most| most <= self.records), "nobody waits in vain");
    }

    /// Sequence of the next block to be written.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Blocks that a recovery needs.
    pub(super) fn used(&self) -> u64 {
        self.next - self.start
    }

    /// The blocks of the commit under way are written.
    pub(super) fn advance(&mut self) {
        self.next += std::mem::take(&mut self.blocks);
    }

    /// A recovery needs no block before this one.
    pub(super) fn forget_before(&mut self, start: u64) {
        assert!((self.start..=self.next).contains(&start), "a journal is forgotten from its front");
        self.start = start;
    }

    /// Joins the next commit.
    pub(crate) fn join(&mut self, waiter: Waiter) {
        self.next_waiters.push(waiter);
    }

    /// True if a record waits for durability.
    pub(crate) fn has_records(&self) -> bool {
        !self.queue.is_empty() || !self.taken.is_empty()
    }

    /// True if some queued record will free a slot.
    pub(crate) fn will_free(&self) -> bool {
        self.changes().any(|change| !change.left.is_empty())
    }

    /// Records that nothing may rely on yet.
    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.queue.iter().chain(&self.taken).chain(&self.held.0)
    }

    /// True if nothing is queued, under way or wanted.
    pub(crate) fn is_settled(&self) -> bool {
        self.stage == Stage::Idle
            && !self.has_records()
            && self.waiters.is_empty()
            && self.later_waiters.is_empty()
            && self.next_waiters.is_empty()
            && self.held.0.is_empty()
            && self.held.1.is_empty()
    }

    /// True if no commit is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// A superblock that is younger than the one in force may come back.
    pub(crate) fn supersede(&mut self) {
        self.superseded = true;
    }

    /// A pool has died: it is no replica any longer.
    pub(crate) fn replica_lost(&mut self, pool: PoolId) {
        self.replicas.retain(|&replica| replica != pool);
    }

    /// Slots that queued records will free.
    pub(crate) fn places_left(&self) -> impl Iterator<Item = Place> + '_ {
        self.changes().flat_map(|change| change.left.iter().map(|&(_, place)| place))
    }
}
