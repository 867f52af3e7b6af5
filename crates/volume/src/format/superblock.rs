//! Superblocks: what a group is, which pools it has, and where its newest checkpoint stands. Drawn
//! in docs/formats/volume.md.

use super::{
    AREA_BLOCKS_MAX, BLOCK_BYTES, NAME_BYTES_MAX, Reader, SUPER_MAGIC, VERSION,
    VERSION_WITH_EXTENTS, VERSION_WITH_TABLE_SLOTS, VERSION_WITH_UNLIKE_POOLS,
    VERSION_WITHOUT_GROWTH, has_crc,
};
use crate::pools::extents::{Extents, Run};
use crate::pools::layout::ALIGNMENT;
use crate::pools::ranks::Ranks;
use crate::pools::tables::Places;
use crate::settings::{CHUNK_MAX, CHUNK_MIN, JOURNAL_BLOCKS, POOLS_MAX};
use crate::sizes::RUNS_MAX;
use thermocline_units::fields::{put_at, u32_at};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, PoolId};

/// Bytes of a superblock's fixed fields, with two replicas.
const SUPER_FIXED_BYTES: usize = SUPER_HEAD_BYTES + 2 * 2 + 8;
/// Bytes of a superblock before its replicas.
const SUPER_HEAD_BYTES: usize = 76;
/// Bytes of a pool in a superblock at most, with the heads of its two lists of extents.
const SUPER_POOL_BYTES: usize = 19 + NAME_BYTES_MAX + 2 * 4;

const _: () = assert!(
    SUPER_FIXED_BYTES + POOLS_MAX * SUPER_POOL_BYTES + 1 + RUNS_MAX * 8 + 1 + POOLS_MAX
        <= BLOCK_BYTES,
    "the largest superblock fits into a block"
);

/// Part that a pool takes in the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    Active,
    Draining,
    Dead,
    Removed,
}

/// A pool as the superblock knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolRecord {
    pub(crate) name: String,
    pub(crate) membership: Membership,
    pub(crate) slots: u32,
    pub(crate) reserve: u32,
    /// Bytes from the device's start to its first slot.
    pub(crate) first_slot: u64,
    /// True if the pool has room for journal and checkpoints before its first slot.
    pub(crate) has_metadata_region: bool,
    /// True if chunks get tables of checksums on it. Up to version 4 all pools are alike.
    pub(crate) checksums: bool,
    /// The slots that continue each of its checkpoint areas. Since version 3.
    pub(crate) extents: [Extents; 2],
}

/// The root of a group: written to every pool, in two alternating places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Version of the layout that wrote it; what is encoded is of [`Superblock::version_needed`].
    pub(crate) version: u16,
    pub(crate) identity: u64,
    /// Counts superblocks; the highest that is whole is the group's state.
    pub(crate) sequence: u64,
    /// Pool that this copy stands on.
    pub(crate) this_pool: PoolId,
    pub(crate) chunk_size: u32,
    pub(crate) journal_blocks: u32,
    /// Blocks of each of the two checkpoint areas.
    pub(crate) area_blocks: u32,
    /// Area that holds the checkpoint: 0 or 1.
    pub(crate) area: u8,
    /// Blocks of the checkpoint.
    pub(crate) checkpoint_blocks: u32,
    /// Generation in the checkpoint's blocks.
    pub(crate) checkpoint_generation: u64,
    /// Generation in the journal's blocks.
    pub(crate) journal_generation: u64,
    /// Sequence of the first journal block to replay.
    pub(crate) journal_start: u64,
    /// Pools that hold journal and checkpoint.
    pub(crate) replicas: Vec<PoolId>,
    pub(crate) pools: Vec<PoolRecord>,
    /// Identity that the next volume gets, as far as the checkpoint knows. Since version 3.
    pub(crate) next_volume: u64,
    /// The order of the pools by speed. Since version 3; where it is not said, that of their ids.
    pub(crate) ranks: Ranks,
}

/// True if a block begins as a superblock does, whole or not, of whatever version; one flipped bit
/// does not hide it.
pub(crate) fn is_superblock(block: &[u8]) -> bool {
    let Some(head) = block.get(..SUPER_MAGIC.len()) else { return false };
    let differing = head.iter().zip(SUPER_MAGIC).map(|(own, magic)| (own ^ magic).count_ones());
    differing.sum::<u32>() <= 1
}

/// True if a block is a superblock whose bytes are not as they were written.
pub(crate) fn is_damaged_superblock(block: &[u8]) -> bool {
    let (Some(crc), Some(summed)) = (u32_at(block, 8), block.get(12..)) else { return false };
    is_superblock(block) && !(block.starts_with(SUPER_MAGIC) && has_crc(summed, crc))
}

impl Superblock {
    /// True if each pool's metadata and checksum tables lie before its first slot, or in slots that
    /// nothing else has, and that where slots begin.
    pub(crate) fn fits_its_pools(&self) -> bool {
        self.pools.iter().all(|pool| {
            let tables = self.places().tables_of(pool);
            let grew = self.version >= VERSION_WITH_TABLE_SLOTS;
            let mut areas = pool.extents.iter().flat_map(Extents::slots);
            tables.has_head()
                && (grew || tables.all_before(pool.slots))
                && !areas.any(|slot| tables.is_on(slot))
                && pool.first_slot.is_multiple_of(ALIGNMENT)
        })
    }

    /// The superblock as a block of 4 KiB.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_BYTES);
        out.extend_from_slice(SUPER_MAGIC);
        out.extend_from_slice(&[0; 4]);
        let version = self.version_needed();
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&self.this_pool.0.to_le_bytes());
        for value in [self.identity, self.sequence] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in
            [self.chunk_size, self.journal_blocks, self.area_blocks, self.checkpoint_blocks]
        {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.checkpoint_generation, self.journal_generation, self.journal_start] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.push(self.area);
        out.push(u8::from(self.pools.iter().any(|pool| pool.checksums)));
        out.push(self.replicas.len() as u8);
        out.push(self.pools.len() as u8);
        for replica in &self.replicas {
            out.extend_from_slice(&replica.0.to_le_bytes());
        }
        assert_eq!(out.len(), SUPER_HEAD_BYTES + 2 * self.replicas.len(), "pools begin here");
        for pool in &self.pools {
            out.push(pool.membership as u8);
            let checksums = pool.checksums && version >= VERSION_WITH_UNLIKE_POOLS;
            out.push(u8::from(pool.has_metadata_region) | u8::from(checksums) << 1);
            out.extend_from_slice(&pool.slots.to_le_bytes());
            out.extend_from_slice(&pool.reserve.to_le_bytes());
            out.extend_from_slice(&pool.first_slot.to_le_bytes());
            out.push(pool.name.len() as u8);
            out.extend_from_slice(pool.name.as_bytes());
        }
        out.extend_from_slice(&self.next_volume.to_le_bytes());
        self.encode_extents(&mut out);
        out.push(self.ranks.order().len() as u8);
        out.extend(self.ranks.order().iter().map(|id| id.0 as u8));
        assert!(out.len() <= BLOCK_BYTES, "POOLS_MAX pools fit into a superblock");
        out.resize(BLOCK_BYTES, 0);
        let end = if mutant("superblock_crc_of_one_sector") { 512 } else { BLOCK_BYTES };
        let crc = out.get(12..end).map_or(0, crc32c::crc32c);
        put_at(&mut out, 8, &crc.to_le_bytes());
        out
    }

    /// Reads a block; `None` when it is no whole superblock of this version.
    pub(crate) fn decode(block: &[u8]) -> Option<Superblock> {
        let mut reader = Reader(block.get(..BLOCK_BYTES)?);
        let magic = reader.take(8)?;
        let crc = reader.u32()?;
        let end = if mutant("superblock_crc_of_one_sector") { 512 } else { BLOCK_BYTES };
        if magic != SUPER_MAGIC || !has_crc(block.get(12..end)?, crc) {
            return None;
        }
        let version = reader.u16()?;
        if !(1..=VERSION).contains(&version) {
            return None;
        }
        let this_pool = PoolId(reader.u16()?);
        let (identity, sequence) = (reader.u64()?, reader.u64()?);
        let (chunk_size, journal_blocks) = (reader.u32()?, reader.u32()?);
        let (area_blocks, checkpoint_blocks) = (reader.u32()?, reader.u32()?);
        let (checkpoint_generation, journal_generation) = (reader.u64()?, reader.u64()?);
        let journal_start = reader.u64()?;
        let area = reader.u8()?;
        let checksums = reader.u8()? != 0;
        let (replica_count, pool_count) = (reader.u8()?, usize::from(reader.u8()?));
        let replicas =
            (0..replica_count).map(|_| Some(PoolId(reader.u16()?))).collect::<Option<_>>()?;
        if area > 1 || pool_count > POOLS_MAX {
            return None;
        }
        let mut pools: Vec<PoolRecord> =
            (0..pool_count).map(|_| decode_pool(&mut reader, version)).collect::<Option<_>>()?;
        if version < VERSION_WITH_UNLIKE_POOLS {
            pools.iter_mut().for_each(|pool| pool.checksums = checksums);
        }
        let (mut next_volume, mut ranks) = (1, Ranks::by_id(pool_count));
        if version >= VERSION_WITH_EXTENTS {
            next_volume = reader.u64()?.max(1);
            decode_extents(&mut reader, &mut pools)?;
            ranks = decode_ranks(&mut reader, pool_count)?;
        }
        let superblock = Superblock {
            version,
            identity,
            sequence,
            this_pool,
            chunk_size,
            journal_blocks,
            area_blocks,
            area,
            checkpoint_blocks,
            checkpoint_generation,
            journal_generation,
            journal_start,
            replicas,
            pools,
            next_volume,
            ranks,
        };
        superblock.is_sound().then_some(superblock)
    }

    /// The slots that continue areas: how many lists, then for each its pool, area and runs.
    fn encode_extents(&self, out: &mut Vec<u8>) {
        let lists = self.pools.iter().enumerate().flat_map(|(index, pool)| {
            let areas = pool.extents.iter().enumerate();
            areas.map(move |(area, extents)| (index as u16, area as u8, extents))
        });
        let lists: Vec<_> = lists.filter(|(.., extents)| extents.count() > 0).collect();
        let runs: usize = lists.iter().map(|(.., extents)| extents.runs().len()).sum();
        assert!(runs <= RUNS_MAX, "a superblock has room for them");
        out.push(lists.len() as u8);
        for (pool, area, extents) in lists {
            out.extend_from_slice(&pool.to_le_bytes());
            out.push(area);
            out.push(extents.runs().len() as u8);
            for run in extents.runs() {
                out.extend_from_slice(&run.first.to_le_bytes());
                out.extend_from_slice(&run.slots.to_le_bytes());
            }
        }
    }

    /// The oldest version of the layout, of those that are written, that has all that this says.
    fn version_needed(&self) -> u16 {
        if self.has_unlike_pools() && !mutant("unlike_pools_forgotten") {
            return VERSION_WITH_UNLIKE_POOLS;
        }
        let mut pools = self.pools.iter();
        match pools.all(|pool| self.places().tables_of(pool).all_before(pool.slots)) {
            true => VERSION_WITHOUT_GROWTH,
            false => VERSION_WITH_TABLE_SLOTS,
        }
    }

    /// True if some pools have checksums, and others have none.
    fn has_unlike_pools(&self) -> bool {
        let next = self.pools.iter().skip(1);
        self.pools.iter().zip(next).any(|(one, next)| one.checksums != next.checksums)
    }

    /// Sizes that say where things lie on the pools' devices.
    pub(crate) fn places(&self) -> Places {
        Places {
            chunk_size: self.chunk_size,
            journal_blocks: self.journal_blocks,
            area_blocks: self.area_blocks,
        }
    }

    /// True if the pool's area in force has room for the checkpoint.
    fn has_checkpoint(&self, pool: PoolId) -> bool {
        let pool = self.pools.get(usize::from(pool.0));
        pool.is_some_and(|pool| {
            self.checkpoint_blocks <= self.places().area_of(pool, self.area).capacity()
        })
    }

    /// True if the numbers are such as creation makes: in range, and consistent with each other.
    fn is_sound(&self) -> bool {
        let chunk = Bytes(u64::from(self.chunk_size));
        chunk.0.is_power_of_two()
            && (CHUNK_MIN..=CHUNK_MAX).contains(&chunk)
            && JOURNAL_BLOCKS.contains(&self.journal_blocks)
            && self.area_blocks <= AREA_BLOCKS_MAX
            && self.replicas.iter().any(|&replica| self.has_checkpoint(replica))
            && self.sequence < u64::MAX / 2
            && self.journal_start < u64::MAX / 2
            && self.next_volume < u64::MAX / 2
            && self.replicas.iter().all(|replica| usize::from(replica.0) < self.pools.len())
            && self
                .replicas
                .iter()
                .enumerate()
                .all(|(n, pool)| self.replicas.iter().take(n).all(|earlier| earlier != pool))
    }
}

/// Reads a pool; up to version 4 the superblock says whether it has checksums.
fn decode_pool(reader: &mut Reader<'_>, version: u16) -> Option<PoolRecord> {
    let membership = match reader.u8()? {
        0 => Membership::Active,
        1 => Membership::Draining,
        2 => Membership::Dead,
        3 => Membership::Removed,
        _ => return None,
    };
    let flags = reader.u8()?;
    let (has_metadata_region, checksums) = match version {
        VERSION_WITH_UNLIKE_POOLS.. => (flags & 1 == 1, flags >> 1 & 1 == 1),
        _ => (flags != 0, false),
    };
    let (slots, reserve, first_slot) = (reader.u32()?, reader.u32()?, reader.u64()?);
    let length = usize::from(reader.u8()?);
    let name = std::str::from_utf8(reader.take(length)?).ok()?.to_string();
    let extents = Default::default();
    Some(PoolRecord {
        name,
        membership,
        slots,
        reserve,
        first_slot,
        has_metadata_region,
        checksums,
        extents,
    })
}

/// Reads what [`Superblock::encode_extents`] wrote into the pools that it is about.
fn decode_extents(reader: &mut Reader<'_>, pools: &mut [PoolRecord]) -> Option<()> {
    let mut runs_left = RUNS_MAX;
    for _ in 0..reader.u8()? {
        let (pool, area, count) = (reader.u16()?, reader.u8()?, usize::from(reader.u8()?));
        runs_left = runs_left.checked_sub(count)?;
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            runs.push(Run { first: reader.u32()?, slots: reader.u32()? });
        }
        let pool = pools.get_mut(usize::from(pool))?;
        let extents = Extents::of_runs(runs)?;
        if extents.runs().iter().any(|run| run.first + run.slots > pool.slots) {
            return None;
        }
        *pool.extents.get_mut(usize::from(area))? = extents;
    }
    let within = |pool: &PoolRecord| {
        let mut runs = pool.extents.iter().flat_map(Extents::runs);
        runs.all(|run| run.first + run.slots <= pool.slots)
    };
    debug_assert!(pools.iter().all(within), "no metadata lies beyond its pool");
    // No slot is in two places.
    let apart = |pool: &PoolRecord| {
        let runs = pool.extents.iter().flat_map(Extents::runs);
        let mut runs: Vec<(u32, u32)> =
            runs.map(|run| (run.first, run.first + run.slots)).collect();
        runs.sort_unstable();
        runs.iter().zip(runs.iter().skip(1)).all(|((_, end), (begin, _))| end <= begin)
    };
    pools.iter().all(apart).then_some(())
}

/// Reads the order of so many pools by speed; a superblock that says nothing of it is older than
/// the order, and has that of the ids.
fn decode_ranks(reader: &mut Reader<'_>, pools: usize) -> Option<Ranks> {
    let count = usize::from(reader.u8()?);
    if count == 0 {
        return Some(Ranks::by_id(pools));
    }
    let order = reader.take(count)?.iter().map(|&id| PoolId(id.into())).collect();
    Ranks::of_order(order).filter(|_| count == pools)
}
