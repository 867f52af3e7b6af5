//! Making a group on empty devices, and beginning to read one.

use crate::block_checksums::BlockChecksums;
use crate::epochs::Epochs;
use crate::format::{Membership, PAYLOAD_BYTES, PoolRecord};
use crate::group::Group;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::hinting::Hinting;
use crate::housekeeping::Housekeeping;
use crate::journal::Journal;
use crate::layout;
use crate::leaving::Leaving;
use crate::moves::Moves;
use crate::opening::recovery::Recovered;
use crate::opening::replicas::DamagedReplicas;
use crate::opening::salvage::Salvage;
use crate::opening::{CreateError, OpenError, Opened, Opening};
use crate::pacing::Pacing;
use crate::pools::Sizes;
use crate::pools::pool::{NO_DEVICE, Pool, PoolSpec, PoolState, check_name};
use crate::pools::ranks::Ranks;
use crate::requests::Requests;
use crate::routing::Routing;
use crate::scrub::Scrub;
use crate::settings::{CHUNK_MAX, CHUNK_MIN, JOURNAL_BLOCKS, POOLS_MAX, Settings, VOLUMES_MAX};
use crate::settling::Settlement;
use thermocline_ports::{DeviceError, Geometry, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

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
            return Err(CreateError::NoReplica(Bytes(bytes)));
        }
        let mut group = Group::empty(settings, identity);
        group.state.pools.set_sizes(Sizes { area_blocks, ..*group.state.pools.sizes() });
        for (spec, has_region) in pools.iter().zip(regions) {
            let pool = new_pool(&group, spec, has_region, settings.checksums)?;
            group.state.pools.push(pool, None);
        }
        group.opening = Some(Opening::format(group.state.now, &mut group.state.pools));
        Ok(group)
    }

    /// Opens the group that the devices hold; `None` stands for a device that is missing, whose
    /// pool then counts as dead. Of `settings`, what is written at creation is read from the
    /// devices.
    pub fn open(settings: Settings, devices: &[Option<Geometry>]) -> Group {
        Group::open_with(settings, devices, None)
    }

    /// Opens a group as [`Group::open`] does, and makes the best of damaged metadata instead of
    /// refusing it; [`Group::salvage`] says what became of it.
    pub fn open_damaged(settings: Settings, devices: &[Option<Geometry>]) -> Group {
        Group::open_with(settings, devices, Some(Box::default()))
    }

    fn open_with(
        settings: Settings,
        devices: &[Option<Geometry>],
        salvage: Option<Box<Salvage>>,
    ) -> Group {
        let mut group = Group::empty(settings, 0);
        let record = unknown_pool();
        let mut pools = Vec::with_capacity(devices.len());
        for device in devices {
            let (geometry, state) = match device {
                Some(geometry) => (*geometry, PoolState::Active),
                None => (NO_DEVICE, PoolState::Dead),
            };
            let tables = group.state.pools.tables_of(&record);
            pools.push(Pool::new(&record, tables, geometry, state, false));
        }
        group.state.pools.replace(pools, Ranks::default());
        group.opening = Some(Opening::read(group.state.now, &mut group.state.pools, salvage));
        group.advance_opening();
        group
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
            settlement: Settlement::default(),
            requests: Requests::new(settings.depth),
            leaving: Leaving::default(),
            epochs: Epochs::default(),
            moves: Moves::default(),
            pacing: Pacing::default(),
            scrub: Scrub::default(),
            checksums: BlockChecksums::default(),
            opening: None,
            salvage: None,
            damaged_replicas: DamagedReplicas::default(),
            hinting: Hinting::default(),
            housekeeping: Housekeeping::new(settings.epoch),
            state: GroupState::new(settings, sizes, identity),
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
        opening.answered(now, &mut self.state.pools, pool, index, result);
        self.advance_opening();
    }

    /// Does what follows when all steps have ended.
    fn advance_opening(&mut self) {
        let Some(opening) = &mut self.opening else { return };
        let GroupState { now, pools, map, .. } = &mut self.state;
        match opening.advance(*now, pools, map) {
            Ok(None) => {}
            Ok(Some(Opened::Formatted)) => self.first_checkpoint(),
            Ok(Some(Opened::Recovered(recovered))) => self.adopt(*recovered),
            Err(error) => self.cannot_open(error),
        }
    }

    fn cannot_open(&mut self, error: OpenError) {
        if let Some(superblock) = self.opening.take().as_ref().and_then(Opening::superblock) {
            self.state.journal.set_identity(superblock.identity);
        }
        self.state.service = Service::Failed(error);
    }

    /// Takes over what was read.
    fn adopt(&mut self, recovered: Recovered) {
        let Recovered { superblock, wishes, overlays, tables_lost, salvage, damaged } = recovered;
        self.state.settings.chunk_size = Bytes(u64::from(superblock.chunk_size));
        self.state.settings.journal_blocks = superblock.journal_blocks;
        self.state.settings.checksums = superblock.pools.iter().all(|pool| pool.checksums);
        let generation = match mutant("journal_keeps_its_generation") {
            true => superblock.journal_generation,
            false => superblock.sequence + 1,
        };
        self.state.journal = Journal::recovered(&superblock, generation);
        (self.salvage, self.damaged_replicas) = (salvage, damaged);
        self.state.overlays = overlays;
        wishes.into_iter().for_each(|wish| self.moves.wish(wish));
        self.checksums.note_broken(tables_lost);
        if self.state.pools.keep_checksums() {
            let mapped = |chunk: &ChunkId| self.state.map.entry(*chunk).first().is_some();
            let chunks: Vec<ChunkId> = self.state.map.chunks().filter(mapped).collect();
            chunks
                .into_iter()
                .for_each(|chunk| self.checksums.watch(&mut self.state, Nanos(0), chunk));
        }
        self.state.map.name_old_volumes();
        self.first_checkpoint();
    }

    /// Ends formatting and recovery alike.
    fn first_checkpoint(&mut self) {
        self.opening = None;
        self.state.journal.want_checkpoint();
        if !mutant("opened_without_room_for_its_map") {
            // Room may have been given that no superblock knew of when the power failed.
            self.state.grow_areas_when_short();
        }
        self.settlement.pump_checkpoint(&mut self.state);
    }
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
    let living = group.state.pools.iter().filter(|pool| pool.state != PoolState::Removed);
    check_name(&spec.name, living.map(|pool| pool.name.as_str()))?;
    let sizes = group.state.pools.sizes();
    let head = layout::head_bytes(sizes.journal_blocks, sizes.area_blocks, has_region);
    let size = spec.geometry.size;
    let (slots, first) =
        layout::slots_behind(size, head, group.state.pools.chunk_bytes(), checksums);
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
    let tables = group.state.pools.tables_of(&record);
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
