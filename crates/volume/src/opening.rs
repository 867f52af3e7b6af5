//! Making a group on empty devices, and the steps that formatting and recovery are made of.
//!
//! Formatting erases both superblocks of every pool and then takes the group's first checkpoint.
//! Recovery ([`crate::recovery`]) flushes, reads, replays, and takes one too. Either is a row of
//! device requests that must all have ended before what follows begins; a failed one is tried
//! again, and a device that keeps failing counts as dead.
//!
//! Recovery flushes first, because a program that was killed leaves what it wrote in the devices'
//! caches. A superblock that is only there would be believed, and the checkpoint before it written
//! over; and what clients had read would be gone after a loss of power. A device whose flush fails
//! may have forgotten some of it: the group is not opened then.

use crate::copying::Copier;
use crate::finding::Findings;
use crate::format::{
    BLOCK_BYTES, BlockKind, Membership, NAME_BYTES_MAX, PAYLOAD_BYTES, PoolRecord, Record, Stamp,
    Superblock, VERSION_WITH_COMMITS, decode_records, open_block, read_block,
};
use crate::group::{Group, Service};
use crate::hinting::Hinting;
use crate::housekeeping::Housekeeping;
use crate::journal::Journal;
use crate::layout;
use crate::map::ChunkMap;
use crate::pacing::Pacer;
use crate::pools::flight::{Owner, TRIES_MAX};
use crate::pools::pool::{Pool, PoolSpec, PoolState, check_name};
use crate::pools::ranks::Ranks;
use crate::pools::{Pools, Sizes};
use crate::promises::Promises;
use crate::proposal::Proposal;
use crate::regions::Regions;
use crate::replicas::DamagedReplicas;
use crate::routing::Routing;
use crate::scheduler::Scheduler;
use crate::scrub::Scrub;
use crate::seals::Seals;
use crate::settings::{
    CHUNK_MAX, CHUNK_MIN, JOURNAL_BLOCKS, Limits, POOLS_MAX, Settings, VOLUMES_MAX,
};
use crate::settling::Losses;
use crate::shares::Shares;
use std::collections::BTreeMap;
use thermocline_policy::placement::shadow::Shadows;
use thermocline_ports::{DeviceError, Geometry, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Nanos, PoolId, Slab};

/// Bytes written at a time to erase a device's metadata.
const ERASE_BYTES: u32 = 1 << 20;
/// Blocks read at a time.
const READ_BLOCKS: u32 = 64;
/// The read of both superblocks.
const READ_SUPERS: Io = Io::Read { offset: Bytes(0), length: 2 * BLOCK_BYTES as u32 };

/// Reason why a group cannot be made of these pools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Out of range.
    #[error("chunk size {0} is not a power of two between {CHUNK_MIN} and {CHUNK_MAX}")]
    ChunkSize(Bytes),
    /// The limits that a test chose contradict each other.
    #[error("these limits of the metadata do not fit together: {0:?}")]
    Limits(Limits),
    /// Out of range.
    #[error("a journal of {0} blocks is not between 64 and 65536 blocks of 4 KiB")]
    Journal(u32),
    /// None, or too many.
    #[error("{0} pools are not between 1 and {POOLS_MAX}")]
    PoolCount(usize),
    /// No name for a pool.
    #[error(
        "`{0}` is no name for a pool: 1 to {NAME_BYTES_MAX} bytes, without /, quotes and control \
         characters"
    )]
    Name(String),
    /// Another pool has the name.
    #[error("two pools are called `{0}`; give each a name of its own")]
    NameTaken(String),
    /// No room for a chunk beside the metadata.
    #[error("pool `{0}` has no room for a single chunk; it needs {1} and a chunk more")]
    TooSmall(String, Bytes),
    /// Every pool is too small for journal and checkpoints.
    #[error("no pool has room for the journal and two checkpoints, {0}; add a larger pool")]
    NoHome(Bytes),
}

/// Reason why a group is not in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device has a whole superblock of this version.
    #[error(
        "no device has a whole superblock of this version; nothing was changed; name the right \
         devices, or see what can be saved with `thermocline check --salvage`"
    )]
    NotAGroup,
    /// Devices of several groups.
    #[error("pool {} belongs to another volume group; name the devices of one group, in order", .0.0)]
    Foreign(PoolId),
    /// The device shrank.
    #[error("the device of pool {} is smaller than its pool; it is the wrong one, or was cut", .0.0)]
    Shrunk(PoolId),
    /// No home has the checkpoint block.
    #[error(
        "block {block} of the checkpoint is unreadable on every pool that holds one; restore a pool that \
         is missing, or see what can be saved with `thermocline check --salvage`"
    )]
    Checkpoint {
        /// Blocks from the area's start.
        block: u32,
    },
    /// A block of the journal that was durable is not whole on any pool that holds the journal.
    #[error(
        "block {block} of the journal is damaged on every pool that holds it, and changes up to \
         block {} depend on it; nothing was changed; restore a pool that is missing, or see what \
         can be saved with `thermocline check --salvage`",
        durable - 1
    )]
    Journal {
        /// Its sequence number.
        block: u64,
        /// Sequence before which all blocks were durable.
        durable: u64,
    },
    /// The newest superblock is damaged on every pool: the one before it is of an earlier session.
    #[error(
        "superblock {sequence} is damaged on every pool, and the one before it does not know what \
         was written since; nothing was changed; restore a pool that is missing, or see what can \
         be saved with `thermocline check --salvage`"
    )]
    SuperblockLost {
        /// The number of the superblock that is missing, or of the first of several.
        sequence: u64,
    },
    /// The records contradict each other: a bug, or a forged disk.
    #[error("two chunks claim slot {slot} of pool {}; nothing was changed; report it", pool.0)]
    Contradiction {
        /// The pool.
        pool: PoolId,
        /// The slot.
        slot: u32,
    },
    /// The next checkpoint of the map would not fit into its area: a forged superblock.
    #[error(
        "the map has more chunks than its checkpoint has room for: the superblock is not as it was \
         written; nothing was changed; report it"
    )]
    MapTooLarge,
    /// A device failed a flush, and chunks are on its pool only.
    #[error(
        "the device of pool {} failed a flush: what was written since the last good one may be \
         lost, and flushes waiting for it have failed; start again, which recovers everything that \
         was flushed, then check the device and replace it",
        .0.0
    )]
    FlushFailed(PoolId),
    /// No living pool can hold the metadata.
    #[error("no living pool can hold the journal; restore a pool that is missing")]
    NoHome,
}

/// Purpose of a read of the recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Erase,
    Flush,
    Supers,
    /// Blocks of checkpoint or journal, from this one.
    Blocks(BlockKind, u32),
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) pool: PoolId,
    pub(crate) purpose: Purpose,
    pub(crate) io: Io,
    pub(crate) tries: u8,
    pub(crate) found: Option<Vec<u8>>,
}

/// Formatting or recovery under way.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) steps: Vec<Step>,
    /// The steps that read blocks, by the first block that they read.
    by_block: BTreeMap<(BlockKind, u32), Vec<u32>>,
    pub(crate) outstanding: u32,
    /// A pool whose flush failed.
    unflushed: Option<PoolId>,
    pub(crate) superblock: Option<Superblock>,
}

impl Group {
    /// A new group on `pools`, fastest first, whose contents are lost. It becomes ready by
    /// completions; until its first superblock is durable the devices hold no group.
    ///
    /// # Errors
    /// When the settings are out of range or a pool is too small. Nothing was written then.
    pub fn create(
        settings: Settings,
        pools: &[PoolSpec],
        identity: u64,
    ) -> Result<Group, CreateError> {
        check_settings(&settings, pools)?;
        let chunk_size = settings.chunk_size.0 as u32;
        let slots: u64 = pools.iter().map(|p| p.geometry.size.div_floor(settings.chunk_size)).sum();
        let area_blocks = layout::area_blocks(slots, chunk_size, &settings.limits);
        let regions = regions(&settings, area_blocks, pools);
        if !regions.contains(&true) {
            let bytes = layout::region_bytes(settings.journal_blocks, area_blocks);
            return Err(CreateError::NoHome(Bytes(bytes)));
        }
        let mut group = Group::empty(settings, identity);
        group.pools.set_sizes(Sizes { area_blocks, ..*group.pools.sizes() });
        for (spec, has_region) in pools.iter().zip(regions) {
            let pool = new_pool(&group, spec, has_region, settings.checksums)?;
            group.pools.push(pool, None);
        }
        let steps = group.erasures();
        group.begin_steps(steps);
        Ok(group)
    }

    /// The writes that erase what the devices hold of older groups, and take the room of the
    /// metadata on them: bytes, not "zeroes", which a sparse file would not keep room for. So a
    /// device that has no room left can still be told where chunks are.
    fn erasures(&self) -> Vec<Step> {
        let zeroes = Payload::from(vec![0; ERASE_BYTES as usize]);
        let (sizes, mut steps) = (self.pools.sizes(), Vec::new());
        for (index, pool) in self.pools.iter().enumerate() {
            let blocks = match pool.has_region {
                true => layout::region_bytes(sizes.journal_blocks, sizes.area_blocks),
                false => 2 * BLOCK_BYTES as u64,
            };
            for offset in (0..blocks).step_by(ERASE_BYTES as usize) {
                let length = (blocks - offset).min(u64::from(ERASE_BYTES)) as u32;
                let io =
                    Io::Write { offset: Bytes(offset), data: zeroes.slice(0..length), fua: true };
                let pool = PoolId(index as u16);
                steps.push(Step { pool, purpose: Purpose::Erase, io, tries: 0, found: None });
            }
        }
        steps
    }

    /// Opens the group that the devices hold; `None` stands for a device that is missing, whose
    /// pool then counts as dead. Of `settings`, what is written at creation is read from the
    /// devices.
    pub fn open(settings: Settings, devices: &[Option<Geometry>]) -> Group {
        let mut group = Group::empty(settings, 0);
        let nowhere = Geometry { size: Bytes(0), discard_zeroes: false, far: false };
        let mut pools = Vec::with_capacity(devices.len());
        for device in devices {
            let (geometry, state) = match device {
                Some(geometry) => (*geometry, PoolState::Active),
                None => (nowhere, PoolState::Dead),
            };
            let (record, tables) = (unknown_pool(), group.pools.tables_of(&unknown_pool()));
            pools.push(Pool::new(&record, tables, geometry, state, false));
        }
        group.pools.replace(pools, Ranks::default());
        let at_once =
            mutant("recovered_pools_taken_for_flushed") || mutant("recovered_pools_flushed_late");
        let steps = match at_once {
            true => group.on_every_device(Purpose::Supers, &READ_SUPERS),
            false => group.on_every_device(Purpose::Flush, &Io::Flush),
        };
        group.begin_steps(steps);
        group
    }

    /// A step of recovery on each device that is there and has room for superblocks.
    fn on_every_device(&self, purpose: Purpose, io: &Io) -> Vec<Step> {
        let pools = self.pools.iter().enumerate();
        let there = pools
            .filter(|(_, pool)| pool.is_alive() && pool.geometry.size.0 >= 2 * BLOCK_BYTES as u64);
        let step = |(index, _)| {
            let pool = PoolId(index as u16);
            Step { pool, purpose, io: io.clone(), tries: 0, found: None }
        };
        there.map(step).collect()
    }

    fn empty(settings: Settings, identity: u64) -> Group {
        let sizes = Sizes {
            chunk: settings.chunk_size.0 as u32,
            journal_blocks: settings.journal_blocks,
            area_blocks: 0,
            limits: settings.limits,
        };
        Group {
            routing: Routing::default(),
            pacer: Pacer::default(),
            now: Nanos(0),
            chunk_size: settings.chunk_size.0 as u32,
            service: Service::Opening,
            map: ChunkMap::new(1),
            pools: Pools::new(sizes),
            requests: Slab::default(),
            parts: Slab::default(),
            traffic: Slab::default(),
            scheduler: Scheduler::new(settings.depth),
            shares: Shares::default(),
            unsplit: Vec::new(),
            slots_leaving: 0,
            space_waiters: Vec::new(),
            parts_begun: 0,
            journal: Journal::new(identity),
            losses: Losses::default(),
            copier: Copier::default(),
            promises: Promises::default(),
            proposal: Proposal::default(),
            scrub: Scrub::default(),
            seals: Seals::default(),
            regions: Regions::default(),
            findings: Findings::default(),
            opening: None,
            salvage: None,
            damaged_replicas: DamagedReplicas::default(),
            placement: None,
            placement_name: String::new(),
            shadows: Shadows::default(),
            hinting: Hinting::default(),
            tap: None,
            housekeeping: Housekeeping::new(settings.epoch),
            epoch: 0,
            replies_out: Vec::new(),
            finished_out: Vec::new(),
            settings,
        }
    }

    /// Sends all steps; what follows begins when the last one has ended.
    pub(crate) fn begin_steps(&mut self, steps: Vec<Step>) {
        let superblock = self.opening.take().and_then(|opening| opening.superblock);
        let outstanding = steps.len() as u32;
        let sends: Vec<(PoolId, Io)> =
            steps.iter().map(|step| (step.pool, step.io.clone())).collect();
        let (by_block, unflushed) = (by_block(&steps), None);
        self.opening = Some(Opening { by_block, steps, outstanding, unflushed, superblock });
        for (index, (pool, io)) in sends.into_iter().enumerate() {
            self.send(self.now, pool, Owner::Open(index as u32), io);
        }
        if outstanding == 0 {
            self.steps_done();
        }
    }

    /// A step of formatting or recovery was answered.
    pub(crate) fn open_io_done(
        &mut self,
        now: Nanos,
        pool: PoolId,
        index: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let far = self.pool(pool).is_far();
        let opening = self.opening.as_mut().expect("only an opening group has such steps");
        let step = &mut opening.steps[index as usize];
        match result {
            Ok(payload) => step.found = Some(payload.to_vec()),
            Err(DeviceError::Io | DeviceError::NoSpace)
                if step.purpose == Purpose::Flush && !far =>
            {
                met("flush failed before a recovery");
                opening.unflushed = Some(pool);
            }
            Err(error) if error != DeviceError::Gone && step.tries < TRIES_MAX => {
                step.tries += 1;
                let io = step.io.clone();
                self.send(now, pool, Owner::Open(index), io);
                return;
            }
            Err(_) => self.pools[pool].state = PoolState::Dead,
        }
        let opening = self.opening.as_mut().expect("still opening");
        opening.outstanding -= 1;
        if opening.outstanding == 0 {
            self.steps_done();
        }
    }

    fn steps_done(&mut self) {
        let opening = self.opening.as_ref().expect("steps belong to an opening");
        let result = match opening.steps.first().map(|step| step.purpose) {
            Some(Purpose::Erase) => {
                self.first_checkpoint();
                Ok(())
            }
            Some(Purpose::Flush) => match opening.unflushed {
                Some(pool) => Err(OpenError::FlushFailed(pool)),
                None => {
                    let steps = self.on_every_device(Purpose::Supers, &READ_SUPERS);
                    self.begin_steps(steps);
                    Ok(())
                }
            },
            Some(Purpose::Supers) | None if opening.superblock.is_none() => self.supers_read(),
            _ => self.replay(),
        };
        if let Err(error) = result {
            self.opening = None;
            self.service = Service::Failed(error);
        }
    }

    /// Ends formatting and recovery alike.
    pub(crate) fn first_checkpoint(&mut self) {
        self.opening = None;
        self.journal.want_checkpoint();
        if !mutant("opened_without_room_for_its_map") {
            // Room may have been given that no superblock knew of when the power failed.
            self.grow_areas_when_short();
        }
        self.pump_checkpoint();
    }

    /// True if the checkpoint that just ended was the one that puts the group in service.
    pub(crate) fn opening_ends(&self) -> bool {
        self.service == Service::Opening && self.opening.is_none()
    }
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

impl Opening {
    /// The records of a block that some replica has whole, and the pools that do not have it so.
    pub(crate) fn block(
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
    pub(crate) fn copies_by_pool(
        &self,
        kind: BlockKind,
        at: u32,
    ) -> impl Iterator<Item = (PoolId, &[u8])> {
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
pub(crate) struct Evidence {
    /// Every block before this sequence was durable once.
    pub(crate) durable_before: u64,
    /// True if a later session of the group wrote to the journal: its superblock was durable first.
    pub(crate) later_session: bool,
}

impl Opening {
    /// Looks at every whole block of the journal, wherever it stands. Groups of before
    /// [`VERSION_WITH_COMMITS`] do not say which commit a block belongs to.
    pub(crate) fn journal_evidence(&self, superblock: &Superblock) -> Evidence {
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

/// The reads that fetch a home's checkpoint and journal.
pub(crate) fn home_reads(superblock: &Superblock, home: PoolId) -> Vec<Step> {
    let area = superblock.area_of(&superblock.pools[usize::from(home.0)], superblock.area);
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
            steps.push(Step { pool: home, purpose, io, tries: 0, found: None });
        }
    }
    steps
}

fn check_settings(settings: &Settings, pools: &[PoolSpec]) -> Result<(), CreateError> {
    let chunk = settings.chunk_size;
    if !chunk.0.is_power_of_two() || !(CHUNK_MIN..=CHUNK_MAX).contains(&chunk) {
        return Err(CreateError::ChunkSize(chunk));
    }
    if !JOURNAL_BLOCKS.contains(&settings.journal_blocks) {
        return Err(CreateError::Journal(settings.journal_blocks));
    }
    let limits = settings.limits;
    let fits = limits.record < limits.block_payload && limits.block_payload <= PAYLOAD_BYTES;
    let none = limits.checkpoint_batch == 0 || limits.region_chunks == 0;
    if !fits || limits.volumes > VOLUMES_MAX || none {
        return Err(CreateError::Limits(limits));
    }
    if pools.is_empty() || pools.len() > POOLS_MAX {
        return Err(CreateError::PoolCount(pools.len()));
    }
    for (at, pool) in pools.iter().enumerate() {
        check_name(&pool.name, pools[..at].iter().map(|other| other.name.as_str()))?;
    }
    Ok(())
}

/// The pools that get a metadata region: those where it is small, and the roomiest in any case, far
/// ones last.
fn regions(settings: &Settings, area_blocks: u32, pools: &[PoolSpec]) -> Vec<bool> {
    let bytes = layout::region_bytes(settings.journal_blocks, area_blocks);
    let head = layout::head_bytes(settings.journal_blocks, area_blocks, true);
    let mut regions: Vec<bool> = pools.iter().map(|p| bytes <= p.geometry.size.0 / 8).collect();
    let mut by_size: Vec<usize> = (0..pools.len()).collect();
    by_size.sort_by_key(|&index| {
        let geometry = &pools[index].geometry;
        (geometry.far, std::cmp::Reverse(geometry.size), index)
    });
    for index in by_size {
        let (size, chunk_size) = (pools[index].geometry.size, settings.chunk_size.0 as u32);
        let (slots, _) = layout::slots_behind(size, head, chunk_size, settings.checksums);
        if regions.iter().filter(|&&region| region).count() < 2 && slots > 0 {
            regions[index] = true;
        }
    }
    regions
}

/// A pool as it is when it joins, with or without tables of checksums.
pub(crate) fn new_pool(
    group: &Group,
    spec: &PoolSpec,
    has_region: bool,
    checksums: bool,
) -> Result<Pool, CreateError> {
    let living = group.pools.iter().filter(|pool| pool.state != PoolState::Removed);
    check_name(&spec.name, living.map(|pool| pool.name.as_str()))?;
    let sizes = group.pools.sizes();
    let head = layout::head_bytes(sizes.journal_blocks, sizes.area_blocks, has_region);
    let size = spec.geometry.size;
    let (slots, first) = layout::slots_behind(size, head, group.chunk_size, checksums);
    if slots == 0 {
        return Err(CreateError::TooSmall(spec.name.clone(), Bytes(head)));
    }
    let record = PoolRecord {
        name: spec.name.clone(),
        membership: Membership::Active,
        slots: u32::try_from(slots).unwrap_or(u32::MAX - 1),
        reserve: spec.reserve_chunks,
        first_slot: first,
        has_metadata_region: has_region,
        checksums,
        extents: Default::default(),
    };
    let tables = group.pools.tables_of(&record);
    Ok(Pool::new(&record, tables, spec.geometry, PoolState::Joining, spec.zeroed))
}

fn unknown_pool() -> PoolRecord {
    PoolRecord {
        name: String::new(),
        membership: Membership::Active,
        slots: 0,
        reserve: 0,
        first_slot: 0,
        has_metadata_region: false,
        checksums: false,
        extents: Default::default(),
    }
}
