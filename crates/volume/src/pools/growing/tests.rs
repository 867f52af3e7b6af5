//! Pools whose devices become larger while the group is in use.

use crate::settings::Limits;
use crate::tests::bytes_on_disk::version_of;
use crate::tests::{Bench, CHUNK};
use crate::{AdminError, Group, OpenError, PoolState, Service, Settings};
use thermocline_ports::Device;
use thermocline_units::{Bytes, Nanos, PoolId};

fn with_checksums() -> Settings {
    Settings { checksums: true, ..Bench::settings() }
}

/// A few records a block: the map of some hundred chunks needs slots.
fn small_areas() -> Settings {
    let limits =
        Limits { area_growth: 1, block_payload: 124, record: 64, volumes: 4, ..Limits::REAL };
    Settings { limits, ..with_checksums() }
}

fn bench(settings: Settings, volume_mib: u64) -> Bench {
    let mut bench = Bench::with_settings(&[8, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes::from_mib(volume_mib)).expect("a volume");
    bench
}

/// Makes a pool's disk so large, and the pool with it; the rest of the work is left to be done.
fn begin(bench: &mut Bench, pool: u16, mib: u64) -> Result<u32, AdminError> {
    let disk = &mut bench.disks[usize::from(pool)];
    let before = disk.geometry().size;
    disk.grow(Bytes::from_mib(mib));
    // The first pool's disk is full of garbage.
    let zeroed_from = if pool == 0 { Bytes(u64::MAX) } else { before };
    let now = bench.now();
    bench.group.grow_pool(now, PoolId(pool), Bytes::from_mib(mib), zeroed_from)
}

fn grow(bench: &mut Bench, pool: u16, mib: u64) -> Result<u32, AdminError> {
    let grown = begin(bench, pool, mib);
    bench.run();
    grown
}

fn fill(bench: &mut Bench, from: u64, chunks: u64) {
    for chunk in from..from + chunks {
        bench.write(chunk * CHUNK, 1 + (chunk % 250) as u8, 4096);
    }
    bench.flush();
}

/// Asserts that what was written is there, and that the rest of each chunk reads as zeroes.
fn holds(bench: &mut Bench, chunks: u64) {
    for chunk in 0..chunks {
        let found = bench.read(chunk * CHUNK, 8192).expect("readable");
        let byte = 1 + (chunk % 250) as u8;
        assert!(found[..4096].iter().all(|&b| b == byte), "chunk {chunk}");
        assert!(found[4096..].iter().all(|&b| b == 0), "chunk {chunk} shows what was not written");
    }
}

fn total(bench: &Bench, pool: u16) -> u32 {
    bench.group.pool_status(PoolId(pool)).expect("it exists").slots_total
}

/// Found by a seed: two slots more, of which the larger map takes four. A release build told of
/// four billion chunks.
#[test]
fn a_pool_that_grows_by_less_than_its_map_grows_by_no_chunks() {
    let mut bench = bench(small_areas(), 1);
    let mut shrunk = 0;
    for chunks in 1..=1000 {
        let (before, now) = (total(&bench, 0), bench.now());
        let size = Bytes(Bytes::from_mib(8).0 + chunks * CHUNK);
        bench.disks[0].grow(size);
        let grown = bench.group.grow_pool(now, PoolId(0), size, Bytes(u64::MAX)).expect("it grows");
        bench.run();
        assert_eq!(grown, total(&bench, 0).saturating_sub(before), "{before} chunks");
        shrunk += u32::from(total(&bench, 0) < before);
    }
    bench.check();
    assert!(shrunk > 0, "its map took more at least once: {}", total(&bench, 0));
}

#[test]
fn a_full_pool_grows_many_times_and_is_filled_again() {
    for settings in [Bench::settings(), with_checksums(), small_areas()] {
        let checksums = settings.checksums;
        let mut bench = bench(settings, 64);
        let full = u64::from(total(&bench, 0) + total(&bench, 1));
        fill(&mut bench, 0, full);
        let before = total(&bench, 0);
        assert_eq!(version_of(&bench.disks[0]), 3);
        let grown = grow(&mut bench, 0, 40).expect("the device is larger");
        // Programs from before do not know where the tables are, and must not open it.
        let version = if checksums { 4 } else { 3 };
        assert_eq!(version_of(&bench.disks[0]), version);
        assert_eq!(total(&bench, 0), before + grown);
        assert!((440..=512).contains(&grown), "32 MiB more are {grown} chunks more");
        fill(&mut bench, full, u64::from(grown));
        bench.pass(Nanos::from_secs(60));
        bench.check();
        let checksummed = bench.group.checksum_status().checksummed;
        assert!(checksummed > full || !checksums, "{checksummed} chunks have their tables");
        bench.crash();
        let full = full + u64::from(grown);
        holds(&mut bench, full);
        // Tables that a chunk lies on would be lost, or say that the chunk rots.
        assert_eq!(bench.group.checksum_status().lost, 0);
        let grown = grow(&mut bench, 1, 16).expect("the other one, too");
        fill(&mut bench, full, u64::from(grown));
        let now = bench.now();
        bench.group.close(now);
        bench.run();
        assert_eq!(*bench.group.service(), Service::Closed);
        bench.crash();
        holds(&mut bench, full + u64::from(grown));
    }
}

#[test]
fn a_crash_at_any_request_of_growing_leaves_the_pool_as_large_as_before_or_grown() {
    let mut seen = [0, 0];
    for requests in 0..200 {
        let mut bench = bench(small_areas(), 64);
        let full = u64::from(total(&bench, 0) + total(&bench, 1));
        fill(&mut bench, 0, full);
        let before = total(&bench, 0);
        begin(&mut bench, 0, 32).expect("the areas grow into the new slots");
        let ended = bench.run_requests(requests);
        bench.crash();
        holds(&mut bench, full);
        let grew = total(&bench, 0) > before;
        seen[usize::from(grew)] += 1;
        if !grew {
            grow(&mut bench, 0, 32).expect("it can be asked again");
        }
        fill(&mut bench, full, 300);
        bench.crash();
        holds(&mut bench, full + 300);
        if ended {
            assert!(seen[0] >= 4 && seen[1] > 0, "crashes before and after: {seen:?}");
            return;
        }
    }
    panic!("growing does not end");
}

#[test]
fn chunks_get_no_new_slot_before_the_superblock_that_has_it_is_durable() {
    let mut bench = bench(with_checksums(), 64);
    let before = total(&bench, 0);
    begin(&mut bench, 0, 16).expect("the device is larger");
    assert_eq!(total(&bench, 0), before, "it is told when it counts");
    bench.check();
    assert_eq!(begin(&mut bench, 0, 24), Err(AdminError::Growing("pool0".to_string())));
    bench.run();
    assert!(total(&bench, 0) > before);
    grow(&mut bench, 0, 24).expect("one after the other");
    bench.check();
}

#[test]
fn growth_that_cannot_be_is_refused_and_changes_nothing() {
    let mut bench = bench(with_checksums(), 64);
    let now = bench.now();
    let size = bench.disks[0].geometry().size;
    for wanted in [size, Bytes(size.0 - CHUNK), Bytes(0), Bytes(size.0 + CHUNK / 2)] {
        let refused = bench.group.grow_pool(now, PoolId(0), wanted, Bytes(0));
        // Half a chunk more is none, unless half a chunk was left over.
        let none = matches!(refused, Err(AdminError::NotLarger { .. }));
        assert!(none || wanted > size, "{wanted}: {refused:?}");
    }
    bench.run();
    assert_eq!(
        bench.group.grow_pool(now, PoolId(7), Bytes::from_mib(64), Bytes(0)),
        Err(AdminError::NoPool(PoolId(7)))
    );
    let would = bench.group.check_growth(PoolId(1), Bytes::from_mib(64)).expect("it could");
    assert!(bench.group.machines.state.journal.is_current(), "asking changes nothing");
    bench.check();
    assert_eq!(grow(&mut bench, 1, 64), Ok(would));
    let now = bench.now();
    bench.group.drain_pool(now, PoolId(1)).expect("it is active");
    let state = PoolState::Draining;
    let refused = grow(&mut bench, 1, 80);
    assert_eq!(refused, Err(AdminError::CannotGrow { pool: PoolId(1), state }));
    bench.check();
}

#[test]
fn a_device_that_is_smaller_again_is_refused_at_the_start() {
    let mut bench = bench(with_checksums(), 64);
    grow(&mut bench, 0, 16).expect("the device is larger");
    let mut devices: Vec<_> = bench.disks.iter().map(|disk| Some(disk.geometry())).collect();
    devices[0].as_mut().expect("it is there").size = Bytes::from_mib(8);
    bench.group = Group::open(Bench::settings(), &devices);
    bench.run();
    assert_eq!(*bench.group.service(), Service::Failed(OpenError::Shrunk(PoolId(0))));
}
