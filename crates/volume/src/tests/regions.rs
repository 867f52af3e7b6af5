//! Regions that the journal expects writes to: what opens them, what they save, and what a crash
//! leaves of them.

use super::{Bench, CHUNK};
use crate::pools::layout::journal_offset;
use crate::settings::Limits;
use crate::{Group, OpenError, Service, Settings};
use thermocline_ports::Device;
use thermocline_ports::faulty::Survival;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Rng, VolumeId};

const CHUNKS: u64 = 12;
const MINUTE: Nanos = Nanos::from_secs(60);

/// A volume of chunks at rest, all with tables.
fn at_rest(limits: Limits) -> Bench {
    let settings = Settings { checksums: true, limits, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(CHUNKS * CHUNK)).expect("a volume");
    (0..CHUNKS).for_each(|chunk| bench.write(chunk * CHUNK, 1, CHUNK as usize));
    bench.flush();
    bench.pass(MINUTE);
    assert_eq!(bench.group.chunks_with_checksums(), (CHUNKS, CHUNKS));
    bench
}

fn metadata_bytes(bench: &Bench) -> u64 {
    bench.group.pool_status(PoolId(0)).expect("it exists").counters.metadata_bytes
}

fn flushes(bench: &Bench) -> u64 {
    bench.group.pool_status(PoolId(0)).expect("it exists").counters.flushes
}

/// Writes a block of each chunk, one after the other.
fn scatter(bench: &mut Bench, byte: u8) {
    (0..CHUNKS).for_each(|chunk| bench.write(chunk * CHUNK + 4096, byte, 4096));
}

#[test]
fn writes_scattered_over_data_at_rest_cost_one_commit_and_no_flush() {
    let mut bench = at_rest(Limits::REAL);
    let (written, flushed) = (metadata_bytes(&bench), flushes(&bench));
    scatter(&mut bench, 2);
    assert_eq!(metadata_bytes(&bench) - written, 4096, "one block of the journal");
    assert_eq!(flushes(&bench), flushed);
    // The regions of a group may be smaller.
    let mut bench = at_rest(Limits { region_chunks: 4, ..Limits::REAL });
    let written = metadata_bytes(&bench);
    scatter(&mut bench, 2);
    assert_eq!(metadata_bytes(&bench) - written, 2 * 4096, "the third is opened with the second");
    // Where no more may be open, each chunk speaks for itself.
    let mut bench = at_rest(Limits { region_chunks: 4, regions_open: 1, ..Limits::REAL });
    let written = metadata_bytes(&bench);
    scatter(&mut bench, 2);
    assert_eq!(metadata_bytes(&bench) - written, (1 + 8) * 4096);
    bench.check();
}

#[test]
fn writes_in_order_open_more_regions_at_a_time() {
    let mut bench = at_rest(Limits { region_chunks: 1, ..Limits::REAL });
    let commits = |bench: &Bench| bench.group.machines.state.journal.written();
    let before = commits(&bench);
    scatter(&mut bench, 2);
    // The first, then one and one ahead, then one and three ahead, then one and all the rest.
    assert_eq!(commits(&bench) - before, 4);
    bench.check();
}

#[test]
fn a_crash_takes_the_tables_of_an_open_region_and_calls_nothing_rotten() {
    let mut bench = at_rest(Limits { region_chunks: 4, ..Limits::REAL });
    bench.write(4096, 2, 4096);
    bench.write(CHUNK + 4096, 3, 4096);
    bench.crash();
    assert_eq!(bench.group.chunks_with_checksums(), (CHUNKS - 4, CHUNKS));
    for chunk in 0..CHUNKS {
        assert!(bench.read(chunk * CHUNK, CHUNK as u32).is_ok(), "chunk {chunk}");
    }
    bench.pass(MINUTE);
    assert_eq!(bench.group.chunks_with_checksums(), (CHUNKS, CHUNKS), "they are made again");
    bench.check();
}

#[test]
fn reads_of_an_open_region_are_verified() {
    let mut bench = at_rest(Limits::REAL);
    bench.write(4096, 2, 4096);
    let chunk = ChunkId { volume: VolumeId(0), index: 5 };
    let place = bench.group.locate(chunk).expect("it exists").copies[0].place;
    let at = bench.group.machines.state.pools[place.pool].address(place, 8192, CHUNK as u32);
    bench.disks[0].flip_bit(at, 3);
    assert!(bench.read(5 * CHUNK + 8192, 512).is_err(), "rot is not data");
    // Nor does a write beside it make it so.
    bench.write(5 * CHUNK, 4, 4096);
    bench.pass(MINUTE);
    assert!(bench.read(5 * CHUNK + 8192, 512).is_err());
    assert_eq!(bench.read(5 * CHUNK, 512), Ok(vec![4; 512]));
}

#[test]
fn a_region_at_rest_is_closed_and_only_what_was_written_gets_another_table() {
    let mut bench = at_rest(Limits::REAL);
    let (checksummed, read) =
        (bench.group.checksum_status().checksummed, bench.group.scrub_status().read);
    bench.write(4096, 2, 4096);
    bench.write(CHUNK, 3, 4096);
    bench.pass(MINUTE);
    assert_eq!(bench.group.checksum_status().checksummed - checksummed, 2);
    assert_eq!(bench.group.scrub_status().read, read, "what was not written is not read");
    bench.crash();
    assert_eq!(bench.group.chunks_with_checksums(), (CHUNKS, CHUNKS));
    bench.check();
}

#[test]
fn a_region_stays_open_while_chunks_of_it_are_written_in_turn() {
    let mut bench = at_rest(Limits::REAL);
    scatter(&mut bench, 2);
    let journal = |bench: &Bench, before: u64, tables: u64| {
        let table = crate::pools::layout::table_bytes(CHUNK as u32);
        metadata_bytes(bench) - before - tables * table
    };
    bench.pass(Nanos::from_secs(5));
    let (written, checksummed) =
        (metadata_bytes(&bench), bench.group.checksum_status().checksummed);
    // Each chunk rests for 96 seconds, the region for eight.
    for round in 0..24 {
        bench.write(round % CHUNKS * CHUNK, 3, 4096);
        bench.pass(Nanos::from_secs(8));
    }
    let tables = bench.group.checksum_status().checksummed - checksummed;
    assert!(tables >= 12, "{tables} chunks came to rest");
    assert_eq!(journal(&bench, written, tables), 0, "the journal was told of none of it");
    bench.check();
}

#[test]
fn a_stop_in_order_closes_regions() {
    for limits in [Limits::REAL, Limits { region_chunks: 4, ..Limits::REAL }] {
        let mut bench = at_rest(limits);
        bench.write(2 * CHUNK, 4, 4096);
        bench.group.close(bench.now);
        bench.run();
        assert_eq!(*bench.group.service(), Service::Closed);
        bench.crash();
        assert_eq!(bench.group.chunks_with_checksums(), (CHUNKS - 1, CHUNKS));
        bench.check();
    }
}

/// A region stayed open for as long as somebody read from it once an epoch.
#[test]
fn reads_do_not_keep_a_region_open() {
    let mut bench = at_rest(Limits::REAL);
    let now = bench.now;
    bench.group.set_epoch(now, Nanos::from_secs(1));
    bench.write(4096, 2, 4096);
    for round in 0..40 {
        assert!(bench.read(round % CHUNKS * CHUNK, 512).is_ok());
        bench.pass(Nanos::from_secs(1));
    }
    bench.crash();
    assert_eq!(bench.group.chunks_with_checksums(), (CHUNKS, CHUNKS));
}

/// Those for whose records there was no room waited ten seconds more, again and again.
#[test]
fn regions_that_rest_are_closed_one_after_the_other_whatever_the_room_in_the_journal() {
    let limits = Limits {
        block_payload: 160,
        record: 64,
        commit_blocks: 4,
        volumes: 64,
        volume_name: 8,
        region_chunks: 2,
        ..Limits::REAL
    };
    let mut bench = at_rest(limits);
    scatter(&mut bench, 2);
    bench.pass(Nanos::from_secs(35));
    bench.crash();
    assert_eq!(bench.group.chunks_with_checksums(), (CHUNKS, CHUNKS));
    bench.check();
}

/// Writes without an announcement of their own looked like rot when the record that had
/// opened the region was lost.
#[test]
fn a_damaged_group_without_the_record_that_opened_a_region_calls_nothing_rotten() {
    let mut bench = at_rest(Limits::REAL);
    let opening = bench.group.machines.state.journal.written();
    bench.write(4096, 2, 4096);
    bench.write(CHUNK + 4096, 3, 4096);
    bench.group.create_volume(bench.now, Bytes(CHUNK)).expect("a later commit");
    bench.flush();
    bench.disks[0].crash(&mut Rng::seeded(5), Survival::Lost);
    let block = journal_offset(opening % u64::from(bench.settings.journal_blocks)).0;
    for (byte, bit) in [(40, 3), (41, 5)] {
        bench.disks[0].flip_bit(Bytes(block + byte), bit);
    }
    let devices = [Some(bench.disks[0].geometry())];
    bench.group = Group::open_damaged(bench.settings.clone(), &devices);
    bench.run();
    let salvage = bench.group.salvage().expect("opened as damaged");
    assert_eq!(salvage.journal_blocks, [opening]);
    assert_eq!(bench.read(4096, 512), Ok(vec![2; 512]));
    assert_eq!(bench.read(CHUNK + 4096, 512), Ok(vec![3; 512]));
    bench.check();
}

/// The commit that opened a region was the last one for as long as writes went on, and damage to
/// the last one passes for a torn write: what had been flushed since looked rotten.
#[test]
fn damage_to_the_commit_that_opened_a_region_is_refused_a_second_later() {
    let mut bench = at_rest(Limits::REAL);
    let opening = bench.group.machines.state.journal.written();
    bench.write(4096, 2, 4096);
    bench.write(CHUNK + 4096, 3, 4096);
    bench.flush();
    bench.pass(Nanos::from_secs(2));
    bench.disks[0].crash(&mut Rng::seeded(5), Survival::Lost);
    let block = journal_offset(opening % u64::from(bench.settings.journal_blocks)).0;
    bench.disks[0].flip_bit(Bytes(block + 40), 3);
    let devices = [Some(bench.disks[0].geometry())];
    bench.group = Group::open(bench.settings.clone(), &devices);
    bench.run();
    let refused = |service: &Service| matches!(service, Service::Failed(OpenError::Journal { .. }));
    assert!(refused(bench.group.service()), "{:?}", bench.group.service());
}

/// Each second of writes had a flush, because some chunk was always being watched.
#[test]
fn the_clock_flushes_nothing_that_only_clients_wrote() {
    let mut bench = at_rest(Limits::REAL);
    scatter(&mut bench, 2);
    bench.pass(Nanos::from_secs(3));
    let flushed = flushes(&bench);
    for round in 0..5 {
        scatter(&mut bench, round);
        bench.pass(Nanos::from_secs(1));
    }
    assert_eq!(flushes(&bench), flushed);
}
