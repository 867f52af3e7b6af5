//! A group that was made without block checksums gets pools that have them.

use super::bytes_on_disk::version_of;
use super::{Bench, CHUNK};
use crate::{Finding, FindingKind, OperationKind, Outcome, PoolSpec, PoolState, RequestError};
use crate::{Settings, tests::bytes_on_disk};
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_ports::{Device, Geometry};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const MINUTE: Nanos = Nanos::from_secs(60);

/// Settings of an old group.
fn settings() -> Settings {
    Settings { added_checksums: true, ..Bench::settings() }
}

/// A group of so many pools without checksums, with a chunk of ones on the first.
fn old(pools_mib: &[u64]) -> Bench {
    let mut bench = Bench::with_settings(pools_mib, 0, settings());
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.flush();
    bench
}

/// Adds a pool of 8 MiB; its number.
fn add(bench: &mut Bench) -> u16 {
    let geometry = Geometry { size: Bytes::from_mib(8), discard_zeroes: true, far: false };
    let name = format!("added{}", bench.disks.len());
    let spec = PoolSpec { name, geometry, zeroed: true, reserve_chunks: 0 };
    bench.disks.push(SimDisk::new(geometry, 77, Faults::NONE));
    let added = bench.group.add_pool(bench.now, spec).expect("it fits");
    bench.run();
    added.0
}

/// An old group of two pools, and one more with checksums.
fn mixed() -> Bench {
    let mut bench = old(&[4, 8]);
    assert_eq!(add(&mut bench), 2);
    bench
}

fn have_checksums(bench: &Bench) -> Vec<bool> {
    let pools = (0..bench.group.pool_count()).map(PoolId);
    pools.map(|pool| bench.group.pool_status(pool).expect("it exists").checksums).collect()
}

fn chunk() -> ChunkId {
    ChunkId { volume: VolumeId(0), index: 0 }
}

/// Flips a bit of a block of the first chunk on a disk.
fn rot(bench: &mut Bench, disk: u16, block: u64) {
    let copies = bench.group.locate(chunk()).expect("it exists").copies;
    let copy = copies.iter().find(|copy| copy.place.pool == PoolId(disk)).expect("one is there");
    let start = bench.group.machines.state.pools[PoolId(disk)].address(copy.place, 0, CHUNK as u32);
    bench.disks[usize::from(disk)].flip_bit(Bytes(start.0 + block * 4096), 0);
}

fn findings(bench: &mut Bench) -> Vec<(FindingKind, u64, Option<u16>)> {
    let mut found: Vec<Finding> = Vec::new();
    bench.group.take_findings(&mut found);
    found.iter().map(|f| (f.kind, f.offset.0, f.pool.map(|pool| pool.0))).collect()
}

fn scrub(bench: &mut Bench) {
    bench.group.scrub(bench.now);
    bench.pass(Nanos::from_secs(5));
    assert!(!bench.group.scrub_status().running);
}

fn reopen(bench: &mut Bench) {
    bench.flush();
    bench.crash();
}

/// Number of chunks with tables.
fn with_tables(bench: &Bench) -> u64 {
    bench.group.chunks_with_checksums().0
}

#[test]
fn an_added_pool_has_checksums_and_the_old_ones_have_none_also_after_a_restart() {
    let mut bench = old(&[4, 8]);
    assert_eq!(version_of(&bench.disks[0]), 3, "older programs may read it as long as they can");
    add(&mut bench);
    for _ in 0..2 {
        assert_eq!(have_checksums(&bench), [false, false, true]);
        assert_eq!(version_of(&bench.disks[2]), 5);
        bench.pass(MINUTE);
        assert_eq!(with_tables(&bench), 0, "no copy has room for a table");
        reopen(&mut bench);
    }
    assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
}

#[test]
fn a_group_of_any_older_layout_gets_them_too() {
    for version in [1, 2, 3] {
        let mut bench = old(&[8, 8]);
        bytes_on_disk::set_version(&mut bench, version);
        bench.crash();
        assert_eq!(have_checksums(&bench), [false, false]);
        add(&mut bench);
        assert_eq!(bench.operate(OperationKind::Migrate, 0, 2), Outcome::Done);
        bench.pass(MINUTE);
        reopen(&mut bench);
        assert_eq!((with_tables(&bench), have_checksums(&bench)[2]), (1, true));
    }
}

#[test]
fn a_group_with_checksums_may_be_given_a_pool_without_them() {
    let settings = Settings { checksums: true, added_checksums: false, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    add(&mut bench);
    bench.pass(MINUTE);
    assert_eq!((have_checksums(&bench), with_tables(&bench)), (vec![true, true, false], 1));
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 2), Outcome::Done);
    bench.pass(MINUTE);
    reopen(&mut bench);
    assert_eq!(with_tables(&bench), 0);
    assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
}

#[test]
fn a_chunk_that_moved_to_an_added_pool_is_verified_there() {
    let mut bench = mixed();
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 2), Outcome::Done);
    bench.pass(MINUTE);
    let status = bench.group.checksum_status();
    assert_eq!((status.checksummed, status.unread), (1, 1), "it was hashed on the way");
    for restart in [false, true] {
        if restart {
            reopen(&mut bench);
        }
        rot(&mut bench, 2, 2);
        assert_eq!(bench.read(8192, 512), Err(RequestError::Io));
        assert_eq!(bench.read(0, 4096), Ok(vec![1; 4096]));
        rot(&mut bench, 2, 2);
    }
    bench.write(0, 7, 4096);
    bench.crash();
    assert!(bench.read(0, CHUNK as u32).is_ok(), "the checksums were voided durably before");
    bench.check();
}

#[test]
fn the_checksum_of_one_copy_speaks_for_the_copy_on_an_old_pool() {
    for (old, rotten) in [(0, 0), (0, 2), (1, 1), (1, 2)] {
        let mut bench = mixed();
        if old == 1 {
            assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Done);
        }
        assert_eq!(bench.operate(OperationKind::Replicate, 0, 2), Outcome::Done);
        bench.pass(MINUTE);
        reopen(&mut bench);
        assert_eq!((bench.pools_of(0), with_tables(&bench)), (vec![old, 2], 1));
        rot(&mut bench, rotten, 3);
        for _ in 0..8 {
            assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
        }
        scrub(&mut bench);
        assert_eq!(findings(&mut bench), [(FindingKind::Repaired, 3 * 4096, Some(rotten))]);
        assert_eq!(bench.pools_of(0), [old, 2], "no copy was dropped");
        assert_eq!((with_tables(&bench), bench.group.checksum_status().lost), (1, 0));
        bench.check();
    }
}

#[test]
fn an_added_pools_lost_table_is_written_again_and_no_old_pool_is_asked_for_one() {
    let mut bench = mixed();
    assert_eq!(add(&mut bench), 3);
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 2), Outcome::Done);
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 3), Outcome::Done);
    bench.pass(MINUTE);
    bench.flush();
    let copies = bench.group.locate(chunk()).expect("it exists").copies;
    for pool in [2, 3] {
        let copy = copies.iter().find(|copy| copy.place.pool == PoolId(pool)).expect("there");
        let at = bench.group.machines.state.pools.table_address(copy.place);
        let before = bench.disks[usize::from(pool)].peek(at, 512).expect("readable");
        bench.disks[usize::from(pool)].flip_bit(Bytes(at.0 + 44), 3);
        reopen(&mut bench);
        let reads = bench.group.pool_status(PoolId(0)).expect("it exists").counters.metadata_bytes;
        assert_eq!(bench.read(0, 4096), Ok(vec![1; 4096]));
        let after = bench.group.pool_status(PoolId(0)).expect("it exists").counters.metadata_bytes;
        scrub(&mut bench);
        assert_eq!(bench.disks[usize::from(pool)].peek(at, 512), Ok(before));
        assert_eq!((bench.group.scrub_status().tables_repaired, after - reads), (1, 0));
    }
}

#[test]
fn copies_on_old_pools_that_differ_are_told_and_moving_one_of_them_proves_nothing() {
    // What was hashed on the way was taken for what was written, and the other copy for rotten.
    for rotten in [0, 1] {
        let mut bench = old(&[4, 8]);
        assert_eq!(bench.operate(OperationKind::Replicate, 0, 1), Outcome::Done);
        bench.flush();
        rot(&mut bench, rotten, 2);
        add(&mut bench);
        assert_eq!(bench.operate(OperationKind::Migrate, 0, 2), Outcome::Done);
        bench.pass(MINUTE);
        assert_eq!(findings(&mut bench), [(FindingKind::Undecided, 8192, None)]);
        assert_eq!(with_tables(&bench), 0, "what nobody knows gets no checksums");
        assert_eq!(bench.group.scrub_status().repaired, 0);
        // Written anew, it is known.
        bench.write(8192, 5, 4096);
        bench.pass(MINUTE);
        assert_eq!(with_tables(&bench), 1);
        bench.check();
    }
}

#[test]
fn a_table_goes_with_the_last_copy_that_has_room_for_it() {
    for dies in [false, true] {
        let mut bench = mixed();
        assert_eq!(bench.operate(OperationKind::Replicate, 0, 2), Outcome::Done);
        bench.pass(MINUTE);
        assert_eq!(with_tables(&bench), 1);
        if dies {
            bench.disks[2].kill();
            bench.group.scrub(bench.now);
        } else {
            bench.group.drain_pool(bench.now, PoolId(2)).expect("others stay");
        }
        bench.pass(MINUTE);
        assert!(!bench.pools_of(0).contains(&2));
        assert_eq!(with_tables(&bench), 0);
        bench.check();
        // Nothing waits for a table, or is held against an old one.
        bench.write(0, 3, 4096);
        assert_eq!(bench.read(0, 8192), Ok([[3; 4096], [1; 4096]].concat()));
        bench.flush();
        bench.crash();
        assert_eq!(bench.read(0, 8192), Ok([[3; 4096], [1; 4096]].concat()));
        let lost = findings(&mut bench).iter().any(|f| f.0 == FindingKind::ChecksumsLost);
        assert!(!lost && bench.group.checksum_status().lost == 0);
    }
}

#[test]
fn a_group_whose_old_pools_are_replaced_one_by_one_has_checksums_throughout() {
    let mut bench = old(&[8, 8]);
    bench.write(CHUNK, 2, 3 * CHUNK as usize);
    assert_eq!(bench.operate(OperationKind::Migrate, 2, 1), Outcome::Done);
    for old in [0, 1] {
        add(&mut bench);
        bench.group.drain_pool(bench.now, PoolId(old)).expect("another one takes chunks");
        bench.pass(MINUTE);
        let state = bench.group.pool_status(PoolId(old)).expect("it exists").state;
        assert_eq!(state, PoolState::Drained);
        bench.group.remove_pool(bench.now, PoolId(old)).expect("it is empty");
        bench.pass(MINUTE);
    }
    assert_eq!(bench.group.chunks_with_checksums(), (4, 4));
    reopen(&mut bench);
    assert_eq!(have_checksums(&bench), [false, false, true, true]);
    assert_eq!(bench.group.chunks_with_checksums(), (4, 4));
    for index in 0..4 {
        let byte = if index == 0 { 1 } else { 2 };
        assert_eq!(bench.read(index * CHUNK, 4096), Ok(vec![byte; 4096]));
    }
    bench.check();
}

#[test]
fn an_added_pool_grows_with_tables_in_slots_and_an_old_one_without() {
    let mut bench = mixed();
    for pool in [1, 2] {
        let size = Bytes::from_mib(40);
        let id = PoolId(pool);
        let disk = &mut bench.disks[usize::from(pool)];
        let from = disk.geometry().size;
        disk.grow(size);
        bench.group.grow_pool(bench.now, id, size, from).expect("it grows");
        bench.run();
        let held = bench.group.machines.state.pools[id]
            .tables
            .count(bench.group.machines.state.pools[id].slots.total());
        assert_eq!(held > 0, pool == 2, "pool {pool} keeps {held} slots for tables");
    }
    bench.pass(MINUTE);
    reopen(&mut bench);
    assert_eq!(have_checksums(&bench), [false, false, true]);
    assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
}

#[test]
fn a_crash_at_any_request_of_the_change_over_leaves_the_chunk_and_a_group_that_opens() {
    let mut survived_both = [false; 2];
    for requests in 0..400 {
        let mut bench = old(&[8, 8]);
        let geometry = Geometry { size: Bytes::from_mib(8), discard_zeroes: true, far: false };
        let name = "new".to_string();
        let spec = PoolSpec { name, geometry, zeroed: true, reserve_chunks: 0 };
        bench.disks.push(SimDisk::new(geometry, 77, Faults::NONE));
        bench.group.add_pool(bench.now, spec).expect("it fits");
        if !bench.run_requests(requests) {
            crash_of_two_or_three(&mut bench);
            let joined = bench.group.pool_count() == 3;
            survived_both[usize::from(joined)] = true;
            assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
            assert_eq!(have_checksums(&bench).contains(&true), joined);
            continue;
        }
        break;
    }
    assert_eq!(survived_both, [true; 2], "crashes before and after the pool was a member");
}

/// Loses what is not durable, and opens the group with the disks that belong to it.
fn crash_of_two_or_three(bench: &mut Bench) {
    let third = bench.disks[2].peek_durable(Bytes(0), 8192).expect("readable").to_vec();
    if third.iter().all(|byte| *byte == 0) {
        bench.disks.pop();
    }
    bench.crash();
}
