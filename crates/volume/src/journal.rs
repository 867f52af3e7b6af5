//! The journal: makes changes of the map durable, and writes the map out so that older changes can
//! be forgotten.
//!
//! - [`commit`]: what is queued, and who waits for it;
//! - [`group_commit`]: how a group commit runs;
//! - [`checkpoint`]: how the whole map is written.
//!
//! A machine of its own above the pools. It is told of changes, of waiters and of answered
//! requests; it reads pools and map through [`Below`]. It answers with [`Outcome`]s, in the order
//! in which they became true. Who waited for what is the business of those above.

pub(crate) mod settling;

mod checkpoint;
pub(crate) mod commit;
mod group_commit;

use crate::format::{Record, Superblock};
use crate::journal::checkpoint::Checkpoint;
use crate::journal::commit::Commit;
use crate::journal::commit::Waiter;
use crate::map::place::Place;
use crate::map::{ChunkMap, ChunkState};
use crate::pools::layout::Need;
use crate::pools::pool::PoolState;
use crate::pools::{Pools, Sizes};
use crate::sizes::COMMIT_BLOCKS_MAX;
use thermocline_ports::Payload;
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, Nanos, PoolId};

/// The machines below the journal, and the moment, for one step of it.
pub(crate) struct Below<'a> {
    pub(crate) now: Nanos,
    pub(crate) pools: &'a mut Pools,
    pub(crate) map: &'a ChunkMap,
    /// A chunk as the journal must say it: as it is once all that is queued is durable.
    pub(crate) state_of: &'a dyn Fn(ChunkId) -> ChunkState,
}

impl Below<'_> {
    /// Room that a checkpoint must have.
    fn need(&self) -> Need {
        self.pools.need(self.map.overlays(), self.map.living_volumes())
    }
}

/// Reasons for a commit that the journal does not know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitDemand {
    /// True if some change of the map has no record yet.
    pub(crate) unsaved: bool,
    /// True if operations that wait for their switch wait in vain for others.
    pub(crate) hurried: bool,
}

/// Something that became true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Records are durable.
    Durable {
        /// Slots that nobody refers to any more.
        left: Vec<(ChunkId, Place)>,
        /// Those who waited.
        waiters: Vec<Waiter>,
    },
    /// A checkpoint is in force.
    InForce {
        /// The states of the pools, by id, that its superblocks name.
        states: Vec<PoolState>,
    },
    /// No pool is left that could hold the journal.
    NoReplica,
}

/// The journal of a group: what is queued for it, and the commit and the checkpoint under way.
#[derive(Debug)]
pub(crate) struct Journal {
    /// The number that no other group has.
    identity: u64,
    commit: Commit,
    checkpoint: Checkpoint,
    outcomes: Vec<Outcome>,
}

impl Journal {
    /// That of a group which is made now.
    pub(crate) fn new(identity: u64) -> Journal {
        Journal {
            identity,
            commit: Commit::new(1),
            checkpoint: Checkpoint::new(0, 0, 0),
            outcomes: Vec::new(),
        }
    }

    /// That of a group which was read by this superblock; its first block gets this generation.
    pub(crate) fn recovered(superblock: &Superblock, generation: u64) -> Journal {
        let Superblock { identity, sequence, area, checkpoint_blocks, .. } = *superblock;
        Journal {
            identity,
            commit: Commit::new(generation),
            checkpoint: Checkpoint::new(sequence, area, checkpoint_blocks),
            outcomes: Vec::new(),
        }
    }

    /// The number that no other group has.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// Sets the identity, before anything was written.
    pub(crate) fn set_identity(&mut self, identity: u64) {
        assert!(self.written() == 0, "an identity is for good");
        self.identity = identity;
    }

    /// True if something became true that nobody has been told of.
    pub(crate) fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// Takes what became true since this was last called.
    pub(crate) fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Queues a record about `chunk`; once it is durable, nobody refers to the slots in `left`.
    pub(crate) fn change(&mut self, record: &Record, chunk: ChunkId, left: &[Place]) {
        let leaves = |place: &Place| self.places_left().any(|left| left == *place);
        debug_assert!(!left.iter().any(leaves), "a slot is left once");
        let freed = |left: &[Place]| left.iter().map(|&place| (chunk, place)).collect();
        if mutant("slot_reused_before_the_record") {
            self.commit.queue(record, Vec::new());
            self.outcomes.push(Outcome::Durable { left: freed(left), waiters: Vec::new() });
            return;
        }
        self.commit.queue(record, freed(left));
    }

    /// Queues a record that frees nothing.
    pub(crate) fn record(&mut self, record: &Record) {
        self.commit.queue(record, Vec::new());
    }

    /// Queues a record that says that writes are to come; `needs_flush`: what was written before
    /// must be durable before it.
    pub(crate) fn announce(&mut self, record: &Record, needs_flush: bool) {
        self.commit.queue_announcement(record, needs_flush);
    }

    /// Queues a record of a pool's death in front of all others that are not yet on their way.
    pub(crate) fn record_death(&mut self, pool: PoolId) {
        self.commit.queue_death(pool);
    }

    /// A pool has died: it holds the journal no longer, and the next superblock says so.
    pub(crate) fn lose(&mut self, pool: PoolId) {
        self.commit.replica_lost(pool);
        self.checkpoint.want();
    }

    /// A slot is being made ready: its chunk will queue a record of its first slot.
    pub(crate) fn expect_record(&mut self) {
        self.commit.expect_record();
    }

    /// That slot is ready, or given up.
    pub(crate) fn expected_record_came(&mut self) {
        self.commit.expected_record_came();
    }

    /// Joins the next commit.
    pub(crate) fn join(&mut self, waiter: Waiter) {
        self.commit.join(waiter);
    }

    /// Wants a commit although nobody waits.
    pub(crate) fn want_commit(&mut self) {
        self.commit.want();
    }

    /// Wants a checkpoint: the pools, or their states, have changed.
    pub(crate) fn want_checkpoint(&mut self) {
        self.checkpoint.want();
    }

    /// True if a record waits for durability.
    pub(crate) fn has_records(&self) -> bool {
        self.commit.has_records()
    }

    /// True if records are queued that no commit has taken.
    pub(crate) fn is_queued(&self) -> bool {
        self.commit.is_queued()
    }

    /// True if some queued record will free a slot.
    pub(crate) fn will_free(&self) -> bool {
        self.commit.will_free()
    }

    /// Slots that queued records will free.
    pub(crate) fn places_left(&self) -> impl Iterator<Item = Place> + '_ {
        self.commit.places_left()
    }

    /// Operations whose switch no commit has begun to make durable.
    pub(crate) fn switches_waiting(&self) -> usize {
        self.commit.switches_waiting()
    }

    /// True if so much is queued that nobody may add to it before the next commit.
    pub(crate) fn records_pile_up(&self, sizes: &Sizes) -> bool {
        self.commit.bytes_queued() > bytes_queued_max(sizes)
    }

    /// True if records that nobody waits for must leave the rest of the room to others.
    pub(crate) fn records_half_pile_up(&self, sizes: &Sizes) -> bool {
        self.commit.bytes_queued() > bytes_queued_max(sizes) / 2
    }

    /// True if nothing is queued, under way or wanted, and nobody waits.
    pub(crate) fn is_settled(&self) -> bool {
        self.commit.is_settled()
    }

    /// True if the checkpoint in force has everything: a recovery would find no block to replay.
    pub(crate) fn is_empty(&self) -> bool {
        self.used() == 0
    }

    /// True if the superblock in force says all there is to say.
    pub(crate) fn is_current(&self) -> bool {
        self.checkpoint.is_current()
    }

    /// Blocks that a recovery would replay.
    pub(crate) fn used(&self) -> u64 {
        self.commit.used()
    }

    /// Blocks ever written.
    pub(crate) fn written(&self) -> u64 {
        self.commit.next()
    }

    /// The replicas that the checkpoint under way will put in force; none when there is none.
    pub(crate) fn coming_replicas(&self) -> &[PoolId] {
        self.checkpoint.coming_replicas()
    }

    /// The checkpoint area in force.
    #[cfg(test)]
    pub(crate) fn area(&self) -> u8 {
        self.checkpoint.area()
    }
}

/// Bytes of records that may be queued before newcomers wait.
fn bytes_queued_max(sizes: &Sizes) -> usize {
    let blocks = (u64::from(sizes.journal_blocks) / 8).min(COMMIT_BLOCKS_MAX / 2);
    blocks as usize * sizes.limits.usable()
}

/// A payload of records, ready to be written.
fn payload(bytes: &[u8]) -> Payload {
    Payload::from(bytes.to_vec())
}

#[cfg(test)]
mod tests;
