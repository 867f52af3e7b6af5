//! Writing the whole map out, so that the journal before it can be forgotten.
//!
//! 1. Note where the journal stands. Choose the replicas: the two fastest pools that have a region.
//! 2. Write the records of all volumes and chunks to the area that is not in force, a batch of
//!    blocks at a time, while the map goes on changing. A batch shows the map of its moment.
//! 3. Wait for a group commit that covers all that is queued.
//! 4. Write superblocks to every pool: they put the area, the journal's start and the replicas in
//!    force.
//!
//! Recovery reads the area and replays the journal from the noted place. Records are absolute, so a
//! batch that already shows the effect of a later record does no harm; and the commit of step 3
//! makes sure that every effect a batch may show has its record, and its data, on disk.
//!
//! The journal ring bounds recovery; a checkpoint starts when half of it is used, and a quarter is
//! kept for step 3. If more than that is queued, because a pool has died or many mirrored chunks
//! were written since the last commit, the ring is full and no commit can start. The checkpoint
//! then takes in all that is queued: it begins anew, with the journal to follow it empty, and step
//! 3 only flushes. What a batch shows then has its data on disk, and no older record comes after
//! it; what is queued is written behind it, as usual.

use super::commit::Waiter;
use super::{Below, Journal, Outcome, payload};
use crate::format::{
    BlockKind, Membership, Record, Stamp, Superblock, VERSION, encode_record, frame_block,
};
use crate::pools::flight::Owner;
use crate::pools::layout::super_offset;
use crate::pools::pool::PoolState;
use crate::pools::{Pools, Sizes};
use crate::settings::Limits;
use crate::sizes::BLOCK_BYTES;
use thermocline_ports::{Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, PoolId, VolumeId};

/// Share of the ring in use at which a checkpoint starts.
const FILL_MAX: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Step 2; the next chunk to be written.
    Writing(ChunkId),
    /// Step 3.
    Covering,
    /// Step 4, on the replicas.
    WritingSuperblocks,
    /// Step 4, on the other pools.
    Spreading,
    /// Step 4 is done.
    Spread,
}

/// The checkpoint in force, and the one under way.
#[derive(Debug)]
pub(super) struct Checkpoint {
    stage: Stage,
    /// True if another one shall follow: the pools or their states have changed.
    wanted: bool,
    /// Counts checkpoints begun.
    attempt: u64,
    /// Generation of the superblock in force.
    sequence: u64,
    /// The highest that was ever sent to a pool.
    newest: u64,
    area: u8,
    /// Blocks of the checkpoint in force.
    blocks: u32,
    /// The replicas that the one under way puts in force.
    replicas: Vec<PoolId>,
    /// True if it takes in what the journal has no room for.
    absorbs: bool,
    /// Blocks that each of these had room for when it began.
    blocks_max: u32,
    journal_start: u64,
    written: u32,
    outstanding: u32,
    /// Superblock that step 4 writes.
    superblock: Option<Superblock>,
    /// Pool states that the superblocks under way name.
    states: Vec<PoolState>,
    /// Slots that they say each pool has.
    slots: Vec<u32>,
}

impl Checkpoint {
    /// Returns a state with no checkpoint under way; the one in force has `blocks` blocks in
    /// `area`.
    pub(super) fn new(sequence: u64, area: u8, blocks: u32) -> Checkpoint {
        Checkpoint {
            stage: Stage::Idle,
            wanted: false,
            attempt: 0,
            sequence,
            newest: sequence,
            area,
            blocks,
            replicas: Vec::new(),
            absorbs: false,
            blocks_max: 0,
            journal_start: 0,
            written: 0,
            outstanding: 0,
            superblock: None,
            states: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Another one shall follow.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// The area in force.
    #[cfg(test)]
    pub(super) fn area(&self) -> u8 {
        self.area
    }

    /// True if its map is written and waits for a commit.
    pub(crate) fn is_covering(&self) -> bool {
        self.stage == Stage::Covering
    }

    /// The attempt whose map is written and that waits for a flush alone.
    pub(crate) fn awaits_flush(&self) -> Option<u64> {
        (self.absorbs && self.is_covering()).then_some(self.attempt)
    }

    /// True if its superblocks are on their way.
    pub(crate) fn superblocks_are_under_way(&self) -> bool {
        matches!(self.stage, Stage::WritingSuperblocks | Stage::Spreading | Stage::Spread)
    }

    /// True if the superblock in force says all there is to say.
    pub(crate) fn is_current(&self) -> bool {
        self.stage == Stage::Idle && !self.wanted
    }

    /// The replicas of the checkpoint under way; empty when there is none.
    pub(crate) fn coming_replicas(&self) -> &[PoolId] {
        if self.stage == Stage::Idle { &[] } else { &self.replicas }
    }

    /// The group commit of step 3 is done, for this attempt; it may have been given up since, when
    /// its last replica died.
    pub(crate) fn covered(&mut self, attempt: u64) {
        if self.stage == Stage::Covering && self.attempt == attempt {
            self.stage = Stage::WritingSuperblocks;
        }
    }

    /// True if so many attempts were begun.
    pub(super) fn has_begun(&self, attempt: u64) -> bool {
        attempt <= self.attempt
    }

    /// The area that is not in force.
    fn coming_area(&self) -> u8 {
        match mutant("checkpoint_over_the_one_in_force") {
            true => self.area,
            false => 1 - self.area,
        }
    }

    /// True if a pool has died that may have a superblock which is not in force yet.
    pub(super) fn has_lost_a_coming_replica(&self, pools: &Pools) -> bool {
        let written = matches!(self.stage, Stage::Spreading | Stage::Spread);
        written && self.replicas.iter().any(|&replica| !pools[replica].is_alive())
    }

    /// Begins anew at the next opportunity.
    fn give_up(&mut self) {
        self.stage = Stage::Idle;
        self.wanted = true;
    }
}

impl Journal {
    /// Takes the next step of a checkpoint, or starts one.
    pub(crate) fn pump_checkpoint(&mut self, below: &mut Below) {
        if self.checkpoint_is_due(below.pools.sizes()) {
            self.start_checkpoint(below);
        }
        while self.checkpoint.outstanding == 0 {
            let idle = self.checkpoint.stage == Stage::Idle;
            assert!(idle || !self.checkpoint.replicas.is_empty(), "somebody is to have it");
            match self.checkpoint.stage {
                Stage::Writing(from) => self.write_batch(below, from),
                Stage::WritingSuperblocks => self.write_superblocks(below),
                Stage::Spreading => self.spread_superblocks(below),
                Stage::Spread => return self.checkpoint_done(below),
                Stage::Covering if self.covering_is_stuck(below.pools.sizes()) => {
                    self.begin_absorbing(below);
                }
                Stage::Idle | Stage::Covering => return,
            }
        }
    }

    /// True if a checkpoint can start, and should.
    pub(crate) fn checkpoint_is_due(&self, sizes: &Sizes) -> bool {
        let fill = self.used() as f64 / f64::from(sizes.journal_blocks);
        self.checkpoint.stage == Stage::Idle
            && (self.checkpoint.wanted || fill >= FILL_MAX)
            && self.commit.is_idle()
    }

    /// Step 1. No group commit is under way, so every record to come goes to the coming replicas
    /// too.
    fn start_checkpoint(&mut self, below: &Below) {
        assert!(self.commit.is_idle(), "records to come go to the coming replicas");
        assert_eq!(self.checkpoint.outstanding, 0, "nothing of the one before is on its way");
        let replicas = below.pools.elect_replicas(below.need());
        if replicas.is_empty() {
            return self.outcomes.push(Outcome::NoReplica);
        }
        let blocks_max =
            replicas.iter().map(|&replica| below.pools.area(replica, 0).capacity()).min();
        let next = self.commit.next();
        let checkpoint = &mut self.checkpoint;
        checkpoint.blocks_max = blocks_max.expect("there are replicas");
        checkpoint.wanted = false;
        checkpoint.attempt += 1;
        checkpoint.replicas = replicas;
        checkpoint.absorbs = false;
        checkpoint.journal_start = next;
        if mutant("journal_space_early") {
            self.commit.forget_before(next);
        }
        checkpoint.written = 0;
        checkpoint.stage = Stage::Writing(ChunkId::default());
    }

    /// True if the journal has no room for what is to be covered, and never will have.
    fn covering_is_stuck(&self, sizes: &Sizes) -> bool {
        !self.checkpoint.absorbs
            && self.commit.is_idle()
            && self.room(sizes) == 0
            && !mutant("checkpoint_waits_for_a_full_journal")
    }

    /// Begins anew, with what is queued. No commit starts before the superblocks are in force:
    /// there is no room for one.
    fn begin_absorbing(&mut self, below: &Below) {
        met("checkpoint took in what the journal had no room for");
        self.start_checkpoint(below);
        self.checkpoint.absorbs = true;
    }

    /// Step 2: the next batch of blocks, beginning with chunk `from`.
    fn write_batch(&mut self, below: &mut Below, from: ChunkId) {
        let Limits { block_payload, checkpoint_batch, .. } = below.pools.sizes().limits;
        let batch_bytes = checkpoint_batch * BLOCK_BYTES;
        assert_eq!(self.checkpoint.outstanding, 0, "one batch is written at a time");
        let mut batch = Vec::with_capacity(batch_bytes);
        let mut records = Vec::with_capacity(block_payload);
        let mut record = Vec::new();
        let mut next = Some(from);
        let room = |batch: &Vec<u8>| batch.len() < batch_bytes;
        while let Some(chunk) = next.filter(|_| room(&batch)) {
            record.clear();
            below.describe(chunk, &mut record);
            if records.len() + record.len() > block_payload {
                self.frame_checkpoint_block(&mut records, &mut batch);
                if mutant("checkpoint_skips_at_block_end") {
                    next = below.following(chunk);
                }
                continue; // Described again, into the next block.
            }
            records.extend_from_slice(&record);
            next = below.following(chunk);
        }
        if next.is_none() && !records.is_empty() {
            self.frame_checkpoint_block(&mut records, &mut batch);
        }
        assert!(next.is_none_or(|next| next > from), "each batch goes on");
        met_if(next.is_some(), "checkpoint of several batches");
        if mutant("checkpoint_skips_at_batch_end")
            && let Some(chunk) = next
        {
            next = below.following(chunk);
        }
        // A block that is not full yet is begun anew in the next batch.
        let first = self.checkpoint.written - (batch.len() / BLOCK_BYTES) as u32;
        if !batch.is_empty() {
            self.send_batch(below, first, &batch);
        }
        match next {
            Some(chunk) => self.checkpoint.stage = Stage::Writing(chunk),
            None => {
                self.checkpoint.stage = Stage::Covering;
                if mutant("checkpoint_uncovered") {
                    self.checkpoint.stage = Stage::WritingSuperblocks;
                    return;
                }
                if !self.checkpoint.absorbs {
                    self.commit.join(Waiter::Checkpoint(self.checkpoint.attempt));
                }
            }
        }
    }

    fn frame_checkpoint_block(&mut self, records: &mut Vec<u8>, batch: &mut Vec<u8>) {
        let sequence = u64::from(self.checkpoint.written);
        let generation = self.checkpoint.sequence + 1;
        let stamp = Stamp { identity: self.identity, generation, sequence };
        let room = self.checkpoint.blocks_max;
        assert!(self.checkpoint.written < room, "the area holds every map that may be");
        frame_block(BlockKind::Checkpoint, stamp, records, batch);
        records.clear();
        self.checkpoint.written += 1;
        met_if(self.checkpoint.written > 1, "checkpoint of several blocks");
    }

    fn send_batch(&mut self, below: &mut Below, first: u32, batch: &[u8]) {
        let area = self.checkpoint.coming_area();
        let end = first + (batch.len() / BLOCK_BYTES) as u32;
        assert_eq!(end, self.checkpoint.written, "blocks follow each other");
        for replica in self.checkpoint.replicas.clone() {
            let sent = self.checkpoint.outstanding;
            for (offset, blocks) in below.pools.area(replica, area).pieces(first..end) {
                let byte = |block: u32| (block - first) as usize * BLOCK_BYTES;
                let data = payload(&batch[byte(blocks.start)..byte(blocks.end)]);
                self.checkpoint.outstanding += 1;
                let fua = !mutant("checkpoint_not_forced");
                let write = Io::Write { offset, data, fua };
                below.pools.send(below.now, replica, Owner::Checkpoint, write, false);
            }
            assert!(self.checkpoint.outstanding > sent, "each replica gets the batch");
        }
    }

    /// A replica has written a batch, or was given up.
    pub(crate) fn batch_ended(&mut self, below: &Below) {
        assert!(self.checkpoint.outstanding > 0, "each batch ends once on each replica");
        self.checkpoint.outstanding -= 1;
        self.checkpoint.replicas.retain(|&replica| below.pools[replica].is_alive());
        if self.checkpoint.replicas.is_empty() {
            self.checkpoint.give_up();
        }
    }

    /// Step 4.
    fn write_superblocks(&mut self, below: &mut Below) {
        if !self.has_living_replica(below) || self.begins_anew(below) {
            return;
        }
        assert_eq!(
            self.checkpoint.stage,
            Stage::WritingSuperblocks,
            "what they put in force is covered"
        );
        assert_eq!(self.checkpoint.outstanding, 0, "the map is written");
        let (sequence, pools) = (self.checkpoint.sequence + 1, &*below.pools);
        assert!(sequence > self.checkpoint.newest, "no two superblocks have one number");
        self.checkpoint.newest = sequence;
        self.checkpoint.states = pools.iter().map(|pool| pool.state).collect();
        self.checkpoint.slots = pools.iter().map(|pool| pool.slots.total()).collect();
        let mut superblock = Superblock {
            version: VERSION,
            identity: self.identity,
            sequence,
            this_pool: PoolId(0),
            chunk_size: pools.sizes().chunk,
            journal_blocks: pools.sizes().journal_blocks,
            area_blocks: pools.sizes().area_blocks,
            area: self.checkpoint.coming_area(),
            checkpoint_blocks: self.checkpoint.written,
            checkpoint_generation: sequence,
            journal_generation: self.commit.generation,
            journal_start: match mutant("journal_start_at_the_end") {
                true => self.commit.next(),
                false => self.checkpoint.journal_start,
            },
            replicas: self.checkpoint.replicas.clone(),
            pools: pools.iter().map(|pool| pool.record()).collect(),
            next_volume: below.map.next_identity(),
            ranks: pools.ranks().clone(),
        };
        for replica in &superblock.replicas {
            // One that is to be removed stays a member as long as it holds the journal.
            let record = &mut superblock.pools[usize::from(replica.0)];
            if record.membership == Membership::Removed {
                record.membership = Membership::Draining;
            }
        }
        if mutant("superblocks_all_at_once") {
            self.spread(below, &mut superblock);
        }
        for replica in self.checkpoint.replicas.clone() {
            self.send_superblock(below, &mut superblock, replica);
        }
        self.checkpoint.superblock = Some(superblock);
        self.checkpoint.stage = Stage::Spreading;
    }

    /// The replicas have the superblock: the others get it.
    fn spread_superblocks(&mut self, below: &mut Below) {
        let mut superblock = self.checkpoint.superblock.take().expect("the replicas have it");
        if !self.has_living_replica(below) {
            return;
        }
        assert_eq!(superblock.sequence, self.checkpoint.sequence + 1, "it is the next one");
        self.spread(below, &mut superblock);
        self.checkpoint.stage = Stage::Spread;
    }

    fn spread(&mut self, below: &mut Below, superblock: &mut Superblock) {
        assert!(!superblock.replicas.is_empty(), "who has the map has the superblock already");
        for pool in below.pools.ids() {
            if below.pools[pool].is_alive() && !superblock.replicas.contains(&pool) {
                self.send_superblock(below, superblock, pool);
            }
        }
    }

    fn send_superblock(&mut self, below: &mut Below, superblock: &mut Superblock, pool: PoolId) {
        assert!(below.pools[pool].is_alive(), "who is gone is told nothing");
        let next = superblock.sequence.checked_sub(1);
        assert_eq!(next, Some(self.checkpoint.sequence), "the one in force is not written over");
        superblock.this_pool = pool;
        let data = Payload::from(superblock.encode());
        let offset = super_offset(superblock.sequence % 2);
        let write = Io::Write { offset, data, fua: !mutant("superblock_not_forced") };
        self.checkpoint.outstanding += 1;
        below.pools.send(below.now, pool, Owner::Super, write, false);
    }

    /// True if a pool was added, or grew, since the replicas were elected, and one of them has no
    /// room for the larger map; then the checkpoint begins anew, unless no replica in force is
    /// left.
    fn begins_anew(&mut self, below: &Below) -> bool {
        let need = below.need();
        let have_room =
            self.checkpoint.replicas.iter().all(|&replica| below.pools.has_room(replica, need));
        if self.commit.replicas.is_empty()
            || have_room
            || mutant("replicas_without_room_for_a_growth")
        {
            return false;
        }
        met("checkpoint began anew for a larger map");
        self.checkpoint.give_up();
        assert!(!self.is_current(), "another one follows");
        true
    }

    /// True if one of the coming replicas lives; if none does, the checkpoint begins anew.
    fn has_living_replica(&mut self, below: &Below) -> bool {
        assert_eq!(self.checkpoint.outstanding, 0, "every replica has answered, or is given up");
        self.checkpoint.replicas.retain(|&replica| below.pools[replica].is_alive());
        if self.checkpoint.replicas.is_empty() {
            if self.checkpoint.stage == Stage::Spreading {
                met("last coming replica died while its superblock was written");
                // One may have it and come back: the next one is younger, and in the same place.
                self.commit.supersede();
                self.checkpoint.sequence += if mutant("sequence_not_skipped") { 0 } else { 2 };
            }
            self.checkpoint.give_up();
            self.replicas_in_force();
            return false;
        }
        true
    }

    /// A pool has written its superblock, or was given up.
    pub(crate) fn superblock_ended(&mut self, below: &Below) {
        assert!(self.checkpoint.outstanding > 0, "each superblock ends once");
        self.checkpoint.outstanding -= 1;
        if !below.pools.any_alive() {
            self.outcomes.push(Outcome::NoReplica);
        }
    }

    /// Chunks get the slots that a durable superblock says a pool has grown by.
    fn growth_in_force(&self, pools: &mut Pools) {
        for (pool, &slots) in pools.iter_mut().zip(&self.checkpoint.slots) {
            assert!(pool.slots.total() >= slots, "a pool never shrinks");
            if pool.slots.total() == slots {
                pool.release_held();
            }
        }
    }

    /// The states that the superblocks name are durable.
    fn states_in_force(&self, pools: &mut Pools) {
        assert!(self.checkpoint.states.len() <= pools.count(), "pools keep their numbers");
        for (id, state) in pools.ids().zip(&self.checkpoint.states) {
            // A pool that was elected before it was to be removed stays until the next one.
            let replica = self.commit.replicas.contains(&id);
            match (pools[id].state, state) {
                (PoolState::Joining, PoolState::Joining) => pools[id].state = PoolState::Active,
                (PoolState::Removing, PoolState::Removing) if !replica => {
                    pools.retire(id);
                }
                _ => {}
            }
        }
    }

    /// The superblocks are durable: the new checkpoint is in force.
    fn checkpoint_done(&mut self, below: &mut Below) {
        assert_eq!(self.checkpoint.outstanding, 0, "every superblock has its answer");
        let area = self.checkpoint.coming_area();
        let next = self.commit.next();
        let checkpoint = &mut self.checkpoint;
        checkpoint.stage = Stage::Idle;
        checkpoint.sequence += 1;
        checkpoint.area = area;
        met_if(
            checkpoint.journal_start != next && checkpoint.written > 1,
            "map changed while its checkpoint was written",
        );
        checkpoint.blocks = checkpoint.written;
        self.commit.forget_before(checkpoint.journal_start);
        self.commit.replicas = std::mem::take(&mut checkpoint.replicas);
        self.commit.replicas.retain(|&replica| below.pools[replica].is_alive());
        self.states_in_force(below.pools);
        self.growth_in_force(below.pools);
        self.replicas_in_force();
        match self.commit.replicas.is_empty() {
            true => self.commit.supersede(),
            false => self.release_held(),
        }
        self.outcomes.push(Outcome::InForce { states: self.checkpoint.states.clone() });
    }
}

impl Below<'_> {
    /// Appends the records of a chunk; with the first chunk of a volume, the volume's.
    fn describe(&self, chunk: ChunkId, out: &mut Vec<u8>) {
        let volume = self.map.volume(chunk.volume).filter(|volume| !volume.is_deleting());
        let Some(volume) = volume else { return };
        if chunk.index == 0 {
            encode_record(&Record::of_volume(chunk.volume, volume), out);
        }
        if self.map.has(chunk) {
            let state = match mutant("checkpoint_of_memory") {
                true => self.map.state(chunk),
                false => (self.state_of)(chunk),
            };
            if !state.copies.is_empty() {
                encode_record(&Record::Chunk(chunk, state), out);
            }
        }
        assert!(out.len() <= self.pools.sizes().limits.block_payload, "records fit into a block");
    }

    fn following(&self, chunk: ChunkId) -> Option<ChunkId> {
        let next = ChunkId { index: chunk.index + 1, ..chunk };
        if self.map.volume(chunk.volume).is_some() && self.map.has(next) {
            return Some(next);
        }
        let volume = chunk.volume.0 + 1;
        (volume < self.map.volume_count()).then_some(ChunkId { volume: VolumeId(volume), index: 0 })
    }
}
