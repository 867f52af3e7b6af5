//! Checkpoint areas that grow while the group is in use. The accident: a group of a small and a
//! middle pool refused a large one for ever, because its areas were as large as its first pools
//! needed.

use super::{Bench, CHUNK};
use crate::{AdminError, Group, PoolSpec, PoolState, Service, Settings, settings::Limits};
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_ports::{Device, Geometry};
use thermocline_units::{Bytes, Nanos, PoolId};

fn small_areas() -> Settings {
    // Sixty bytes of records a block: the map of a few hundred chunks needs slots.
    let limits =
        Limits { area_growth: 1, block_payload: 124, record: 64, volumes: 4, ..Limits::REAL };
    Settings { limits, ..Bench::settings() }
}

fn add(bench: &mut Bench, mib: u64) -> Result<PoolId, AdminError> {
    let geometry = Geometry { size: Bytes::from_mib(mib), discard_zeroes: true, far: false };
    let name = format!("added{}", bench.disks.len());
    let spec = PoolSpec { name, geometry, zeroed: true, reserve_chunks: 0 };
    bench.disks.push(SimDisk::new(geometry, 77, Faults::NONE));
    let now = bench.now;
    let added = bench.group.add_pool(now, spec);
    match &added {
        Ok(_) => bench.run(),
        Err(_) => drop(bench.disks.pop()),
    }
    added
}

fn fill(bench: &mut Bench, from: u64, chunks: u64) {
    for chunk in from..from + chunks {
        bench.write(chunk * CHUNK, 1 + (chunk % 250) as u8, CHUNK as usize);
    }
    bench.flush();
}

fn holds(bench: &mut Bench, chunks: u64) {
    for chunk in 0..chunks {
        let found = bench.read(chunk * CHUNK, 512).expect("readable");
        assert_eq!(found, [1 + (chunk % 250) as u8; 512], "chunk {chunk}");
    }
}

#[test]
fn a_pool_many_times_as_large_is_added_and_filled() {
    let mut bench = Bench::with_settings(&[8, 8], 0, small_areas());
    bench.group.create_volume(Nanos(0), Bytes::from_mib(64)).expect("a volume");
    fill(&mut bench, 0, 100);
    let before = bench.group.machines.state.area_capacity();
    let pool = add(&mut bench, 64).expect("the areas grow");
    assert!(bench.group.machines.state.area_capacity() > before);
    assert_eq!(bench.group.machines.state.pools[pool].state, PoolState::Active);
    fill(&mut bench, 100, 800);
    bench.check();
    bench.crash();
    holds(&mut bench, 900);
    let now = bench.now;
    bench.group.close(now);
    bench.run();
    assert_eq!(*bench.group.service(), Service::Closed);
    bench.crash();
    holds(&mut bench, 900);
    let slots: u32 =
        bench.group.machines.state.pools.iter().map(|pool| pool.metadata_slots()).sum();
    assert!(slots > 0, "areas go on in slots");
}

#[test]
fn a_pool_for_whose_map_there_is_no_room_is_refused_and_nothing_has_changed() {
    let mut bench = Bench::with_settings(&[4], 0, small_areas());
    bench.group.create_volume(Nanos(0), Bytes::from_mib(8)).expect("a volume");
    let free = bench.group.pool_status(PoolId(0)).expect("it exists");
    let free = free.slots_total - free.slots_used;
    fill(&mut bench, 0, u64::from(free));
    // Too small to hold the metadata itself, too large for what the first has left: nothing.
    let region = crate::pools::layout::region_bytes(
        64,
        bench.group.machines.state.pools.sizes().area_blocks,
    );
    let mib = (region * 8 / (1 << 20)).saturating_sub(1).max(1);
    assert_eq!(add(&mut bench, mib), Err(AdminError::MetadataRoom("added1".to_string())));
    bench.check();
    assert_eq!(bench.group.machines.state.pools[PoolId(0)].metadata_slots(), 0);
    holds(&mut bench, u64::from(free));
    bench.crash();
    holds(&mut bench, u64::from(free));
}

#[test]
fn a_crash_at_any_request_of_growing_leaves_the_group_with_or_without_the_pool() {
    let mut joined = [0, 0];
    for requests in 0..100 {
        let mut bench = Bench::with_settings(&[8, 8], 0, small_areas());
        bench.group.create_volume(Nanos(0), Bytes::from_mib(64)).expect("a volume");
        fill(&mut bench, 0, 40);
        let before = bench.group.machines.state.pools.count();
        let geometry = Geometry { size: Bytes::from_mib(32), discard_zeroes: true, far: false };
        let spec = PoolSpec { name: "added".into(), geometry, zeroed: true, reserve_chunks: 0 };
        bench.disks.push(SimDisk::new(geometry, 77, Faults::NONE));
        let now = bench.now;
        bench.group.add_pool(now, spec).expect("the areas grow");
        let ended = bench.run_requests(requests);
        bench.crash();
        holds(&mut bench, 40);
        joined[usize::from(bench.group.machines.state.pools.count() > before)] += 1;
        fill(&mut bench, 40, 60);
        bench.crash();
        holds(&mut bench, 100);
        if ended {
            assert!(joined[0] >= 4 && joined[1] > 0, "crashes before and after: {joined:?}");
            return;
        }
    }
    panic!("adding a pool does not end");
}

#[test]
fn a_forged_superblock_without_checkpoint_blocks_is_refused() {
    // `area_blocks` = 0 with a right checksum ended `check` and `up` in an assertion.
    for area_blocks in [0, 1, 5] {
        let mut bench = Bench::new(&[8, 8]);
        bench.group.create_volume(Nanos(0), Bytes(4 * CHUNK)).expect("a volume");
        bench.flush();
        super::bytes_on_disk::forge_areas(&mut bench, area_blocks);
        let devices: Vec<_> = bench.disks.iter().map(|disk| Some(disk.geometry())).collect();
        bench.group = Group::open(Bench::settings(), &devices);
        bench.run();
        assert!(matches!(bench.group.service(), Service::Failed(_)), "{area_blocks} blocks");
    }
}

#[test]
fn groups_of_the_layouts_before_are_opened_and_become_of_this_one() {
    for version in [1, 2] {
        let mut bench = Bench::new(&[8, 8]);
        bench.group.create_volume(Nanos(0), Bytes(8 * CHUNK)).expect("a volume");
        fill(&mut bench, 0, 6);
        super::bytes_on_disk::set_version(&mut bench, version);
        bench.crash();
        holds(&mut bench, 6);
        let volume = bench.group.volumes().next().expect("it is there");
        assert_eq!((volume.name.as_str(), volume.identity > 0), ("v0", true));
        assert_eq!(super::bytes_on_disk::version_of(&bench.disks[0]), 3);
    }
}
