//! Writing the whole map out, so that the journal before it can be forgotten.
//!
//! 1. Note where the journal stands. Choose the homes: the two fastest pools that have a region.
//! 2. Write the records of all volumes and chunks to the area that is not in force, a batch of
//!    blocks at a time, while the map goes on changing. A batch shows the map of its moment.
//! 3. Wait for a commit cycle that covers all that is queued.
//! 4. Write superblocks to every pool: they put the area, the journal's start and the homes in
//!    force.
//!
//! Recovery reads the area and replays the journal from the noted place. Records are absolute, so a
//! batch that already shows the effect of a later record does no harm; and the cycle of step 3
//! makes sure that every effect a batch may show has its record, and its data, on disk.
//!
//! The journal ring bounds recovery; a checkpoint starts when half of it is used, and a quarter is
//! kept for step 3. If more than that is queued, because a pool has died or many mirrored chunks
//! were written since the last commit, the ring is full and no cycle can start. The checkpoint then
//! takes in all that is queued: it begins anew, with the journal to follow it empty, and step 3
//! only flushes. What a batch shows then has its data on disk, and no older record comes after it;
//! what is queued is written behind it, as usual.

use crate::commit::Waiter;
use crate::flight::{Flight, Owner};
use crate::format::{
    BLOCK_BYTES, BlockKind, Membership, Record, Stamp, Superblock, VERSION, encode_record,
    seal_block,
};
use crate::group::{Group, Service, payload};
use crate::layout::super_offset;
use crate::opening::OpenError;
use crate::pool::PoolState;
use crate::settings::Limits;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// Pools that hold journal and checkpoints, where there are as many.
pub(crate) const REPLICAS: usize = 2;
/// Share of the ring in use at which a checkpoint starts.
const FILL_MAX: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Step 2; the next chunk to be written.
    Writing(ChunkId),
    /// Step 3.
    Covering,
    /// Step 4, on the homes.
    Sealing,
    /// Step 4, on the other pools.
    Spreading,
    /// Step 4 is done.
    Spread,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    stage: Stage,
    /// True if another one shall follow: the pools or their states have changed.
    pub(crate) wanted: bool,
    /// Counts checkpoints begun.
    attempt: u64,
    /// Of the superblock in force.
    pub(crate) sequence: u64,
    pub(crate) area: u8,
    /// Blocks and generation of the checkpoint in force.
    pub(crate) blocks: u32,
    pub(crate) generation: u64,
    /// The homes that the one under way puts in force.
    homes: Vec<PoolId>,
    /// True if it takes in what the journal has no room for.
    absorbs: bool,
    /// Blocks that each of these had room for when it began.
    blocks_max: u32,
    journal_start: u64,
    written: u32,
    outstanding: u32,
    /// What step 4 writes.
    superblock: Option<Superblock>,
    /// Pool states that the superblocks under way name.
    states: Vec<PoolState>,
    /// Slots that they say each pool has.
    slots: Vec<u32>,
}

impl Checkpoint {
    pub(crate) fn new(sequence: u64, area: u8) -> Checkpoint {
        Checkpoint {
            stage: Stage::Idle,
            wanted: false,
            attempt: 0,
            sequence,
            area,
            blocks: 0,
            generation: sequence,
            homes: Vec::new(),
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

    pub(crate) fn is_covering(&self) -> bool {
        self.stage == Stage::Covering
    }

    /// The attempt whose map is written and that waits for a flush alone.
    pub(crate) fn awaits_flush(&self) -> Option<u64> {
        (self.absorbs && self.is_covering()).then_some(self.attempt)
    }

    /// True if its superblocks are on their way.
    pub(crate) fn is_being_sealed(&self) -> bool {
        matches!(self.stage, Stage::Sealing | Stage::Spreading | Stage::Spread)
    }

    /// True if the superblock in force says all there is to say.
    pub(crate) fn is_current(&self) -> bool {
        self.stage == Stage::Idle && !self.wanted
    }

    /// The homes of the checkpoint under way; empty when there is none.
    pub(crate) fn coming_homes(&self) -> &[PoolId] {
        if self.stage == Stage::Idle { &[] } else { &self.homes }
    }

    /// The commit cycle of step 3 is done, for this attempt; it may have been given up since, when
    /// its last home died.
    pub(crate) fn covered(&mut self, attempt: u64) {
        if self.stage == Stage::Covering && self.attempt == attempt {
            self.stage = Stage::Sealing;
        }
    }
}

impl Group {
    /// Takes the next step of a checkpoint, or starts one.
    pub(crate) fn pump_checkpoint(&mut self) {
        if matches!(self.service, Service::Failed(_) | Service::Closed) {
            return;
        }
        if self.checkpoint_is_due() {
            self.start_checkpoint();
        }
        while self.checkpoint.outstanding == 0 {
            match self.checkpoint.stage {
                Stage::Writing(from) => self.write_batch(from),
                Stage::Sealing => self.write_superblocks(),
                Stage::Spreading => self.spread_superblocks(),
                Stage::Spread => return self.checkpoint_done(),
                Stage::Covering if self.covering_is_stuck() => self.begin_absorbing(),
                Stage::Idle | Stage::Covering => return,
            }
        }
    }

    /// True if a checkpoint can start, and should.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        !matches!(self.service, Service::Failed(_) | Service::Closed)
            && self.checkpoint.stage == Stage::Idle
            && (self.checkpoint.wanted || self.journal_fill() >= FILL_MAX)
            && self.commit.is_idle()
    }

    /// Step 1. No commit cycle is under way, so every record to come goes to the coming homes too.
    fn start_checkpoint(&mut self) {
        let homes = self.elect_homes();
        if homes.is_empty() {
            return self.fail(OpenError::NoHome);
        }
        let blocks_max = homes.iter().map(|&home| self.area_of(home, 0).capacity()).min();
        let checkpoint = &mut self.checkpoint;
        checkpoint.blocks_max = blocks_max.expect("there are homes");
        checkpoint.wanted = false;
        checkpoint.attempt += 1;
        checkpoint.homes = homes;
        checkpoint.absorbs = false;
        checkpoint.journal_start = self.commit.next;
        if mutant("journal_space_early") {
            self.commit.start = self.commit.next;
        }
        checkpoint.written = 0;
        checkpoint.stage = Stage::Writing(ChunkId::default());
    }

    /// True if the journal has no room for what is to be covered, and never will have.
    fn covering_is_stuck(&self) -> bool {
        !self.checkpoint.absorbs
            && self.commit.is_idle()
            && self.journal_room() == 0
            && !mutant("checkpoint_waits_for_a_full_journal")
    }

    /// Begins anew, with what is queued. No cycle starts before the superblocks are in force: there
    /// is no room for one.
    fn begin_absorbing(&mut self) {
        met("checkpoint took in what the journal had no room for");
        self.start_checkpoint();
        self.checkpoint.absorbs = true;
    }

    /// The fastest pools that have a metadata region with room for the map and will stay, far ones
    /// last; when none is left, one that was to be removed has to wait.
    pub(crate) fn elect_homes(&self) -> Vec<PoolId> {
        let need = self.need();
        let mut able = self.replica_candidates();
        able.retain(|&pool| self.has_room_for_map(pool, need));
        let stays = |pool: &PoolId| self.pool(*pool).state != PoolState::Removing;
        let mut homes: Vec<PoolId> = able.iter().copied().filter(stays).take(REPLICAS).collect();
        if homes.is_empty() {
            homes.extend(able.first());
        }
        homes
    }

    /// Step 2: the next batch of blocks, beginning with chunk `from`.
    fn write_batch(&mut self, from: ChunkId) {
        let Limits { block_payload, checkpoint_batch, .. } = self.settings.limits;
        let batch_bytes = checkpoint_batch * BLOCK_BYTES;
        let mut batch = Vec::with_capacity(batch_bytes);
        let mut records = Vec::with_capacity(block_payload);
        let mut record = Vec::new();
        let mut next = Some(from);
        let room = |batch: &Vec<u8>| batch.len() < batch_bytes;
        while let Some(chunk) = next.filter(|_| room(&batch)) {
            record.clear();
            self.describe(chunk, &mut record);
            if records.len() + record.len() > block_payload {
                self.seal_checkpoint_block(&mut records, &mut batch);
                if mutant("checkpoint_skips_at_block_end") {
                    next = self.following(chunk);
                }
                continue; // Described again, into the next block.
            }
            records.extend_from_slice(&record);
            next = self.following(chunk);
        }
        if next.is_none() && !records.is_empty() {
            self.seal_checkpoint_block(&mut records, &mut batch);
        }
        met_if(next.is_some(), "checkpoint of several batches");
        if mutant("checkpoint_skips_at_batch_end")
            && let Some(chunk) = next
        {
            next = self.following(chunk);
        }
        // A block that is not full yet is begun anew in the next batch.
        let first = self.checkpoint.written - (batch.len() / BLOCK_BYTES) as u32;
        if !batch.is_empty() {
            self.send_batch(first, &batch);
        }
        match next {
            Some(chunk) => self.checkpoint.stage = Stage::Writing(chunk),
            None => {
                self.checkpoint.stage = Stage::Covering;
                if mutant("checkpoint_uncovered") {
                    self.checkpoint.stage = Stage::Sealing;
                    return;
                }
                if !self.checkpoint.absorbs {
                    self.commit.join(Waiter::Checkpoint(self.checkpoint.attempt));
                }
            }
        }
    }

    fn seal_checkpoint_block(&mut self, records: &mut Vec<u8>, batch: &mut Vec<u8>) {
        let sequence = u64::from(self.checkpoint.written);
        let generation = self.checkpoint.sequence + 1;
        let stamp = Stamp { identity: self.identity, generation, sequence };
        let room = self.checkpoint.blocks_max;
        assert!(self.checkpoint.written < room, "the area holds every map that may be");
        seal_block(BlockKind::Checkpoint, stamp, records, batch);
        records.clear();
        self.checkpoint.written += 1;
        met_if(self.checkpoint.written > 1, "checkpoint of several blocks");
    }

    /// The area that is not in force.
    fn coming_area(&self) -> u8 {
        match mutant("checkpoint_over_the_one_in_force") {
            true => self.checkpoint.area,
            false => 1 - self.checkpoint.area,
        }
    }

    fn send_batch(&mut self, first: u32, batch: &[u8]) {
        let area = self.coming_area();
        let end = first + (batch.len() / BLOCK_BYTES) as u32;
        for home in self.checkpoint.homes.clone() {
            for (offset, blocks) in self.area_of(home, area).pieces(first..end) {
                let byte = |block: u32| (block - first) as usize * BLOCK_BYTES;
                let data = payload(&batch[byte(blocks.start)..byte(blocks.end)]);
                self.checkpoint.outstanding += 1;
                let fua = !mutant("checkpoint_not_forced");
                let write = Io::Write { offset, data, fua };
                self.send(self.now, home, Owner::Checkpoint, write);
            }
        }
    }

    /// Appends the records of a chunk; with the first chunk of a volume, the volume's.
    fn describe(&self, chunk: ChunkId, out: &mut Vec<u8>) {
        if self.map.volume(chunk.volume).is_none_or(|volume| volume.deleting) {
            return;
        }
        if chunk.index == 0 {
            encode_record(&self.volume_record(chunk.volume), out);
        }
        if self.map.has(chunk) {
            let state = match mutant("checkpoint_of_memory") {
                true => self.map.state(chunk),
                false => self.durable_state(chunk),
            };
            if !state.copies.is_empty() {
                encode_record(&Record::Chunk(chunk, state), out);
            }
        }
    }

    fn following(&self, chunk: ChunkId) -> Option<ChunkId> {
        let next = ChunkId { index: chunk.index + 1, ..chunk };
        if self.map.volume(chunk.volume).is_some() && self.map.has(next) {
            return Some(next);
        }
        let volume = chunk.volume.0 + 1;
        (volume < self.map.volume_count()).then_some(ChunkId { volume: VolumeId(volume), index: 0 })
    }

    /// A home wrote a batch, or did not.
    pub(crate) fn checkpoint_io_done(
        &mut self,
        now: Nanos,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        if self.goes_again(now, flight, result.is_err()) {
            return;
        }
        self.checkpoint.outstanding -= 1;
        self.checkpoint.homes.retain(|&home| self.pools[usize::from(home.0)].is_alive());
        if self.checkpoint.homes.is_empty() {
            self.checkpoint.stage = Stage::Idle;
            self.checkpoint.wanted = true;
        }
    }

    /// Step 4.
    fn write_superblocks(&mut self) {
        if !self.has_living_home() || self.begins_anew() {
            return;
        }
        let sequence = self.checkpoint.sequence + 1;
        self.checkpoint.states = self.pools.iter().map(|pool| pool.state).collect();
        self.checkpoint.slots = self.pools.iter().map(|pool| pool.slots.total()).collect();
        let mut superblock = Superblock {
            version: VERSION,
            identity: self.identity,
            sequence,
            this_pool: PoolId(0),
            chunk_size: self.chunk_size,
            journal_blocks: self.settings.journal_blocks,
            area_blocks: self.area_blocks,
            area: self.coming_area(),
            checkpoint_blocks: self.checkpoint.written,
            checkpoint_generation: sequence,
            journal_generation: self.commit.generation,
            journal_start: match mutant("journal_start_at_the_end") {
                true => self.commit.next,
                false => self.checkpoint.journal_start,
            },
            homes: self.checkpoint.homes.clone(),
            pools: self.pools.iter().map(|pool| pool.record()).collect(),
            next_volume: self.next_volume,
            ranks: self.ranks.clone(),
        };
        for home in &superblock.homes {
            // One that is to be removed stays a member as long as it holds the journal.
            let record = &mut superblock.pools[usize::from(home.0)];
            if record.membership == Membership::Removed {
                record.membership = Membership::Draining;
            }
        }
        if mutant("superblocks_all_at_once") {
            self.spread(&mut superblock);
        }
        for home in self.checkpoint.homes.clone() {
            self.send_superblock(&mut superblock, home);
        }
        self.checkpoint.superblock = Some(superblock);
        self.checkpoint.stage = Stage::Spreading;
    }

    /// The homes have the superblock: the others get it.
    fn spread_superblocks(&mut self) {
        let mut superblock = self.checkpoint.superblock.take().expect("the homes have it");
        if !self.has_living_home() {
            return;
        }
        self.spread(&mut superblock);
        self.checkpoint.stage = Stage::Spread;
    }

    fn spread(&mut self, superblock: &mut Superblock) {
        for pool in (0..self.pools.len()).map(|index| PoolId(index as u16)) {
            if self.pool(pool).is_alive() && !superblock.homes.contains(&pool) {
                self.send_superblock(superblock, pool);
            }
        }
    }

    fn send_superblock(&mut self, superblock: &mut Superblock, pool: PoolId) {
        superblock.this_pool = pool;
        let data = Payload::from(superblock.encode());
        let offset = super_offset(superblock.sequence % 2);
        self.checkpoint.outstanding += 1;
        self.send(
            self.now,
            pool,
            Owner::Super,
            Io::Write { offset, data, fua: !mutant("superblock_not_forced") },
        );
    }

    /// True if a pool has died that may have a superblock which is not in force yet.
    pub(crate) fn has_lost_a_coming_home(&self) -> bool {
        let dead = |home: &PoolId| !self.pool(*home).is_alive();
        let written = matches!(self.checkpoint.stage, Stage::Spreading | Stage::Spread);
        written && self.checkpoint.homes.iter().any(dead)
    }

    /// True if a pool was added, or grew, since the homes were elected, and one of them has no room
    /// for the larger map; then the checkpoint begins anew, unless no home in force is left.
    fn begins_anew(&mut self) -> bool {
        if self.commit.homes.is_empty()
            || self.coming_homes_have_room()
            || mutant("homes_without_room_for_a_growth")
        {
            return false;
        }
        met("checkpoint began anew for a larger map");
        self.checkpoint.stage = Stage::Idle;
        self.checkpoint.wanted = true;
        true
    }

    /// True if one of the coming homes lives; if none does, the checkpoint begins anew.
    fn has_living_home(&mut self) -> bool {
        self.checkpoint.homes.retain(|&home| self.pools[usize::from(home.0)].is_alive());
        if self.checkpoint.homes.is_empty() {
            if self.checkpoint.stage == Stage::Spreading {
                met("last coming replica died while its superblock was written");
                // One may have it and come back: the next one is younger, and in the same place.
                self.commit.supersede();
                self.checkpoint.sequence += if mutant("sequence_not_skipped") { 0 } else { 2 };
            }
            self.checkpoint.stage = Stage::Idle;
            self.checkpoint.wanted = true;
            self.homes_in_force();
            return false;
        }
        true
    }

    /// A pool wrote its superblock, or did not.
    pub(crate) fn super_io_done(
        &mut self,
        now: Nanos,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        if self.goes_again(now, flight, result.is_err()) {
            return;
        }
        self.checkpoint.outstanding -= 1;
        if result.is_err() && !self.pools.iter().any(|pool| pool.is_alive()) {
            self.fail(OpenError::NoHome);
        }
    }

    /// Chunks get the slots that a durable superblock says a pool has grown by.
    fn growth_in_force(&mut self) {
        for (pool, &slots) in self.pools.iter_mut().zip(&self.checkpoint.slots) {
            if pool.slots.total() == slots {
                pool.release_held();
            }
        }
    }

    /// The superblocks are durable: the new checkpoint is in force.
    fn checkpoint_done(&mut self) {
        let area = self.coming_area();
        let checkpoint = &mut self.checkpoint;
        checkpoint.stage = Stage::Idle;
        checkpoint.sequence += 1;
        checkpoint.area = area;
        met_if(
            checkpoint.journal_start != self.commit.next && checkpoint.written > 1,
            "map changed while its checkpoint was written",
        );
        checkpoint.blocks = checkpoint.written;
        checkpoint.generation = checkpoint.sequence;
        self.commit.start = checkpoint.journal_start;
        let homes = std::mem::take(&mut checkpoint.homes);
        self.commit.homes =
            homes.into_iter().filter(|home| self.pools[usize::from(home.0)].is_alive()).collect();
        let homes = &self.commit.homes;
        for (index, (pool, state)) in self.pools.iter_mut().zip(&self.checkpoint.states).enumerate()
        {
            // A pool that was elected a home before it was to be removed stays until the next one.
            let home = homes.contains(&PoolId(index as u16));
            match (pool.state, state) {
                (PoolState::Joining, PoolState::Joining) => pool.state = PoolState::Active,
                (PoolState::Removing, PoolState::Removing) if !home => {
                    pool.state = PoolState::Removed;
                }
                _ => {}
            }
        }
        self.growth_in_force();
        self.homes_in_force();
        match self.commit.homes.is_empty() {
            true => self.commit.supersede(),
            false => self.release_held(),
        }
        if self.opening_ends() {
            self.service = Service::Ready;
            for pool in (0..self.pools.len()).map(|index| PoolId(index as u16)) {
                // Died meanwhile: the superblock may still name it, the checkpoint its copies.
                let dead = self.pool(pool).state == PoolState::Dead;
                let before = self.checkpoint.states.get(usize::from(pool.0));
                let noted =
                    before == Some(&PoolState::Dead) || mutant("death_in_recovery_not_recorded");
                if dead && (!noted || self.has_spare_copy_on(pool)) {
                    self.forget_copies_on(pool);
                }
            }
        }
    }
}
