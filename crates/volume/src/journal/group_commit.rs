//! The steps of a group commit; who waits for which, and what is queued, is [`Commit`]'s.
//!
//! [`Commit`]: super::commit::Commit

use super::commit::{Change, FOR_A_DEATH, Stage, Waiter};
use super::{Below, CommitDemand, Journal, Outcome, payload};
use crate::format::{BlockKind, Stamp, frame_commit_block};
use crate::pools::flight::Owner;
use crate::pools::layout::journal_offset;
use crate::pools::{Pools, Sizes};
use crate::sizes::BLOCK_BYTES;
use thermocline_ports::Io;
use thermocline_units::PoolId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

impl Journal {
    /// True if somebody wants a commit and none is under way.
    fn commit_is_wanted(&self, pools: &Pools, demand: CommitDemand) -> bool {
        let has_changes = self.has_records() || demand.unsaved;
        let someone = self.commit.someone_waits(has_changes, demand.hurried);
        let wanted = self.commit.wanted && (has_changes || pools.any_dirty());
        self.commit.is_idle() && (someone || wanted)
    }

    /// True if a commit would start now. When it is the journal that has no room, the checkpoint
    /// under way will make it.
    pub(crate) fn commit_can_start(&self, pools: &Pools, demand: CommitDemand) -> bool {
        let alone = self.commit.is_idle() && self.checkpoint.awaits_flush().is_some();
        alone || self.commit_is_wanted(pools, demand) && self.room(pools.sizes()) > 0
    }

    /// True if the next commit takes records, and does not only flush for a checkpoint.
    pub(crate) fn next_commit_takes_records(&self) -> bool {
        self.checkpoint.awaits_flush().is_none()
    }

    /// Steps 1 and 2, where [`Journal::commit_can_start`] says so.
    pub(crate) fn start_commit(&mut self, below: &mut Below) {
        assert!(self.commit.is_idle(), "one commit runs at a time");
        assert_eq!(self.commit.outstanding, 0, "the commit before has its answers");
        if !self.next_commit_takes_records() {
            self.commit.stage = Stage::FlushingAlone;
            self.flush_dirty_pools(below);
            if self.commit.outstanding == 0 {
                self.flushed(below);
            }
            return;
        }
        self.commit.wanted = false;
        self.take_changes(below.pools.sizes());
        self.commit.stage = Stage::Flushing;
        let announces = self.commit.only_announces();
        met_if(announces && below.pools.any_dirty(), "commit without a flush");
        if !announces {
            self.flush_dirty_pools(below);
        }
        if self.commit.outstanding == 0 {
            self.write_journal(below);
        }
    }

    /// Blocks that a commit may write now. A quarter of the ring is kept for the commit that ends a
    /// checkpoint: it must be able to write all that is queued, or no room would ever be made.
    pub(super) fn room(&self, sizes: &Sizes) -> u64 {
        let ring = u64::from(sizes.journal_blocks);
        let kept = if self.checkpoint.is_covering() { 0 } else { ring / 4 };
        ring.saturating_sub(self.commit.used() + kept + FOR_A_DEATH)
    }

    /// Moves as many records into the commit as fit, with those who wait for no others. Who waits
    /// for records that do not fit is served by the commit that takes the last of them, whatever is
    /// queued behind it meanwhile: a checkpoint that waited for an empty queue would never end.
    fn take_changes(&mut self, sizes: &Sizes) {
        let room = sizes.limits.commit_blocks.min(self.room(sizes));
        self.commit.take(room, sizes.limits.block_payload);
        self.commit.take_waiters();
    }

    fn flush_dirty_pools(&mut self, below: &mut Below) {
        if mutant("record_before_its_data") {
            // Taken for flushed: a group that closes would try for ever.
            return below.pools.iter_mut().for_each(|pool| pool.dirty = false);
        }
        for id in below.pools.ids() {
            let pool = &mut below.pools[id];
            if pool.dirty && pool.is_alive() {
                pool.dirty = false;
                if mutant("third_pool_not_flushed") && id.0 >= 2 {
                    continue;
                }
                self.commit.outstanding += 1;
                below.pools.send(below.now, id, Owner::Flush, Io::Flush, false);
            }
        }
        assert!(!below.pools.any_dirty(), "no pool keeps what it was not told to flush");
    }

    /// A flush of the commit was answered, or its pool was given up.
    pub(crate) fn flush_ended(&mut self, below: &mut Below) {
        assert!(self.commit.outstanding > 0, "each flush ends once");
        self.commit.outstanding -= 1;
        if self.commit.outstanding == 0 {
            self.flushed(below);
        }
    }

    /// Every pool is flushed that was to be.
    fn flushed(&mut self, below: &mut Below) {
        assert_eq!(self.commit.outstanding, 0, "every flush has ended");
        if self.commit.stage != Stage::FlushingAlone {
            return self.write_journal(below);
        }
        self.commit.stage = Stage::Idle;
        if let Some(attempt) = self.checkpoint.awaits_flush() {
            self.checkpoint.covered(attempt);
        }
    }

    /// Step 3: the records, on every replica.
    fn write_journal(&mut self, below: &mut Below) {
        assert_eq!(self.commit.stage, Stage::Flushing, "records follow the data they speak of");
        self.commit.stage = Stage::Writing;
        if self.commit.taken.is_empty() {
            self.commit.blocks = 0;
            return self.commit_written(below);
        }
        let (blocks, count) = self.frame_blocks(below.pools.sizes());
        self.commit.blocks = count;
        let ring = u64::from(below.pools.sizes().journal_blocks);
        assert!(self.commit.used() + count <= ring, "no block is written over that is needed");
        let first = self.commit.next() % ring;
        let head = (ring - first).min(count) as usize * BLOCK_BYTES;
        met_if(count > 1, "commit of several blocks");
        met_if(head < blocks.len(), "commit across the ring's end");
        met_if(self.commit.next() >= ring, "journal ring wrapped");
        let targets = self.targets(below.pools);
        let replicas = &self.commit.replicas;
        met_if(
            !replicas.is_empty() && targets.len() > replicas.len(),
            "commit written to a coming replica",
        );
        for replica in targets {
            for (at, bytes) in [(first, &blocks[..head]), (0, &blocks[head..])] {
                if !bytes.is_empty() {
                    if at == 0 && first != 0 && mutant("commit_without_its_wrapped_part") {
                        continue;
                    }
                    let (offset, fua) = (journal_offset(at), !mutant("journal_not_forced"));
                    let write = Io::Write { offset, data: payload(bytes), fua };
                    self.commit.outstanding += 1;
                    below.pools.send(below.now, replica, Owner::Journal, write, false);
                }
            }
        }
        if self.commit.outstanding == 0 {
            self.outcomes.push(Outcome::NoReplica);
        }
    }

    /// The replicas in force, and those that a checkpoint under way will put in force.
    fn targets(&self, pools: &Pools) -> Vec<PoolId> {
        let mut targets = self.commit.replicas.clone();
        for &replica in self.checkpoint.coming_replicas() {
            let left_out = mutant("coming_replicas_without_journal") && !targets.is_empty();
            if !left_out && !targets.contains(&replica) && pools[replica].is_alive() {
                targets.push(replica);
            }
        }
        targets
    }

    /// The records of the commit in blocks, and the number of these.
    fn frame_blocks(&self, sizes: &Sizes) -> (Vec<u8>, u64) {
        let mut blocks = Vec::new();
        let payload = sizes.limits.block_payload;
        let mut records: Vec<u8> = Vec::with_capacity(payload);
        let mut count = 0;
        let mut frame = |records: &mut Vec<u8>| {
            let stamp = Stamp {
                identity: self.identity,
                generation: self.commit.generation,
                sequence: self.commit.next() + count,
            };
            let before = if mutant("block_forgets_its_commit") { 0 } else { count as u16 };
            frame_commit_block(BlockKind::Journal, stamp, before, records, &mut blocks);
            records.clear();
            count += 1;
        };
        for change in &self.commit.taken {
            if records.len() + change.bytes.len() > payload {
                frame(&mut records);
            }
            records.extend_from_slice(&change.bytes);
        }
        frame(&mut records);
        assert_eq!(blocks.len(), count as usize * BLOCK_BYTES, "whole blocks");
        (blocks, count)
    }

    /// A replica has written journal blocks, or was given up.
    pub(crate) fn write_ended(&mut self, below: &mut Below) {
        assert!(self.commit.outstanding > 0, "each write ends once");
        self.commit.outstanding -= 1;
        if self.commit.outstanding > 0 {
            return;
        }
        if self.commit.replicas.is_empty() {
            // Every replica in force has died. Where superblocks that name others are on their way,
            // the records are durable there, and count as soon as those are in force.
            met("commit waited for replicas to be in force");
            self.commit.awaits_replicas = self.checkpoint.superblocks_are_under_way();
            if !self.commit.awaits_replicas {
                self.outcomes.push(Outcome::NoReplica);
            }
            return;
        }
        self.commit_written(below);
    }

    /// The records are on every replica. They count, unless a superblock may come back that names
    /// replicas which lack them: then they do as soon as a younger one is in force. Only the
    /// checkpoint that makes that one does not wait for it.
    fn commit_written(&mut self, below: &Below) {
        assert_eq!(self.commit.outstanding, 0, "every replica has written");
        assert_eq!(self.commit.stage, Stage::Writing, "a commit ends with its records");
        let superseded =
            self.commit.superseded || self.checkpoint.has_lost_a_coming_replica(below.pools);
        if !superseded || mutant("commit_counts_though_superseded") {
            return self.commit_done();
        }
        met("commit waited for a younger superblock");
        self.commit.advance();
        self.commit.stage = Stage::Idle;
        self.commit.held.0.append(&mut self.commit.taken);
        let waiters = std::mem::take(&mut self.commit.waiters);
        let others = self.tell_checkpoints(waiters);
        self.commit.held.1.extend(others);
    }

    /// A checkpoint is in force, and nothing younger than its superblock can come back.
    pub(super) fn release_held(&mut self) {
        assert!(!self.commit.replicas.is_empty(), "a replica has what counts now");
        self.commit.superseded = false;
        let (taken, waiters) = std::mem::take(&mut self.commit.held);
        if !taken.is_empty() || !waiters.is_empty() {
            self.settle(taken, waiters);
        }
    }

    /// A checkpoint has put replicas in force: ends the commit whose records only those have.
    pub(super) fn replicas_in_force(&mut self) {
        if std::mem::take(&mut self.commit.awaits_replicas) {
            assert_eq!(self.commit.outstanding, 0, "its records are written");
            match self.commit.replicas.is_empty() {
                true => self.outcomes.push(Outcome::NoReplica),
                false => self.commit_done(),
            }
        }
    }

    /// Step 4.
    fn commit_done(&mut self) {
        assert!(self.commit.stage == Stage::Writing, "a commit ends with its records");
        self.commit.advance();
        self.commit.stage = Stage::Idle;
        let taken = std::mem::take(&mut self.commit.taken);
        let waiters = std::mem::take(&mut self.commit.waiters);
        self.settle(taken, waiters);
    }

    /// Says what is durable, and whom to tell.
    fn settle(&mut self, taken: Vec<Change>, waiters: Vec<Waiter>) {
        let left = taken.into_iter().flat_map(|change| change.left).collect();
        let waiters = self.tell_checkpoints(waiters);
        self.outcomes.push(Outcome::Durable { left, waiters });
    }

    /// Tells the checkpoint that waits; those who waited beside it.
    fn tell_checkpoints(&mut self, mut waiters: Vec<Waiter>) -> Vec<Waiter> {
        waiters.retain(|waiter| match waiter {
            Waiter::Checkpoint(attempt) => {
                assert!(self.checkpoint.has_begun(*attempt), "who waits has begun");
                self.checkpoint.covered(*attempt);
                false
            }
            _ => true,
        });
        waiters
    }
}
