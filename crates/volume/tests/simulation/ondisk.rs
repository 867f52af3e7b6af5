//! Contents of the disks, read by someone else: superblock, checkpoint and journal, as docs/formats
//! has them, decoded without the machine's code.
//!
//! 1. The highest whole superblock of all disks counts.
//! 2. Each block of its checkpoint must be whole on one of the replicas.
//! 3. The journal is replayed from the noted start to the first block that no replica has whole.
//! 4. No slot may then belong to two chunks.
//! 5. A journal block that was durable is on every replica that lives; copies, and sides of
//!    mirrors, that are called equal are equal, byte for byte. A chunk that is said to have
//!    checksums has its table at each copy that has room for one, and there is one at least.
//!
//! It reads what a crash left, before the group does; and after an orderly end, when it must say
//! exactly what the group said. It never writes.

use std::collections::{BTreeMap, BTreeSet};
use thermocline_ports::Payload;

const BLOCK: u64 = 4096;
const HEADER: usize = 40;

/// A pool and a slot.
pub(crate) type Slot = (u16, u32);

/// The map on disk.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct OnDisk {
    /// Sizes in bytes by volume.
    pub(crate) volumes: BTreeMap<u32, u64>,
    /// Slots of whole copies by volume and chunk.
    pub(crate) chunks: BTreeMap<(u32, u32), Vec<Slot>>,
    /// Chunks whose copies may differ.
    dirty: BTreeSet<(u32, u32)>,
    /// Blocks that both sides of a mirrored chunk hold.
    shared: BTreeMap<(u32, u32), Vec<u64>>,
    /// Chunks that have checksums, and the checksum of their table.
    pub(crate) checksummed: BTreeMap<(u32, u32), u32>,
    /// Slots of redirected parts.
    pub(crate) overlays: BTreeMap<(u32, u32), Slot>,
    pub(crate) pools: Vec<Pool>,
    /// Pools that hold journal and checkpoints.
    pub(crate) replicas: Vec<u16>,
    dead: BTreeSet<u16>,
    chunk_size: u64,
}

/// Fields that are needed of a pool's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Bytes from the pool's start to its first slot.
    pub(crate) first_slot: u64,
    /// Number of slots, of which these hold tables of checksums.
    slots: u32,
    tables: BTreeSet<u32>,
    /// Offset of the first table, and number of slots whose tables stand before the first slot.
    head: u64,
    before: u32,
    /// True if it has tables of checksums.
    checksums: bool,
    has_region: bool,
    /// True if it is neither dead nor removed.
    lives: bool,
    /// The slots in which each of its checkpoint areas goes on.
    pub(crate) extents: [Vec<u32>; 2],
}

/// Fields that are needed of a superblock.
#[derive(Debug, Clone)]
struct Root {
    identity: u64,
    sequence: u64,
    chunk_size: u64,
    journal_blocks: u64,
    area_blocks: u64,
    checkpoint_blocks: u64,
    checkpoint_generation: u64,
    journal_generation: u64,
    journal_start: u64,
    area: u64,
    replicas: Vec<u16>,
    pools: Vec<Pool>,
}

/// Bytes of a disk: pool, offset, length. `None` where there is nothing to be had.
pub(crate) trait Peek: Fn(u16, u64, usize) -> Option<Payload> {}
impl<F: Fn(u16, u64, usize) -> Option<Payload>> Peek for F {}

/// The bytes of a block. Zeroes are none: nothing that is written begins with them.
fn written(block: &Payload) -> &[u8] {
    match block {
        Payload::Bytes(bytes) => bytes,
        Payload::Zeroes(_) => &[],
    }
}

/// Reads the map from `pools` disks; `None` when they hold no group.
///
/// # Errors
/// When a checkpoint block is whole nowhere, a record makes no sense, or two chunks share a slot.
pub(crate) fn read(pools: u16, peek: impl Peek) -> Result<Option<OnDisk>, String> {
    let blocks = (0..pools).flat_map(|pool| [(pool, 0), (pool, BLOCK)]);
    let roots = blocks.filter_map(|(pool, at)| root(written(&peek(pool, at, BLOCK as usize)?)));
    let Some(root) = roots.max_by_key(|root| root.sequence) else { return Ok(None) };
    let pools = root.pools.clone();
    let (replicas, chunk_size) = (root.replicas.clone(), root.chunk_size);
    let mut disk = OnDisk { pools, replicas, chunk_size, ..OnDisk::default() };
    for block in 0..root.checkpoint_blocks {
        let at = |replica: u16| root.checkpoint_block(replica, block);
        let stamp = (root.identity, root.checkpoint_generation, block);
        let records = records(b"TCCP", stamp, at, &root.replicas, &peek);
        let records = records.ok_or(format!("checkpoint block {block} is whole on no replica"))?;
        disk.apply(&records).ok_or(format!("checkpoint block {block} makes no sense"))?;
    }
    for sequence in root.journal_start..root.journal_start + root.journal_blocks {
        let at = |_| Some((2 + sequence % root.journal_blocks) * BLOCK);
        let stamp = (root.identity, root.journal_generation, sequence);
        let Some(records) = records(b"TCJL", stamp, at, &root.replicas, &peek) else { break };
        disk.apply(&records).ok_or(format!("journal block {sequence} makes no sense"))?;
    }
    disk.check_slots()?;
    disk.check_journal(&root, &peek)?;
    disk.check_copies(root.chunk_size, &peek)?;
    disk.check_tables(&peek)?;
    Ok(Some(disk))
}

impl OnDisk {
    fn lives(&self, pool: u16) -> bool {
        self.pools.get(usize::from(pool)).is_some_and(|pool| pool.lives)
            && !self.dead.contains(&pool)
    }

    /// A commit is answered when it is on every replica: of those before the last, each block is.
    /// But a replica may have died under the last but one, and the last, which begins with its
    /// death, may be torn.
    fn check_journal(&self, root: &Root, peek: &impl Peek) -> Result<(), String> {
        let replicas = || root.replicas.iter().filter(|replica| self.lives(**replica));
        let block = |replica: u16, sequence: u64| {
            let at = (2 + sequence % root.journal_blocks) * BLOCK;
            let stamp = (root.identity, root.journal_generation, sequence);
            let block = peek(replica, at, BLOCK as usize)?;
            let block = written(&block);
            let whole = used(b"TCJL", stamp, block).is_some();
            Some(whole.then(|| u64::from(u16::from_le_bytes([block[34], block[35]]))))
        };
        let sequences = root.journal_start..root.journal_start + root.journal_blocks;
        let commits = sequences.clone().flat_map(|sequence| {
            let found = replicas().filter_map(move |&replica| block(replica, sequence).flatten());
            found.map(move |before| sequence.saturating_sub(before))
        });
        let last = commits.max().unwrap_or(0);
        let durable = match replicas().any(|&replica| block(replica, last).flatten().is_some()) {
            true => last,
            false => {
                let before = last.saturating_sub(1);
                let found = replicas().find_map(|&replica| block(replica, before).flatten());
                before.saturating_sub(found.unwrap_or(0))
            }
        };
        for sequence in sequences.take_while(|sequence| *sequence < durable) {
            let lacks = |replica: &&u16| block(**replica, sequence) == Some(None);
            if let Some(replica) = replicas().find(lacks) {
                return Err(format!("journal block {sequence} is not on replica {replica}"));
            }
        }
        Ok(())
    }

    /// Checks that what the journal calls equal is equal.
    fn check_copies(&self, chunk_size: u64, peek: &impl Peek) -> Result<(), String> {
        let read = |(pool, slot): Slot, from: u64, length: u64| {
            let first = self.pools.get(usize::from(pool)).filter(|_| self.lives(pool))?.first_slot;
            peek(pool, first + u64::from(slot) * chunk_size + from, length as usize)
        };
        for (chunk, slots) in self.chunks.iter().filter(|(chunk, _)| !self.dirty.contains(chunk)) {
            if slots.len() > 1 {
                let mut copies = slots.iter().filter_map(|slot| read(*slot, 0, chunk_size));
                let first = copies.next();
                if copies.any(|copy| Some(copy) != first) {
                    return Err(format!("copies {slots:?} of {chunk:?} are called equal"));
                }
            }
            let (Some(blocks), Some(&above)) = (self.shared.get(chunk), self.overlays.get(chunk))
            else {
                continue;
            };
            for block in blocks {
                let sides = [slots[0], above].map(|slot| read(slot, block * BLOCK, BLOCK));
                if sides.iter().all(Option::is_some) && sides[0] != sides[1] {
                    return Err(format!(
                        "block {block} of {chunk:?} is called equal on both sides"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that chunks which the journal says have checksums have their tables.
    fn check_tables(&self, peek: &impl Peek) -> Result<(), String> {
        let bytes = table_bytes(self.chunk_size);
        for (chunk, sum) in &self.checksummed {
            let copies = self.chunks.get(chunk).into_iter().flatten();
            let living = copies.filter(|(pool, _)| self.lives(*pool));
            let living: Vec<Slot> = living.copied().collect();
            let has_room = |(pool, _): &&Slot| self.pools[usize::from(*pool)].checksums;
            let places: Vec<Slot> = living.iter().filter(has_room).copied().collect();
            let dies = living.len() < self.chunks.get(chunk).map_or(0, Vec::len);
            if places.is_empty() && !dies {
                return Err(format!("{chunk:?} has checksums where no copy has room for a table"));
            }
            for (pool, slot) in places {
                let at = self.pools[usize::from(pool)].table_of(slot, self.chunk_size, bytes);
                let Some(table) = peek(pool, at, bytes as usize) else { continue };
                let table = written(&table);
                let crc = table.get(4..8).and_then(|crc| crc.try_into().ok());
                if crc.map(u32::from_le_bytes) != Some(*sum) || crc32c::crc32c(&table[8..]) != *sum
                {
                    return Err(format!("{chunk:?} has checksums, and no table on pool {pool}"));
                }
            }
        }
        Ok(())
    }

    fn check_slots(&self) -> Result<(), String> {
        let mut owners: BTreeMap<Slot, (u32, u32)> = BTreeMap::new();
        for (index, pool) in self.pools.iter().enumerate() {
            let metadata = (u32::MAX, u32::MAX);
            for &slot in pool.extents.iter().flatten().chain(&pool.tables) {
                if owners.insert((index as u16, slot), metadata).is_some() {
                    return Err(format!("slot {slot} of pool {index} holds metadata of two kinds"));
                }
            }
        }
        let copies =
            self.chunks.iter().flat_map(|(chunk, slots)| slots.iter().map(move |s| (chunk, s)));
        for (chunk, slot) in copies.chain(&self.overlays) {
            if self.dead.contains(&slot.0) {
                continue;
            }
            if self.pools.get(usize::from(slot.0)).is_none_or(|pool| slot.1 >= pool.slots) {
                return Err(format!("slot {slot:?} of {chunk:?} is beyond its pool"));
            }
            if let Some(other) = owners.insert(*slot, *chunk) {
                return Err(format!("slot {slot:?} belongs to {other:?} and to {chunk:?}"));
            }
        }
        Ok(())
    }

    fn apply(&mut self, records: &[u8]) -> Option<()> {
        let mut bytes = Cursor(records);
        while !bytes.0.is_empty() {
            match bytes.take(1)?[0] {
                1 => self.chunk(&mut bytes)?,
                2 => {
                    let (volume, size) = (bytes.u32()?, bytes.u64()?);
                    self.volumes.insert(volume, size);
                }
                5 => {
                    let (volume, _identity, size) = (bytes.u32()?, bytes.u64()?, bytes.u64()?);
                    let length = bytes.take(1)?[0];
                    bytes.take(length.into())?;
                    self.volumes.insert(volume, size);
                }
                3 => {
                    let volume = bytes.u32()?;
                    self.volumes.remove(&volume);
                    self.chunks.retain(|(of, _), _| *of != volume);
                    self.overlays.retain(|(of, _), _| *of != volume);
                    self.shared.retain(|(of, _), _| *of != volume);
                    self.dirty.retain(|(of, _)| *of != volume);
                    self.checksummed.retain(|(of, _), _| *of != volume);
                }
                4 => {
                    self.dead.insert(bytes.u16()?);
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// The second half of the bits of an overlay: blocks that both sides hold.
    fn shared_blocks(&self, bits: &[u8]) -> Vec<u64> {
        let each = (self.chunk_size / BLOCK).div_ceil(8) as usize;
        let shared = bits.get(each..).unwrap_or_default();
        let blocks = 0..8 * shared.len() as u64;
        blocks.filter(|b| shared[(b / 8) as usize] >> (b % 8) & 1 == 1).collect()
    }

    fn chunk(&mut self, bytes: &mut Cursor<'_>) -> Option<()> {
        let chunk = (bytes.u32()?, bytes.u32()?);
        let [.., flags] = *bytes.take(4)? else { return None };
        let mut slots = Vec::new();
        let sum = if flags >> 3 & 1 == 1 { bytes.u32()? } else { 0 };
        for _ in 0..flags & 7 {
            slots.push((bytes.u16()?, bytes.u32()?));
            bytes.take(1)?;
        }
        self.overlays.remove(&chunk);
        self.checksummed.remove(&chunk);
        self.chunks.remove(&chunk);
        self.dirty.remove(&chunk);
        self.shared.remove(&chunk);
        let known = self.volumes.contains_key(&chunk.0);
        if flags >> 5 & 1 == 1 {
            let slot = (bytes.u16()?, bytes.u32()?);
            let length = bytes.u16()?;
            let bits = bytes.take(length.into())?;
            self.overlays.extend(known.then_some((chunk, slot)));
            self.shared.extend(known.then(|| (chunk, self.shared_blocks(bits))));
        }
        self.dirty.extend((known && flags >> 4 & 1 == 1).then_some(chunk));
        self.checksummed.extend((known && flags >> 6 & 1 == 1).then_some((chunk, sum)));
        self.chunks.extend((known && !slots.is_empty()).then_some((chunk, slots)));
        Some(())
    }
}

impl Root {
    /// Offset of a block of the checkpoint in force on a replica.
    fn checkpoint_block(&self, replica: u16, block: u64) -> Option<u64> {
        if block < self.area_blocks {
            let first = 2 + self.journal_blocks + self.area * self.area_blocks;
            return Some((first + block) * BLOCK);
        }
        let (pool, beyond) = (&self.pools[usize::from(replica)], block - self.area_blocks);
        let per_slot = self.chunk_size / BLOCK;
        let slot = pool.extents[self.area as usize].get((beyond / per_slot) as usize)?;
        let start = pool.first_slot + u64::from(*slot) * self.chunk_size;
        Some(start + beyond % per_slot * BLOCK)
    }
}

fn root(block: &[u8]) -> Option<Root> {
    let mut bytes = Cursor(block);
    let magic = bytes.take(8)?;
    let crc = bytes.u32()?;
    if magic != b"THERMOCL" || crc != crc32c::crc32c(&block[12..]) {
        return None;
    }
    let version = bytes.u16()?;
    bytes.take(2)?; // Whose copy it is.
    let (identity, sequence) = (bytes.u64()?, bytes.u64()?);
    let chunk_size = bytes.u32()?.into();
    let [journal_blocks, area_blocks, checkpoint_blocks] =
        [bytes.u32()?, bytes.u32()?, bytes.u32()?].map(u64::from);
    let [checkpoint_generation, journal_generation, journal_start] =
        [bytes.u64()?, bytes.u64()?, bytes.u64()?];
    let &[area, checksums, replicas, pools] = bytes.take(4)? else { return None };
    let replicas = (0..replicas).map(|_| bytes.u16()).collect::<Option<_>>()?;
    let mut pools: Vec<Pool> = (0..pools).map(|_| pool(&mut bytes)).collect::<Option<_>>()?;
    let head_blocks = 2 + journal_blocks + 2 * area_blocks;
    for pool in &mut pools {
        pool.checksums = if version < 5 { checksums == 1 } else { pool.checksums };
        if pool.checksums {
            add_tables(pool, head_blocks, chunk_size);
        }
    }
    bytes.take(8)?; // The next volume's identity.
    let &[lists] = bytes.take(1)? else { return None };
    for _ in 0..lists {
        let (pool, area, runs) = (bytes.u16()?, bytes.take(1)?[0], bytes.take(1)?[0]);
        for _ in 0..runs {
            let (first, count) = (bytes.u32()?, bytes.u32()?);
            pools[usize::from(pool)].extents[usize::from(area)].extend(first..first + count);
        }
    }
    Some(Root {
        identity,
        sequence,
        chunk_size,
        journal_blocks,
        area_blocks,
        checkpoint_blocks,
        checkpoint_generation,
        journal_generation,
        journal_start,
        area: area.into(),
        replicas,
        pools,
    })
}

fn pool(bytes: &mut Cursor<'_>) -> Option<Pool> {
    let lives = bytes.take(1)?[0] < 2;
    let flags = bytes.take(1)?[0];
    let (has_region, checksums) = (flags & 1 == 1, flags & 2 == 2);
    let (slots, _reserve) = (bytes.u32()?, bytes.u32()?);
    let first_slot = bytes.u64()?;
    let &[length] = bytes.take(1)? else { return None };
    bytes.take(length.into())?;
    let (tables, extents) = (BTreeSet::new(), [const { Vec::new() }; 2]);
    let (head, before) = (0, 0);
    Some(Pool { first_slot, slots, tables, head, before, checksums, has_region, lives, extents })
}

/// Says where tables stand, on a pool with checksums. Slots hold them from the first one on whose
/// table has no room before all slots: the first slot of each run that it has room for tables of.
fn add_tables(pool: &mut Pool, head_blocks: u64, chunk_size: u64) {
    let table = table_bytes(chunk_size);
    let region = if pool.has_region { head_blocks } else { 2 };
    pool.head = (region * BLOCK).next_multiple_of(64 << 10);
    pool.before = ((pool.first_slot - pool.head) / table) as u32;
    pool.tables = (pool.before..pool.slots).step_by((chunk_size / table) as usize).collect();
}

fn table_bytes(chunk_size: u64) -> u64 {
    (8 + chunk_size / BLOCK * 4).next_multiple_of(512)
}

impl Pool {
    /// Offset of a slot's table.
    fn table_of(&self, slot: u32, chunk_size: u64, table: u64) -> u64 {
        if slot < self.before {
            return self.head + u64::from(slot) * table;
        }
        let within = u64::from(slot - self.before) % (chunk_size / table);
        let run = u64::from(slot) - within;
        self.first_slot + run * chunk_size + within * table
    }
}

/// The records of a block, from the first replica that has it whole.
fn records(
    magic: &[u8; 4],
    stamp: (u64, u64, u64),
    at: impl Fn(u16) -> Option<u64>,
    replicas: &[u16],
    peek: &impl Peek,
) -> Option<Vec<u8>> {
    replicas.iter().find_map(|&replica| {
        let block = peek(replica, at(replica)?, BLOCK as usize)?;
        let block = written(&block);
        let used = used(magic, stamp, block)?;
        Some(block[HEADER..HEADER + used].to_vec())
    })
}

/// The length of a block's records; `None` unless it is whole and the one that is sought.
fn used(magic: &[u8; 4], stamp: (u64, u64, u64), block: &[u8]) -> Option<usize> {
    let mut bytes = Cursor(block);
    let (kind, crc) = (bytes.take(4)?, bytes.u32()?);
    let found = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let used = usize::from(bytes.u16()?);
    let whole = kind == magic && found == stamp && crc == crc32c::crc32c(&block[8..]);
    whole.then_some(used)
}

/// Little-endian integers, one after the other.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}
