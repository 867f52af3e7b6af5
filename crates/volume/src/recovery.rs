//! Finding a group again after a shutdown or a crash.
//!
//! 1. The superblocks of every device are read; the highest whole one counts.
//! 2. The checkpoint and the whole journal ring are read from every home that is there.
//! 3. The checkpoint's records are replayed, then the journal's, block by block from the noted
//!    start up to the first block that no home has whole. That is the end of the journal only if no
//!    block of a later commit is there: a commit is written when the one before it is durable, so
//!    such a block says that something durable was damaged, and the group is refused.
//! 4. Chunks whose copies may differ are settled: the first living copy stays, the others are made
//!    anew.
//! 5. A checkpoint is taken, so that all homes agree and a new generation of the journal begins.
//!    Until its superblock is durable nothing that the crash left has been overwritten: a crash
//!    during recovery changes nothing.

use crate::format::{BLOCK_BYTES, BlockKind, Membership, Record, Stamp, Superblock};
use crate::group::Group;
use crate::journal::Journal;
use crate::layout::{self, Need};
use crate::map::Place;
use crate::opening::{OpenError, Opening, home_reads};
use crate::operation::{Operation, OperationKind};
use crate::overlay::Side;
use crate::pools::Sizes;
use crate::pools::pool::{Pool, PoolState};
use thermocline_ports::Geometry;
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

impl Group {
    /// Step 2: the superblock is chosen, checkpoint and journal are read.
    pub(crate) fn supers_read(&mut self) -> Result<(), OpenError> {
        let superblock = self.choose_superblock()?;
        self.adopt(&superblock)?;
        let mut steps = Vec::new();
        for &home in &superblock.homes {
            let pool = self.pools.find(home);
            if pool.is_some_and(|pool| pool.is_alive() && pool.has_region) {
                steps.extend(home_reads(&superblock, home));
            }
        }
        if steps.is_empty() {
            return Err(OpenError::NoHome);
        }
        self.opening.as_mut().expect("opening").superblock = Some(superblock);
        self.begin_steps(steps);
        Ok(())
    }

    /// Step 1.
    pub(crate) fn choose_superblock(&mut self) -> Result<Superblock, OpenError> {
        let opening = self.opening.as_ref().expect("opening");
        let mut found: Vec<(PoolId, Superblock)> = Vec::new();
        for step in &opening.steps {
            let blocks = step.found.iter().flat_map(|bytes| bytes.chunks(BLOCK_BYTES));
            let sound = blocks.filter_map(Superblock::decode).filter(layout::holds);
            found.extend(sound.map(|block| (step.pool, block)));
            if let Some(salvage) = &mut self.salvage {
                let blocks = step.found.iter().flat_map(|bytes| bytes.chunks(BLOCK_BYTES));
                let corrected = blocks.filter_map(|block| salvage.corrected_superblock(block));
                found.extend(corrected.filter(layout::holds).map(|block| (step.pool, block)));
            }
        }
        let best =
            found.iter().max_by_key(|(_, block)| block.sequence).ok_or(OpenError::NotAGroup)?;
        let best = best.1.clone();
        for (pool, block) in &found {
            if block.identity != best.identity || block.this_pool != *pool {
                return Err(OpenError::Foreign(*pool));
            }
        }
        Ok(best)
    }

    /// Makes settings and pools what the superblock says.
    pub(crate) fn adopt(&mut self, superblock: &Superblock) -> Result<(), OpenError> {
        self.chunk_size = superblock.chunk_size;
        self.settings.chunk_size = Bytes(u64::from(superblock.chunk_size));
        self.settings.journal_blocks = superblock.journal_blocks;
        self.settings.checksums = superblock.pools.iter().all(|pool| pool.checksums);
        self.pools.set_sizes(Sizes {
            chunk: superblock.chunk_size,
            journal_blocks: superblock.journal_blocks,
            area_blocks: superblock.area_blocks,
            ..*self.pools.sizes()
        });
        self.map.note_identity(superblock.next_volume.saturating_sub(1));
        self.journal.set_identity(superblock.identity);
        let nowhere = Geometry { size: Bytes(0), discard_zeroes: false, far: false };
        let devices: Vec<Option<Geometry>> =
            self.pools.iter().map(|pool| pool.is_alive().then_some(pool.geometry)).collect();
        let mut pools = Vec::with_capacity(superblock.pools.len());
        for (index, record) in superblock.pools.iter().enumerate() {
            let geometry = devices.get(index).copied().flatten();
            let state = match record.membership {
                Membership::Removed => PoolState::Removed,
                Membership::Dead => PoolState::Dead,
                _ if geometry.is_none() => PoolState::Dead,
                Membership::Active => PoolState::Active,
                Membership::Draining => PoolState::Draining,
            };
            let slots = u64::from(record.slots) * u64::from(self.chunk_size);
            let bytes = slots.saturating_add(record.first_slot);
            if geometry.is_some_and(|g| g.size.0 < bytes) && state != PoolState::Removed {
                return Err(OpenError::Shrunk(PoolId(index as u16)));
            }
            let (tables, geometry) = (superblock.tables_of(record), geometry.unwrap_or(nowhere));
            let mut pool = Pool::new(record, tables, geometry, state, false);
            pool.dirty = mutant("recovered_pools_flushed_late");
            pools.push(pool);
        }
        self.pools.replace(pools, superblock.ranks.clone());
        Ok(())
    }

    /// Steps 3 to 5.
    pub(crate) fn replay(&mut self) -> Result<(), OpenError> {
        let opening = self.opening.take().expect("opening");
        let superblock = opening.superblock.as_ref().expect("chosen before");
        for block in 0..superblock.checkpoint_blocks {
            let stamp = Stamp {
                identity: superblock.identity,
                generation: superblock.checkpoint_generation,
                sequence: u64::from(block),
            };
            let kind = BlockKind::Checkpoint;
            let mut records = self.records_of(&opening, kind, stamp, block, true);
            if let Some(salvage) = &mut self.salvage {
                let search =
                    || salvage.corrected_block(&opening, kind, stamp, block, self.chunk_size);
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
        self.replay_journal(superblock, &opening)?;
        self.settle_chunks()?;
        self.name_old_volumes();
        let used: u64 = self.pools.iter().map(|pool| u64::from(pool.slots_used())).sum();
        let need = Need { slots: used, ..self.need() };
        if !self.pools.ids().any(|pool| self.pools.has_room(pool, need)) {
            return Err(OpenError::MapTooLarge);
        }
        let generation = match mutant("journal_keeps_its_generation") {
            true => superblock.journal_generation,
            false => superblock.sequence + 1,
        };
        self.journal = Journal::recovered(superblock, generation);
        self.first_checkpoint();
        Ok(())
    }

    /// Records of a block that some replica has whole. Where it was `durable`, replicas that do not
    /// have it so are damaged.
    fn records_of(
        &mut self,
        opening: &Opening,
        kind: BlockKind,
        stamp: Stamp,
        at: u32,
        durable: bool,
    ) -> Option<Vec<Record>> {
        let (records, damaged) = opening.block(kind, stamp, at, self.chunk_size)?;
        if durable {
            self.damaged_replicas.note(kind, &damaged);
        }
        Some(records)
    }

    /// The journal's part of step 3.
    fn replay_journal(
        &mut self,
        superblock: &Superblock,
        opening: &Opening,
    ) -> Result<(), OpenError> {
        let evidence = opening.journal_evidence(superblock);
        if let Some(salvage) = &mut self.salvage {
            salvage.older_session = evidence.later_session;
        } else if evidence.later_session {
            return Err(OpenError::SuperblockLost { sequence: superblock.sequence + 1 });
        }
        let ring = u64::from(superblock.journal_blocks);
        for sequence in superblock.journal_start..superblock.journal_start + ring {
            let stamp = Stamp {
                identity: superblock.identity,
                generation: superblock.journal_generation,
                sequence,
            };
            let (kind, at) = (BlockKind::Journal, (sequence % ring) as u32);
            let durable = evidence.durable_before > sequence;
            let mut records = self.records_of(opening, kind, stamp, at, durable);
            if let Some(salvage) = self.salvage.as_mut().filter(|_| durable) {
                let search = || salvage.corrected_block(opening, kind, stamp, at, self.chunk_size);
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
                    let last = || opening.block(kind, after, at, self.chunk_size).is_none();
                    if !(mutant("last_block_not_replayed") && last()) {
                        self.apply(records);
                    }
                }
                None if evidence.durable_before > sequence => {
                    let (block, durable) = (sequence, evidence.durable_before);
                    return Err(OpenError::Journal { block, durable });
                }
                None => break,
            }
        }
        Ok(())
    }

    pub(crate) fn apply(&mut self, records: Vec<Record>) {
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
                    self.map.set_volume(record.id, record.size, self.chunk_size);
                    let volume = self.map.volume_mut(record.id).expect("just made");
                    (volume.identity, volume.name) = (record.identity, record.name);
                }
                Record::VolumeGone(volume) => {
                    if self.map.volume(volume).is_some() {
                        self.map.remove_volume(volume);
                    }
                }
                Record::PoolDead(pool) => {
                    // Its copies go when all records are applied: a later one may name it again.
                    if let Some(pool) = self.pools.find_mut(pool) {
                        pool.state = PoolState::Dead;
                    }
                }
            }
        }
    }

    pub(crate) fn lose_copies(&mut self, pool: PoolId) {
        let several: Vec<ChunkId> =
            self.map.chunks().filter(|&chunk| !self.map.is_simple(chunk)).collect();
        for chunk in several {
            let mut state = self.map.state(chunk);
            if !state.lose_pool(pool).is_empty() {
                self.drop_homeless_table(chunk, &mut state);
                state.copies[0].prefetched = false;
                self.map.set_state(chunk, &state);
            }
        }
    }

    /// Step 4; claims every slot that a chunk has.
    pub(crate) fn settle_chunks(&mut self) -> Result<(), OpenError> {
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
            if state.dirty
                && !mutant("recovery_trusts_both_sides")
                && let Some((_, blocks)) = &mut state.overlay
            {
                // The base, as long as it lives.
                let base = state.copies.first().map(|copy| copy.place.pool);
                let lives = base.is_some_and(|pool| self.pool(pool).is_alive());
                blocks.trust(if lives { Side::Base } else { Side::Above });
                self.map.set_state(chunk, &state);
            }
            if state.dirty && state.copies.len() > 1 && !mutant("recovery_trusts_copies") {
                for copy in state.copies.drain(1..) {
                    if !copy.prefetched {
                        let to = copy.place.pool;
                        self.copier.wish(Operation { kind: OperationKind::Replicate, chunk, to });
                    }
                }
                state.dirty = false;
                self.drop_homeless_table(chunk, &mut state);
                self.map.set_state(chunk, &state);
            }
            for copy in &state.copies {
                self.claim(copy.place)?;
                if copy.prefetched {
                    self.pools[copy.place.pool].prefetched += 1;
                }
            }
            if !state.copies.is_empty() {
                self.watch(Nanos(0), chunk);
            }
            if let Some((place, blocks)) = state.overlay {
                self.claim(place)?;
                self.copier.overlays += 1;
                let base = state.copies[0].place.pool;
                let lives = |pool| self.pool(pool).is_alive();
                let (kind, to) = match (blocks.is_mirror(), lives(base), lives(place.pool)) {
                    (false, ..) => (OperationKind::Redirect, place.pool),
                    (true, true, false) => (OperationKind::Migrate, base),
                    (true, false, true) => (OperationKind::Migrate, place.pool),
                    (true, ..) => (OperationKind::Mirror, place.pool),
                };
                self.copier.wish(Operation { kind, chunk, to });
            }
        }
        Ok(())
    }

    pub(crate) fn claim(&mut self, place: Place) -> Result<(), OpenError> {
        let contradiction = OpenError::Contradiction { pool: place.pool, slot: place.slot };
        let pool = self.pools.find_mut(place.pool).ok_or(contradiction)?;
        if place.slot >= pool.slots.total() || pool.slots.is_taken(place.slot) {
            return Err(contradiction);
        }
        pool.slots.claim(place.slot);
        Ok(())
    }
}
