//! Opening a group: the machine that formats empty devices or reads a group back.
//!
//! Formatting erases both superblocks of every pool. Recovery ([`recovery`]) flushes, reads and
//! replays. Either is a row of device requests that must all have ended before what follows begins;
//! a failed one is tried again, and a device that keeps failing counts as dead. Both end with a
//! checkpoint, which the group takes.
//!
//! Recovery flushes first, because a program that was killed leaves what it wrote in the devices'
//! caches. A superblock that is only there would be believed, and the checkpoint before it written
//! over; and what clients had read would be gone after a loss of power. A device whose flush fails
//! may have forgotten some of it: the group is not opened then.

pub(crate) mod error;
pub(crate) mod recovery;
pub(crate) mod replicas;
pub(crate) mod salvage;

use crate::format::{
    BlockKind, Record, Stamp, Superblock, VERSION_WITH_COMMITS, decode_records, open_block,
    read_block,
};
use crate::map::ChunkMap;
use crate::opening::error::OpenError;
use crate::opening::recovery::Recovered;
use crate::opening::salvage::Salvage;
use crate::pools::Pools;
use crate::pools::flight::{Owner, TRIES_MAX};
use crate::pools::layout;
use crate::pools::pool::PoolState;
use crate::sizes::BLOCK_BYTES;
use std::collections::BTreeMap;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Nanos, PoolId};

/// Bytes written at a time to erase a device's metadata.
const ERASE_BYTES: u32 = 1 << 20;
/// Blocks read at a time.
const READ_BLOCKS: u32 = 64;
/// The read of both superblocks.
const READ_SUPERS: Io = Io::Read { offset: Bytes(0), length: 2 * BLOCK_BYTES as u32 };

/// Purpose of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Erase,
    Flush,
    Supers,
    /// Blocks of checkpoint or journal, from this one.
    Blocks(BlockKind, u32),
}

#[derive(Debug)]
struct Step {
    pool: PoolId,
    purpose: Purpose,
    io: Io,
    tries: u8,
    found: Option<Vec<u8>>,
}

/// Result of an opening. A checkpoint is to follow.
#[derive(Debug)]
pub(crate) enum Opened {
    /// The devices hold no group any more.
    Formatted,
    /// Pools and map are what the devices hold.
    Recovered(Box<Recovered>),
}

/// Steps, and what they have read.
#[derive(Debug, Default)]
struct Reads {
    steps: Vec<Step>,
    /// The steps that read blocks, by the first block that they read.
    by_block: BTreeMap<(BlockKind, u32), Vec<u32>>,
}

/// Formatting or recovery under way.
#[derive(Debug)]
pub(crate) struct Opening {
    reads: Reads,
    outstanding: u32,
    /// A pool whose flush failed.
    unflushed: Option<PoolId>,
    superblock: Option<Superblock>,
    /// Report on what is damaged, where that shall not keep the group from being opened.
    salvage: Option<Box<Salvage>>,
}

impl Opening {
    /// Erases what the devices hold of older groups, and takes the room of the metadata on them:
    /// bytes, not "zeroes", which a sparse file would not keep room for. So a device that has no
    /// room left can still be told where chunks are.
    pub(crate) fn format(now: Nanos, pools: &mut Pools) -> Opening {
        let zeroes = Payload::from(vec![0; ERASE_BYTES as usize]);
        let (sizes, mut steps) = (*pools.sizes(), Vec::new());
        for (id, pool) in pools.ids().zip(pools.iter()) {
            let blocks = match pool.has_region {
                true => layout::region_bytes(sizes.journal_blocks, sizes.area_blocks),
                false => 2 * BLOCK_BYTES as u64,
            };
            assert!(blocks <= pool.first_slot, "the metadata ends before the first slot");
            for offset in (0..blocks).step_by(ERASE_BYTES as usize) {
                let length = (blocks - offset).min(u64::from(ERASE_BYTES)) as u32;
                let io =
                    Io::Write { offset: Bytes(offset), data: zeroes.slice(0..length), fua: true };
                let purpose = Purpose::Erase;
                steps.push(Step { pool: id, purpose, io, tries: 0, found: None });
            }
        }
        let mut opening = Opening::new(None);
        opening.begin(now, pools, steps);
        opening
    }

    /// Reads the group that the devices hold; with a report, though it is damaged.
    pub(crate) fn read(now: Nanos, pools: &mut Pools, salvage: Option<Box<Salvage>>) -> Opening {
        assert!(pools.is_quiet(), "nothing was asked of the pools yet");
        let mut opening = Opening::new(salvage);
        let at_once =
            mutant("recovered_pools_taken_for_flushed") || mutant("recovered_pools_flushed_late");
        let steps = match at_once {
            true => on_every_device(pools, Purpose::Supers, &READ_SUPERS),
            false => on_every_device(pools, Purpose::Flush, &Io::Flush),
        };
        opening.begin(now, pools, steps);
        opening
    }

    fn new(salvage: Option<Box<Salvage>>) -> Opening {
        Opening {
            reads: Reads::default(),
            outstanding: 0,
            unflushed: None,
            superblock: None,
            salvage,
        }
    }

    /// The superblock that counts, once it is chosen.
    pub(crate) fn superblock(&self) -> Option<&Superblock> {
        self.superblock.as_ref()
    }

    /// Sends all steps; what follows begins when the last one has ended.
    fn begin(&mut self, now: Nanos, pools: &mut Pools, steps: Vec<Step>) {
        assert_eq!(self.outstanding, 0, "the steps before have ended");
        self.outstanding = steps.len() as u32;
        let by_block = by_block(&steps);
        for (index, step) in steps.iter().enumerate() {
            let owner = Owner::Open(index as u32);
            pools.send(now, step.pool, owner, step.io.clone(), false);
        }
        self.reads = Reads { steps, by_block };
    }

    /// A step was answered.
    pub(crate) fn answered(
        &mut self,
        now: Nanos,
        pools: &mut Pools,
        pool: PoolId,
        index: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let far = pools[pool].is_far();
        let step = &mut self.reads.steps[index as usize];
        match result {
            Ok(payload) => step.found = Some(payload.to_vec()),
            Err(DeviceError::Io | DeviceError::NoSpace)
                if step.purpose == Purpose::Flush && !far =>
            {
                met("flush failed before a recovery");
                self.unflushed = Some(pool);
            }
            Err(error) if error != DeviceError::Gone && step.tries < TRIES_MAX => {
                step.tries += 1;
                pools.send(now, pool, Owner::Open(index), step.io.clone(), false);
                return;
            }
            Err(_) => pools[pool].state = PoolState::Dead,
        }
        assert!(self.outstanding > 0, "each step ends once");
        self.outstanding -= 1;
    }

    /// Goes on where all steps have ended; the result, when there is no further one.
    ///
    /// # Errors
    /// When the devices hold no group that can be opened.
    pub(crate) fn advance(
        &mut self,
        now: Nanos,
        pools: &mut Pools,
        map: &mut ChunkMap,
    ) -> Result<Option<Opened>, OpenError> {
        assert_eq!(self.outstanding == 0, pools.is_quiet(), "steps are all that is under way");
        while self.outstanding == 0 {
            let steps = match self.reads.steps.first().map(|step| step.purpose) {
                Some(Purpose::Erase) => return Ok(Some(Opened::Formatted)),
                Some(Purpose::Flush) => match self.unflushed {
                    Some(pool) => return Err(OpenError::FlushFailed(pool)),
                    None => on_every_device(pools, Purpose::Supers, &READ_SUPERS),
                },
                Some(Purpose::Supers) | None if self.superblock.is_none() => {
                    self.supers_read(pools, map)?
                }
                _ => {
                    let recovered = self.replay(pools, map)?;
                    return Ok(Some(Opened::Recovered(Box::new(recovered))));
                }
            };
            self.begin(now, pools, steps);
        }
        Ok(None)
    }
}

/// A step on each device that is there and has room for superblocks.
fn on_every_device(pools: &Pools, purpose: Purpose, io: &Io) -> Vec<Step> {
    let all = pools.ids().zip(pools.iter());
    let there =
        all.filter(|(_, pool)| pool.is_alive() && pool.geometry.size.0 >= 2 * BLOCK_BYTES as u64);
    there.map(|(pool, _)| Step { pool, purpose, io: io.clone(), tries: 0, found: None }).collect()
}

fn by_block(steps: &[Step]) -> BTreeMap<(BlockKind, u32), Vec<u32>> {
    let mut by_block: BTreeMap<(BlockKind, u32), Vec<u32>> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        if let Purpose::Blocks(kind, first) = step.purpose {
            by_block.entry((kind, first)).or_default().push(index as u32);
        }
    }
    by_block
}

impl Reads {
    /// The records of a block that some replica has whole, and the pools that do not have it so.
    fn block(
        &self,
        kind: BlockKind,
        stamp: Stamp,
        at: u32,
        chunk_size: u32,
    ) -> Option<(Vec<Record>, Vec<PoolId>)> {
        let read = |block: &[u8]| decode_records(open_block(kind, stamp, block)?, chunk_size);
        let mut whole: Option<(&[u8], Vec<Record>)> = None;
        let mut damaged = Vec::new();
        for (pool, block) in self.copies_by_pool(kind, at) {
            if whole.as_ref().is_some_and(|(known, _)| *known == block) {
                continue;
            }
            match read(block) {
                Some(records) if whole.is_none() => whole = Some((block, records)),
                Some(_) => {}
                None => damaged.push(pool),
            }
        }
        whole.map(|(_, records)| (records, damaged))
    }

    /// Copies of a block, as the replicas have them.
    pub(crate) fn copies_of(&self, kind: BlockKind, at: u32) -> impl Iterator<Item = &[u8]> {
        self.copies_by_pool(kind, at).map(|(_, block)| block)
    }

    /// Copies of a block with the pools that have them.
    fn copies_by_pool(&self, kind: BlockKind, at: u32) -> impl Iterator<Item = (PoolId, &[u8])> {
        let first_of_read = at.saturating_sub(READ_BLOCKS - 1);
        let near = self.by_block.range((kind, first_of_read)..=(kind, at));
        let steps =
            near.flat_map(|((_, first), steps)| steps.iter().map(move |&step| (*first, step)));
        steps.filter_map(move |(first, step)| {
            let start = ((at - first) as usize).checked_mul(BLOCK_BYTES)?;
            let step = &self.steps[step as usize];
            Some((step.pool, step.found.as_ref()?.get(start..start + BLOCK_BYTES)?))
        })
    }
}

/// Evidence in the journal's blocks of what must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Evidence {
    /// Every block before this sequence was durable once.
    durable_before: u64,
    /// True if a later session of the group wrote to the journal: its superblock was durable first.
    later_session: bool,
}

impl Reads {
    /// Looks at every whole block of the journal, wherever it stands. Groups of before
    /// [`VERSION_WITH_COMMITS`] do not say which commit a block belongs to.
    fn journal_evidence(&self, superblock: &Superblock) -> Evidence {
        let mut evidence = Evidence::default();
        let journal = |step: &&Step| matches!(step.purpose, Purpose::Blocks(BlockKind::Journal, _));
        let found = self.steps.iter().filter(journal).filter_map(|step| step.found.as_ref());
        for block in found.flat_map(|bytes| bytes.chunks(BLOCK_BYTES)) {
            let Some(whole) = read_block(BlockKind::Journal, block) else { continue };
            if whole.stamp.identity != superblock.identity {
                continue;
            }
            let generation = whole.stamp.generation;
            evidence.later_session |= generation > superblock.journal_generation;
            let tells = superblock.version >= VERSION_WITH_COMMITS;
            if tells && generation == superblock.journal_generation {
                let durable = whole.commit_start();
                evidence.durable_before = evidence.durable_before.max(durable);
            }
        }
        evidence
    }
}

/// The reads that fetch a replica's checkpoint and journal.
fn replica_reads(superblock: &Superblock, replica: PoolId) -> Vec<Step> {
    let area =
        superblock.places().area_of(&superblock.pools[usize::from(replica.0)], superblock.area);
    let checkpoint = area.pieces(0..superblock.checkpoint_blocks);
    let journal = [(layout::journal_offset(0), 0..superblock.journal_blocks)];
    let checkpoint = checkpoint.into_iter().map(|piece| (piece, BlockKind::Checkpoint));
    let journal = journal.into_iter().map(|piece| (piece, BlockKind::Journal));
    let mut steps = Vec::new();
    for ((start, blocks), kind) in checkpoint.chain(journal) {
        for first in blocks.clone().step_by(READ_BLOCKS as usize) {
            let count = READ_BLOCKS.min(blocks.end - first);
            let offset = Bytes(start.0 + u64::from(first - blocks.start) * BLOCK_BYTES as u64);
            let io = Io::Read { offset, length: count * BLOCK_BYTES as u32 };
            let purpose = Purpose::Blocks(kind, first);
            steps.push(Step { pool: replica, purpose, io, tries: 0, found: None });
        }
    }
    steps
}

#[cfg(test)]
mod tests;
