//! Groups on empty devices, groups that are still to be read, and pools that join a group.

use crate::admin::error::AdminError;
use crate::format::{Membership, PoolRecord};
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::opening::error::CreateError;
use crate::pools::layout;
use crate::pools::pool::{NO_DEVICE, Pool, PoolSpec, PoolState, check_name};
use crate::pools::ranks::Ranks;
use crate::pools::room::RoomBefore;
use crate::pools::{Pools, Sizes};
use crate::settings::{CHUNK_MAX, CHUNK_MIN, JOURNAL_BLOCKS, POOLS_MAX, Settings, VOLUMES_MAX};
use crate::sizes::PAYLOAD_BYTES;
use thermocline_ports::Geometry;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, PoolId};

/// The state of a new group on `pools`, fastest first; nothing is written yet.
///
/// # Errors
/// When the settings are out of range or a pool is too small.
pub(crate) fn on_empty_devices(
    settings: Settings,
    pools: &[PoolSpec],
    identity: u64,
) -> Result<GroupState, CreateError> {
    check_settings(&settings, pools)?;
    let chunk_size = settings.chunk_size.0 as u32;
    let slots: u64 = pools.iter().map(|p| p.geometry.size.div_floor(settings.chunk_size)).sum();
    let area_blocks = layout::area_blocks(slots, chunk_size, &settings.limits);
    let regions = regions(&settings, area_blocks, pools);
    if !regions.contains(&true) {
        let bytes = layout::region_bytes(settings.journal_blocks, area_blocks);
        return Err(CreateError::NoReplica(Bytes(bytes)));
    }
    let checksums = settings.checksums;
    let mut group = without_pools(settings, identity);
    group.pools.set_sizes(Sizes { area_blocks, ..*group.pools.sizes() });
    for (spec, has_region) in pools.iter().zip(regions) {
        let pool = new_pool(&group.pools, spec, has_region, checksums)?;
        group.pools.push(pool, None);
    }
    Ok(group)
}

/// The state of a group that is still to be read from these devices; `None`: a missing one, whose
/// pool counts as dead.
pub(crate) fn on_devices(settings: Settings, devices: &[Option<Geometry>]) -> GroupState {
    let mut group = without_pools(settings, 0);
    let record = unknown_pool();
    let mut pools = Vec::with_capacity(devices.len());
    for device in devices {
        let (geometry, state) = match device {
            Some(geometry) => (*geometry, PoolState::Active),
            None => (NO_DEVICE, PoolState::Dead),
        };
        let tables = group.pools.tables_of(&record);
        pools.push(Pool::new(&record, tables, geometry, state, false));
    }
    group.pools.replace(pools, Ranks::default());
    group
}

fn without_pools(settings: Settings, identity: u64) -> GroupState {
    let sizes = Sizes {
        chunk: settings.chunk_size.0 as u32,
        journal_blocks: settings.journal_blocks,
        area_blocks: 0,
        limits: settings.limits,
    };
    GroupState::new(settings, sizes, identity)
}

/// Puts a pool among the others, as faster than `before`, and gives the metadata room for its
/// chunks; the extents of the others as they were before.
///
/// # Errors
/// When it is too small, there are too many, there is no pool `before`, or the metadata would not
/// have room for its chunks. Nothing has changed then.
pub(crate) fn join(
    group: &mut GroupState,
    spec: &PoolSpec,
    before: Option<PoolId>,
) -> Result<Vec<RoomBefore>, AdminError> {
    if group.service != Service::Ready {
        return Err(AdminError::NotReady);
    }
    let is_there = |id: &PoolId| {
        let pool = group.pools.find(*id);
        pool.is_some_and(|pool| pool.state != PoolState::Removed)
    };
    if let Some(id) = before.filter(|id| !is_there(id)) {
        return Err(AdminError::NoPool(id));
    }
    if group.pools.count() >= POOLS_MAX {
        return Err(CreateError::PoolCount(group.pools.count() + 1).into());
    }
    let sizes = group.pools.sizes();
    let region = layout::region_bytes(sizes.journal_blocks, sizes.area_blocks);
    let has_region = region <= spec.geometry.size.0 / 8;
    let pool = new_pool(&group.pools, spec, has_region, group.settings.added_checksums)?;
    // Metadata may need what is lent.
    met_if(group.lines.lent() > 0, "lines taken back for a new pool");
    group.lines.take_back_all(&mut group.pools);
    let (room, count) = (group.pools.room_now(), group.pools.count());
    group.pools.push(pool, before);
    if !group.pools.grow_areas(group.need()).suffices {
        group.pools.pop();
        group.pools.take_back_room(room);
        assert_eq!(group.pools.count(), count, "a pool that is refused leaves nothing behind");
        return Err(AdminError::MetadataRoom(spec.name.clone()));
    }
    assert_eq!(group.pools.count(), count + 1);
    Ok(room)
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
fn new_pool(
    pools: &Pools,
    spec: &PoolSpec,
    has_region: bool,
    checksums: bool,
) -> Result<Pool, CreateError> {
    let living = pools.iter().filter(|pool| pool.state != PoolState::Removed);
    check_name(&spec.name, living.map(|pool| pool.name.as_str()))?;
    let sizes = pools.sizes();
    let head = layout::head_bytes(sizes.journal_blocks, sizes.area_blocks, has_region);
    let size = spec.geometry.size;
    let (slots, first) = layout::slots_behind(size, head, pools.chunk_bytes(), checksums);
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
    let tables = pools.tables_of(&record);
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
