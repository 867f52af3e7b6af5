//! Making a group on empty devices, and the steps that formatting and recovery are made of.
//!
//! Formatting erases both superblocks of every pool and then takes the group's first checkpoint.
//! Recovery ([`crate::recovery`]) reads, replays, and takes one too. Either is a row of device
//! requests that must all have ended before what follows begins; a failed one is tried again, and a
//! device that keeps failing counts as dead.

use crate::checkpoint::Checkpoint;
use crate::commit::Commit;
use crate::copying::Copier;
use crate::flight::{Owner, TRIES_MAX};
use crate::format::{
    BLOCK_BYTES, BlockKind, Membership, NAME_BYTES_MAX, PoolRecord, Record, Stamp, Superblock,
    decode_records, open_block,
};
use crate::group::{Group, Service};
use crate::hinting::Hinting;
use crate::housekeeping::Housekeeping;
use crate::layout;
use crate::map::ChunkMap;
use crate::pacing::Pacer;
use crate::pool::{Pool, PoolSpec, PoolState, check_name};
use crate::promises::Promises;
use crate::proposal::Proposal;
use crate::routing::Routing;
use crate::scheduler::Scheduler;
use crate::scrub::Scrub;
use crate::seals::Seals;
use crate::settings::{CHUNK_MAX, CHUNK_MIN, JOURNAL_BLOCKS, POOLS_MAX, Settings};
use thermocline_policy::placement::shadow::Shadows;
use thermocline_ports::{DeviceError, Geometry, Io, Payload};
use thermocline_units::{Bytes, Nanos, PoolId, Slab};

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;

/// Why a group cannot be made of these pools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Out of range.
    #[error("chunk size {0} is not a power of two between {CHUNK_MIN} and {CHUNK_MAX}")]
    ChunkSize(Bytes),
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

/// Why a group is not in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device has a whole superblock of this version.
    #[error(
        "no device holds a volume group of this version; create one, or name the right devices"
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
        "block {block} of the checkpoint is unreadable on every pool that holds one; restore a pool that is missing"
    )]
    Checkpoint {
        /// Blocks from the area's start.
        block: u32,
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
    /// No living pool can hold the metadata.
    #[error("no living pool can hold the journal; restore a pool that is missing")]
    NoHome,
}

/// What a read of the recovery is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Erase,
    Supers,
    Checkpoint(u32),
    Journal(u32),
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
    pub(crate) outstanding: u32,
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
        let area_blocks = layout::area_blocks(slots, chunk_size);
        let regions = regions(settings.journal_blocks, area_blocks, pools, chunk_size);
        if !regions.contains(&true) {
            let bytes = layout::region_bytes(settings.journal_blocks, area_blocks);
            return Err(CreateError::NoHome(Bytes(bytes)));
        }
        let mut group = Group::empty(settings, identity);
        group.area_blocks = area_blocks;
        for (spec, has_region) in pools.iter().zip(regions) {
            let pool = new_pool(&group, spec, has_region)?;
            group.pools.push(pool);
        }
        let erase = Payload::Zeroes(2 * BLOCK_BYTES as u32);
        let steps = (0..pools.len()).map(|index| Step {
            pool: PoolId(index as u16),
            purpose: Purpose::Erase,
            io: Io::Write { offset: Bytes(0), data: erase.clone(), fua: true },
            tries: 0,
            found: None,
        });
        group.begin_steps(steps.collect());
        Ok(group)
    }

    /// Opens the group that the devices hold; `None` stands for a device that is missing, whose
    /// pool then counts as dead. Of `settings`, what is written at creation is read from the
    /// devices.
    pub fn open(settings: Settings, devices: &[Option<Geometry>]) -> Group {
        let mut group = Group::empty(settings, 0);
        let nowhere = Geometry { size: Bytes(0), discard_zeroes: false, far: false };
        let mut steps = Vec::new();
        for (index, device) in devices.iter().enumerate() {
            let (geometry, state) = match device {
                Some(geometry) => (*geometry, PoolState::Active),
                None => (nowhere, PoolState::Dead),
            };
            group.pools.push(Pool::new(&unknown_pool(), geometry, state, false));
            if device.is_some_and(|geometry| geometry.size.0 >= 2 * BLOCK_BYTES as u64) {
                let io = Io::Read { offset: Bytes(0), length: 2 * BLOCK_BYTES as u32 };
                let pool = PoolId(index as u16);
                steps.push(Step { pool, purpose: Purpose::Supers, io, tries: 0, found: None });
            }
        }
        group.begin_steps(steps);
        group
    }

    fn empty(settings: Settings, identity: u64) -> Group {
        Group {
            routing: Routing::default(),
            pacer: Pacer::default(),
            now: Nanos(0),
            chunk_size: settings.chunk_size.0 as u32,
            service: Service::Opening,
            identity,
            area_blocks: 0,
            map: ChunkMap::default(),
            pools: Vec::new(),
            flights: Slab::default(),
            flight_generation: 0,
            requests: Slab::default(),
            parts: Slab::default(),
            traffic: Slab::default(),
            scheduler: Scheduler::new(settings.depth),
            unsplit: Vec::new(),
            slots_leaving: 0,
            space_waiters: Vec::new(),
            parts_begun: 0,
            commit: Commit::new(1, Vec::new()),
            checkpoint: Checkpoint::new(0, 0),
            copier: Copier::default(),
            promises: Promises::default(),
            proposal: Proposal::default(),
            scrub: Scrub::default(),
            seals: Seals::default(),
            opening: None,
            placement: None,
            placement_name: String::new(),
            shadows: Shadows::default(),
            hinting: Hinting::default(),
            tap: None,
            housekeeping: Housekeeping::new(settings.epoch),
            epoch: 0,
            io_out: Vec::new(),
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
        self.opening = Some(Opening { steps, outstanding, superblock });
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
        let opening = self.opening.as_mut().expect("only an opening group has such steps");
        let step = &mut opening.steps[index as usize];
        match result {
            Ok(payload) => step.found = Some(payload.to_vec()),
            Err(error) if error != DeviceError::Gone && step.tries < TRIES_MAX => {
                step.tries += 1;
                let io = step.io.clone();
                self.send(now, pool, Owner::Open(index), io);
                return;
            }
            Err(_) => self.pools[usize::from(pool.0)].state = PoolState::Dead,
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
        self.checkpoint.wanted = true;
        self.pump_checkpoint();
    }

    /// Whether the checkpoint that just ended was the one that puts the group in service.
    pub(crate) fn opening_ends(&self) -> bool {
        self.service == Service::Opening && self.opening.is_none()
    }
}

impl Opening {
    /// The records of a block that some home has whole.
    pub(crate) fn block(
        &self,
        kind: BlockKind,
        stamp: Stamp,
        at: u32,
        chunk_size: u32,
    ) -> Option<Vec<Record>> {
        self.steps.iter().find_map(|step| {
            let first = match (kind, step.purpose) {
                (BlockKind::Checkpoint, Purpose::Checkpoint(first)) => first,
                (BlockKind::Journal, Purpose::Journal(first)) => first,
                _ => return None,
            };
            let start = (at.checked_sub(first)? as usize).checked_mul(BLOCK_BYTES)?;
            let block = step.found.as_ref()?.get(start..start + BLOCK_BYTES)?;
            decode_records(open_block(kind, stamp, block)?, chunk_size)
        })
    }
}

/// The reads that fetch a home's checkpoint and journal.
pub(crate) fn home_reads(superblock: &Superblock, home: PoolId) -> Vec<Step> {
    let area =
        layout::area_offset(superblock.journal_blocks, superblock.area_blocks, superblock.area, 0);
    let ranges = [
        (area, superblock.checkpoint_blocks, Purpose::Checkpoint as fn(u32) -> Purpose),
        (layout::journal_offset(0), superblock.journal_blocks, Purpose::Journal),
    ];
    let per_read = (READ_BYTES / BLOCK_BYTES) as u32;
    let mut steps = Vec::new();
    for (start, blocks, purpose) in ranges {
        for first in (0..blocks).step_by(per_read as usize) {
            let count = per_read.min(blocks - first);
            let offset = Bytes(start.0 + u64::from(first) * BLOCK_BYTES as u64);
            let io = Io::Read { offset, length: count * BLOCK_BYTES as u32 };
            steps.push(Step { pool: home, purpose: purpose(first), io, tries: 0, found: None });
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
    if pools.is_empty() || pools.len() > POOLS_MAX {
        return Err(CreateError::PoolCount(pools.len()));
    }
    for (at, pool) in pools.iter().enumerate() {
        check_name(&pool.name, pools[..at].iter().map(|other| other.name.as_str()))?;
    }
    Ok(())
}

/// Which pools get a metadata region: those where it is small, and the roomiest in any case, far
/// ones last.
fn regions(
    journal_blocks: u32,
    area_blocks: u32,
    pools: &[PoolSpec],
    chunk_size: u32,
) -> Vec<bool> {
    let bytes = layout::region_bytes(journal_blocks, area_blocks);
    let mut regions: Vec<bool> = pools.iter().map(|p| bytes <= p.geometry.size.0 / 8).collect();
    let mut by_size: Vec<usize> = (0..pools.len()).collect();
    by_size.sort_by_key(|&index| {
        let geometry = &pools[index].geometry;
        (geometry.far, std::cmp::Reverse(geometry.size), index)
    });
    for index in by_size {
        let fits = bytes.next_multiple_of(64 << 10) + u64::from(chunk_size)
            <= pools[index].geometry.size.0;
        if regions.iter().filter(|&&region| region).count() < 2 && fits {
            regions[index] = true;
        }
    }
    regions
}

/// A pool as it is when it joins.
pub(crate) fn new_pool(
    group: &Group,
    spec: &PoolSpec,
    has_region: bool,
) -> Result<Pool, CreateError> {
    let living = group.pools.iter().filter(|pool| pool.state != PoolState::Removed);
    check_name(&spec.name, living.map(|pool| pool.name.as_str()))?;
    let head = layout::head_bytes(group.settings.journal_blocks, group.area_blocks, has_region);
    let (size, seals) = (spec.geometry.size, group.settings.checksums);
    let (slots, first) = layout::slots_behind(size, head, group.chunk_size, seals);
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
    };
    Ok(Pool::new(&record, spec.geometry, PoolState::Joining, spec.zeroed))
}

fn unknown_pool() -> PoolRecord {
    PoolRecord {
        name: String::new(),
        membership: Membership::Active,
        slots: 0,
        reserve: 0,
        first_slot: 0,
        has_metadata_region: false,
    }
}
