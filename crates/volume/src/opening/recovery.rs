//! Finding a group again after a shutdown or a crash.
//!
//! 1. The superblocks of every device are read; the highest whole one counts.
//! 2. The checkpoint and the whole journal ring are read from every replica that is there.
//! 3. The checkpoint's records are replayed, then the journal's, block by block from the noted
//!    start up to the first block that no replica has whole. That is the end of the journal only if
//!    no block of a later commit is there: a commit is written when the one before it is durable,
//!    so such a block says that something durable was damaged, and the group is refused.
//! 4. Chunks whose copies may differ are settled: the first living copy stays, the others are made
//!    anew.
//! 5. A checkpoint is taken, so that all replicas agree and a new generation of the journal begins.
//!    Until its superblock is durable nothing that the crash left has been overwritten: a crash
//!    during recovery changes nothing.

use super::{OpenError, Opening, Reads, Step, replica_reads};
use crate::format::{BlockKind, Membership, Record, Stamp, Superblock};
use crate::map::overlay::Side;
use crate::map::place::{ChunkCopy, Place, Role};
use crate::map::{ChunkMap, ChunkState, Table};
use crate::moves::operation::{Operation, OperationKind};
use crate::opening::replicas::DamagedReplicas;
use crate::opening::salvage::Salvage;
use crate::pools::layout::Need;
use crate::pools::pool::{NO_DEVICE, Pool, PoolState};
use crate::pools::{Pools, Sizes};
use crate::settings::VOLUMES_MAX;
use crate::sizes::BLOCK_BYTES;
use thermocline_ports::Geometry;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{ChunkId, PoolId};

/// Result of a recovery, beside pools and map.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) superblock: Superblock,
    /// Operations that make copies anew, or end what was begun.
    pub(crate) wishes: Vec<Operation>,
    /// Tables of checksums that went with their last copy.
    pub(crate) tables_lost: u64,
    pub(crate) salvage: Option<Box<Salvage>>,
    pub(crate) damaged: DamagedReplicas,
}

impl Opening {
    /// Step 2: the superblock is chosen; the reads of checkpoint and journal.
    pub(super) fn supers_read(
        &mut self,
        pools: &mut Pools,
        map: &mut ChunkMap,
    ) -> Result<Vec<Step>, OpenError> {
        let superblock = self.choose_superblock()?;
        adopt(pools, &superblock)?;
        map.note_identity(superblock.next_volume.saturating_sub(1));
        assert!(map.next_identity() >= superblock.next_volume, "no identity is given twice");
        let mut steps = Vec::new();
        for &replica in &superblock.replicas {
            let pool = pools.find(replica);
            if pool.is_some_and(|pool| pool.is_alive() && pool.has_region) {
                steps.extend(replica_reads(&superblock, replica));
            }
        }
        self.superblock = Some(superblock);
        match steps.is_empty() {
            true => Err(OpenError::NoReplica),
            false => Ok(steps),
        }
    }

    /// Step 1.
    fn choose_superblock(&mut self) -> Result<Superblock, OpenError> {
        let mut found: Vec<(PoolId, Superblock)> = Vec::new();
        for step in &self.reads.steps {
            let blocks = step.found.iter().flat_map(|bytes| bytes.chunks(BLOCK_BYTES));
            let sound = blocks.filter_map(Superblock::decode).filter(Superblock::fits_its_pools);
            found.extend(sound.map(|block| (step.pool, block)));
            if let Some(salvage) = &mut self.salvage {
                let blocks = step.found.iter().flat_map(|bytes| bytes.chunks(BLOCK_BYTES));
                let corrected = blocks.filter_map(|block| salvage.corrected_superblock(block));
                found.extend(
                    corrected.filter(Superblock::fits_its_pools).map(|block| (step.pool, block)),
                );
            }
        }
        let best =
            found.iter().max_by_key(|(_, block)| block.sequence).ok_or(OpenError::NotAGroup)?;
        let best = best.1.clone();
        let is_newest = found.iter().all(|(_, block)| block.sequence <= best.sequence);
        assert!(is_newest, "no pool knows a newer state");
        for (pool, block) in &found {
            if block.identity != best.identity || block.this_pool != *pool {
                return Err(OpenError::Foreign(*pool));
            }
        }
        Ok(best)
    }

    /// Steps 3 and 4.
    pub(super) fn replay(
        &mut self,
        pools: &mut Pools,
        map: &mut ChunkMap,
    ) -> Result<Recovered, OpenError> {
        let superblock = self.superblock.clone().expect("chosen before");
        let mut replay = Replay {
            superblock: &superblock,
            reads: &self.reads,
            pools,
            map,
            salvage: self.salvage.take(),
            damaged: DamagedReplicas::default(),
            wishes: Vec::new(),
            tables_lost: 0,
        };
        replay.checkpoint()?;
        replay.journal()?;
        replay.settle_chunks()?;
        replay.check_room()?;
        let in_two = |chunk: &ChunkId| replay.map.overlay(*chunk).is_some();
        let count = || replay.map.chunks().filter(in_two).count();
        debug_assert_eq!(replay.map.overlays(), count(), "each chunk in two parts was counted");
        let Replay { wishes, tables_lost, salvage, damaged, .. } = replay;
        Ok(Recovered { superblock, wishes, tables_lost, salvage, damaged })
    }
}

/// Makes pools what the superblock says.
fn adopt(pools: &mut Pools, superblock: &Superblock) -> Result<(), OpenError> {
    pools.set_sizes(Sizes {
        chunk: superblock.chunk_size,
        journal_blocks: superblock.journal_blocks,
        area_blocks: superblock.area_blocks,
        ..*pools.sizes()
    });
    let devices: Vec<Option<Geometry>> =
        pools.iter().map(|pool| pool.is_alive().then_some(pool.geometry)).collect();
    let mut all = Vec::with_capacity(superblock.pools.len());
    for (index, record) in superblock.pools.iter().enumerate() {
        let geometry = devices.get(index).copied().flatten();
        let state = match record.membership {
            Membership::Removed => PoolState::Removed,
            Membership::Dead => PoolState::Dead,
            _ if geometry.is_none() => PoolState::Dead,
            Membership::Active => PoolState::Active,
            Membership::Draining => PoolState::Draining,
        };
        let slots = u64::from(record.slots) * u64::from(superblock.chunk_size);
        let bytes = slots.saturating_add(record.first_slot);
        if geometry.is_some_and(|g| g.size.0 < bytes) && state != PoolState::Removed {
            return Err(OpenError::Shrunk(PoolId(index as u16)));
        }
        let (tables, geometry) =
            (superblock.places().tables_of(record), geometry.unwrap_or(NO_DEVICE));
        let mut pool = Pool::new(record, tables, geometry, state, false);
        pool.dirty = mutant("recovered_pools_flushed_late");
        all.push(pool);
    }
    pools.replace(all, superblock.ranks.clone());
    let mut slots = pools.iter().zip(&superblock.pools);
    let alike = slots.all(|(pool, record)| pool.slots.total() == record.slots);
    assert!(alike && pools.count() == superblock.pools.len(), "pools are what it says");
    Ok(())
}

/// Steps 3 and 4 under way.
struct Replay<'a> {
    superblock: &'a Superblock,
    reads: &'a Reads,
    pools: &'a mut Pools,
    map: &'a mut ChunkMap,
    salvage: Option<Box<Salvage>>,
    damaged: DamagedReplicas,
    wishes: Vec<Operation>,
    tables_lost: u64,
}

impl Replay<'_> {
    /// The checkpoint's part of step 3.
    fn checkpoint(&mut self) -> Result<(), OpenError> {
        let superblock = self.superblock;
        assert!(self.map.chunks().next().is_none(), "a checkpoint is the whole map");
        for block in 0..superblock.checkpoint_blocks {
            let stamp = Stamp {
                identity: superblock.identity,
                generation: superblock.checkpoint_generation,
                sequence: u64::from(block),
            };
            let kind = BlockKind::Checkpoint;
            let mut records = self.records_of(kind, stamp, block, true);
            if let Some(salvage) = &mut self.salvage {
                let (reads, chunk_size) = (self.reads, superblock.chunk_size);
                let search = || salvage.corrected_block(reads, kind, stamp, block, chunk_size);
                records = records.or_else(search);
                match &records {
                    Some(records) => salvage.note_checkpoint(records),
                    None => {
                        salvage.note_gap();
                        records = Some(Vec::new());
                    }
                }
            }
            self.apply(records.ok_or(OpenError::Checkpoint { block })?);
        }
        if let Some(salvage) = &mut self.salvage {
            salvage.end_checkpoint();
        }
        Ok(())
    }

    /// Records of a block that some replica has whole. Where it was `durable`, replicas that do not
    /// have it so are damaged.
    fn records_of(
        &mut self,
        kind: BlockKind,
        stamp: Stamp,
        at: u32,
        durable: bool,
    ) -> Option<Vec<Record>> {
        let blocks = self.superblock.checkpoint_blocks.max(self.superblock.journal_blocks);
        assert!(at < blocks, "a block is in its ring, or in its area");
        let (records, damaged) = self.reads.block(kind, stamp, at, self.superblock.chunk_size)?;
        if durable {
            self.damaged.note(kind, &damaged);
        }
        Some(records)
    }

    /// The journal's part of step 3.
    fn journal(&mut self) -> Result<(), OpenError> {
        let superblock = self.superblock;
        let evidence = self.reads.journal_evidence(superblock);
        if let Some(salvage) = &mut self.salvage {
            salvage.older_session = evidence.later_session;
        } else if evidence.later_session {
            return Err(OpenError::SuperblockLost { sequence: superblock.sequence + 1 });
        }
        let ring = u64::from(superblock.journal_blocks);
        assert!(ring > 0, "a superblock names a ring that has blocks");
        for sequence in superblock.journal_start..superblock.journal_start + ring {
            let stamp = Stamp {
                identity: superblock.identity,
                generation: superblock.journal_generation,
                sequence,
            };
            let (kind, at) = (BlockKind::Journal, (sequence % ring) as u32);
            let (reads, chunk_size) = (self.reads, superblock.chunk_size);
            let durable = evidence.durable_before > sequence;
            let mut records = self.records_of(kind, stamp, at, durable);
            if let Some(salvage) = self.salvage.as_mut().filter(|_| durable) {
                let search = || salvage.corrected_block(reads, kind, stamp, at, chunk_size);
                records = records.or_else(search);
                if records.is_none() {
                    salvage.journal_blocks.push(sequence);
                    continue;
                }
            }
            if let (Some(salvage), Some(records)) = (&mut self.salvage, &records) {
                salvage.note_journal(sequence, records);
            }
            match records {
                Some(records) => {
                    let after = Stamp { sequence: sequence + 1, ..stamp };
                    let at = ((sequence + 1) % ring) as u32;
                    let last = || reads.block(kind, after, at, chunk_size).is_none();
                    if !(mutant("last_block_not_replayed") && last()) {
                        self.apply(records);
                    }
                }
                None if durable => {
                    let (block, durable) = (sequence, evidence.durable_before);
                    return Err(OpenError::Journal { block, durable });
                }
                None => break,
            }
        }
        Ok(())
    }

    fn apply(&mut self, records: Vec<Record>) {
        for record in records {
            match record {
                // A record of a volume that is gone by then, or was made anew smaller, is stale.
                Record::Chunk(chunk, state) => {
                    if self.map.has(chunk) {
                        self.map.set_state(chunk, &state);
                    }
                }
                Record::Volume(record) => {
                    self.map.note_identity(record.identity);
                    self.map.set_volume(record.id, record.size, self.superblock.chunk_size);
                    self.map.name_volume(record.id, record.identity, record.name);
                }
                Record::VolumeGone(volume) => {
                    assert!((volume.0 as usize) < VOLUMES_MAX, "readers refuse other volumes");
                    if self.map.volume(volume).is_some() {
                        self.map.remove_volume(volume);
                    }
                }
                Record::PoolDead(pool) => {
                    // Its copies go when all records are applied: a later one may name it again.
                    // One that was removed since is gone, whatever the journal said before.
                    if let Some(pool) = self.pools.find_mut(pool)
                        && pool.state != PoolState::Removed
                    {
                        pool.state = PoolState::Dead;
                    }
                }
            }
        }
    }

    fn lose_copies(&mut self, pool: PoolId) {
        assert_eq!(self.pools[pool].state, PoolState::Dead, "what is there is not lost");
        let several: Vec<ChunkId> = self.map.not_simple().collect();
        for chunk in several {
            let mut state = self.map.state(chunk);
            if !state.lose_pool(pool).is_empty() {
                self.drop_orphaned_table(&mut state);
                state.copies[0].role = Role::Wanted;
                self.map.set_state(chunk, &state);
            }
        }
    }

    /// Copies of a chunk are gone: where none of those that stay has room for a table, there is no
    /// table any more.
    fn drop_orphaned_table(&mut self, state: &mut ChunkState) {
        let has_room = |copy: &ChunkCopy| self.pools[copy.place.pool].checksums;
        let orphaned = state.table != Table::None && !state.copies.iter().any(has_room);
        if orphaned && !mutant("table_outlives_its_copies") {
            met("table of checksums went with its last copy");
            state.table = Table::None;
            self.tables_lost += 1;
        }
        let kept = state.table == Table::None || state.copies.iter().any(has_room);
        assert!(kept || mutant("table_outlives_its_copies"), "a table stands at some copy");
    }

    /// Step 4; claims every slot that a chunk has.
    fn settle_chunks(&mut self) -> Result<(), OpenError> {
        for pool in self.pools.ids() {
            if self.pools[pool].state == PoolState::Dead {
                self.lose_copies(pool);
            }
        }
        for chunk in self.chunks_to_settle() {
            self.distrust_table(chunk);
            let mut state = self.map.state(chunk);
            if self.gives_up_displaced(chunk, &state) {
                continue;
            }
            self.trust_one_side(chunk, &mut state);
            for copy in &state.copies {
                self.claim(copy.place)?;
                self.pools[copy.place.pool].count_copy(copy.role);
            }
            if let Some((place, blocks)) = state.overlay {
                self.claim(place)?;
                let base = state.copies[0].place.pool;
                let lives = |pool| self.pools[pool].is_alive();
                let (kind, to) = match (blocks.is_mirror(), lives(base), lives(place.pool)) {
                    (false, ..) => (OperationKind::Redirect, place.pool),
                    (true, true, false) => (OperationKind::Migrate, base),
                    (true, false, true) => (OperationKind::Migrate, place.pool),
                    (true, ..) => (OperationKind::Mirror, place.pool),
                };
                self.wishes.push(Operation { kind, chunk, to });
            }
        }
        let counts = |pool: &Pool| pool.prefetched <= pool.slots_used();
        assert!(self.pools.iter().all(counts), "prefetched copies are among the chunks' slots");
        Ok(())
    }

    /// Keeps one of the sides or copies that may differ: of the sides of a mirrored chunk the base,
    /// as long as it lives, and of copies the first.
    fn trust_one_side(&mut self, chunk: ChunkId, state: &mut ChunkState) {
        if state.dirty
            && !mutant("recovery_trusts_both_sides")
            && let Some((_, blocks)) = &mut state.overlay
        {
            let base = state.copies.first().map(|copy| copy.place.pool);
            let lives = base.is_some_and(|pool| self.pools[pool].is_alive());
            blocks.trust(if lives { Side::Base } else { Side::Above });
            self.map.set_state(chunk, state);
        }
        if state.dirty && state.copies.len() > 1 && !mutant("recovery_trusts_copies") {
            for copy in state.copies.drain(1..) {
                if !copy.gives_way() {
                    let to = copy.place.pool;
                    self.wishes.push(Operation { kind: OperationKind::Replicate, chunk, to });
                }
            }
            state.dirty = false;
            self.drop_orphaned_table(state);
            self.map.set_state(chunk, state);
        }
        let trusts = mutant("recovery_trusts_both_sides") || mutant("recovery_trusts_copies");
        assert!(trusts || !state.dirty || !state.may_differ(), "of what may differ one stays");
    }

    fn claim(&mut self, place: Place) -> Result<(), OpenError> {
        let contradiction = OpenError::Contradiction { pool: place.pool, slot: place.slot };
        let pool = self.pools.find_mut(place.pool).ok_or(contradiction)?;
        if place.slot >= pool.slots.total() || pool.slots.is_taken(place.slot) {
            return Err(contradiction);
        }
        pool.slots.claim(place.slot);
        assert!(pool.slots.is_taken(place.slot), "no other chunk can claim it");
        Ok(())
    }

    /// Some pool must have room for the map as it is.
    fn check_room(&self) -> Result<(), OpenError> {
        let used: u64 = self.pools.iter().map(|pool| u64::from(pool.slots_used())).sum();
        let need = self.pools.need(self.map.overlays(), self.map.living_volumes());
        let need = Need { slots: used, ..need };
        match self.pools.ids().any(|pool| self.pools.has_room(pool, need)) {
            true => Ok(()),
            false => Err(OpenError::MapTooLarge),
        }
    }

    /// The chunks in the order in which they get their slots: those that the journal named last
    /// come first, when the group is damaged.
    fn chunks_to_settle(&self) -> Vec<ChunkId> {
        let mut chunks: Vec<ChunkId> = self.map.chunks().collect();
        if let Some(salvage) = &self.salvage {
            chunks.sort_by_key(|chunk| std::cmp::Reverse(salvage.named(*chunk)));
        }
        chunks
    }

    /// Forgets the table of a chunk whose writes a lost record may have announced: what was written
    /// since would look rotten.
    fn distrust_table(&mut self, chunk: ChunkId) {
        if self.salvage.as_ref().is_some_and(|salvage| salvage.lacks_records()) {
            self.map.forget_table(chunk);
        }
    }

    /// Gives up a chunk of a damaged group whose place another one has; true if it had to be.
    fn gives_up_displaced(&mut self, chunk: ChunkId, state: &ChunkState) -> bool {
        let Some(salvage) = &mut self.salvage else { return false };
        let overlay = state.overlay.iter().map(|(place, _)| *place);
        let mut places = state.copies.iter().map(|copy| copy.place).chain(overlay);
        let is_free = |place: Place| {
            let pool = self.pools.find(place.pool);
            pool.is_some_and(|pool| {
                place.slot < pool.slots.total() && !pool.slots.is_taken(place.slot)
            })
        };
        if places.all(is_free) {
            return false;
        }
        self.map.set_state(chunk, &ChunkState::default());
        salvage.displaced.push(chunk);
        assert!(self.map.is_simple(chunk), "nothing of it is left");
        true
    }
}
