//! Attacks on kept copies and fed moves, by somebody who had not written them (28 November 2026).

use super::feeding::{self, copied_out};
use super::kept::risen;
use super::operations::AllTo;
use super::{Bench, CHUNK, tactics};
use crate::settings::Limits;
use crate::{Action, Copying, Operation, OperationKind, RequestId, Settings};
use thermocline_ports::Payload;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

fn id(number: u64) -> RequestId {
    RequestId(1_000_000 + number)
}

fn write(bench: &mut Bench, number: u64, offset: u64, byte: u8, length: usize) {
    let payload = Payload::from(vec![byte; length]);
    let action = Action::Write { offset: Bytes(offset), payload, fua: false };
    bench.submit(id(number), action);
}

fn read(bench: &mut Bench, number: u64, offset: u64, length: u32) {
    bench.submit(id(number), Action::Read { offset: Bytes(offset), length });
}

fn copied_in(bench: &Bench) -> u64 {
    bench.status(1).counters.copied_in_bytes
}

/// Blocks 1 and 3..16 are at the destination; a piece over blocks 0..3 is on its way.
fn piece_over_what_is_there(shuffles: u64) -> Bench {
    let mut bench = feeding::bench(CHUNK);
    for _ in 0..shuffles {
        bench.read(40_960, 512).expect("readable"); // Other latencies of the disks.
        bench.read(CHUNK, 512).expect("readable");
        bench.flush();
    }
    read(&mut bench, 0, 40_960, 512);
    feeding::begin(&mut bench);
    write(&mut bench, 1, 4096, 5, 4096);
    write(&mut bench, 2, 12_288, 5, 53_248);
    while copied_out(&bench) == 0 {
        bench.step(1);
    }
    assert_eq!(copied_out(&bench), 3 * 4096, "a piece over blocks 0 to 2 is being read");
    bench
}

/// True until the piece is over; clients keep the source in use, so that no other begins.
fn piece_ends(bench: &mut Bench, id: &mut u64) {
    let under_way = |bench: &Bench| {
        bench.group.machines.state.operations.iter().any(|(_, copy)| copy.has_piece())
    };
    for round in 0.. {
        assert!(round < 1000, "the piece ends");
        for _ in 0..2 {
            *id += 1;
            read(bench, *id, 40_960, 512);
        }
        bench.group.take_replies(&mut bench.replies);
        let written = bench.replies.iter().any(|reply| reply.id == RequestId(1_000_003));
        if !under_way(bench) && written {
            return;
        }
        bench.step(1);
    }
}

/// A write to block 1 meets the piece: it goes to both places, and the piece over it, too.
#[test]
fn a_piece_that_goes_over_what_is_there_does_not_undo_a_write() {
    for shuffles in 0..20 {
        let mut bench = piece_over_what_is_there(shuffles);
        write(&mut bench, 3, 4096, 9, 4096);
        let mut id = 10;
        piece_ends(&mut bench, &mut id);
        assert_eq!(
            copied_in(&bench),
            3 * 4096,
            "the spoiled piece was written, no other has begun"
        );
        write(&mut bench, 4, 0, 7, 4096); // Block 0 is there now.
        bench.run();
        bench.pass(Nanos::from_secs(1));
        assert_eq!(bench.pools_of(0), [1]);
        let read = bench.read(0, CHUNK as u32).expect("readable");
        let blocks: Vec<u8> = read.chunks(4096).map(|block| block[0]).collect();
        assert_eq!(blocks, [7, 9, 1, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5], "{shuffles}");
    }
}

/// The same, read while the operation goes on: the destination is less busy than the source.
#[test]
fn a_read_of_what_is_there_does_not_see_a_piece_that_went_over_a_write() {
    for shuffles in 0..20 {
        let mut bench = piece_over_what_is_there(shuffles);
        write(&mut bench, 3, 4096, 9, 4096);
        let mut id = 10;
        piece_ends(&mut bench, &mut id);
        assert_eq!(bench.pools_of(0), [0], "the operation is under way");
        for _ in 0..40 {
            id += 1;
            read(&mut bench, id, 40_960, 512);
        }
        read(&mut bench, 777_777, 4096, 4096);
        bench.run();
        let wanted = RequestId(1_777_777);
        let reply = bench.replies.iter().find(|r| r.id == wanted).expect("answered");
        let read = reply.result.as_ref().expect("read");
        assert_eq!(read[0].payload.to_vec()[0], 9, "{shuffles}");
    }
}

/// One slot is wanted: one kept copy goes, not hundreds.
#[test]
fn no_more_kept_copies_go_than_room_is_wanted() {
    let mut bench = risen(&[16, 16], 150, &[], Bench::settings());
    assert_eq!(bench.status(1).kept, 150);
    let mut chunk = 150;
    loop {
        if bench.status(1).kept < 150 {
            break;
        }
        bench.write(chunk * CHUNK, 2, 4096);
        chunk += 1;
        bench.pass(Nanos(200_000_000));
    }
    bench.pass(Nanos(3_000_000_000));
    assert!(bench.status(1).kept >= 140, "{} are left", bench.status(1).kept);
}

/// A replica made of a kept copy comes to count as equal, as others do.
#[test]
fn a_replica_made_of_a_kept_copy_survives_a_crash_when_it_has_rested() {
    for kept in [false, true] {
        let mut bench = risen(&[8, 16], 1, &[], Bench::settings());
        if !kept {
            bench.write(0, 1, 4096);
            bench.pass(Nanos(2_000_000_000));
        }
        bench.operate(OperationKind::Replicate, 0, 1);
        assert_eq!(bench.pools_of(0), [0, 1]);
        bench.pass(Nanos::from_secs(60));
        bench.flush();
        bench.crash();
        assert_eq!(bench.pools_of(0), [0, 1], "kept: {kept}");
    }
}

/// First writes to many kept copies do not queue more than the journal takes.
#[test]
fn first_writes_to_kept_copies_wait_where_records_pile_up() {
    let limits = Limits { block_payload: 124, record: 64, volumes: 4, ..Limits::REAL };
    let mut bench = risen(&[64, 64], 700, &[], Settings { limits, ..Bench::settings() });
    assert!(bench.status(1).kept > 600);
    bench.flush();
    for chunk in 0..700 {
        write(&mut bench, chunk, chunk * CHUNK, 3, 4096);
        if chunk % 16 == 15 {
            bench.run();
        }
    }
    let left = bench.group.machines.state.journal.places_left().count();
    assert!(left < 100, "{left} records wait, where 8 blocks of 60 bytes are the bound");
    bench.run();
    bench.flush();
    bench.check();
    bench.crash();
}

/// A far copy would keep a chunk from its table of checksums: none is kept there.
#[test]
fn a_chunk_with_a_far_kept_copy_gets_its_table() {
    for keeps in [false, true] {
        let copying = Copying { rate_per_second: None, keeps, ..Copying::pieces_alone() };
        let settings = Settings {
            tactics: tactics(&["slowest-first"]),
            copying,
            checksums: true,
            ..Bench::settings()
        };
        let mut bench = Bench::with_far(&[8, 8], 1, 0, settings);
        bench.group.create_volume(Nanos(0), Bytes(40 * CHUNK)).expect("a volume");
        bench.write(0, 1, CHUNK as usize);
        bench.flush();
        if bench.pools_of(0) != [1] {
            bench.operate(OperationKind::Migrate, 0, 1);
        }
        bench.group.set_placement(Some(Box::new(AllTo(PoolId(0)))));
        let epoch = bench.settings.epoch;
        bench.pass(Nanos(epoch.0 + 5_000_000_000));
        bench.group.set_placement(None);
        bench.pass(Nanos::from_secs(120));
        assert_eq!(bench.group.chunks_with_checksums(), (1, 1), "keeps: {keeps}");
    }
}

/// A drain of a near pool does not send its chunks across a network unless it is told to.
#[test]
fn a_near_drain_leaves_no_chunk_on_a_far_pool_alone() {
    for keeps in [false, true] {
        let copying = Copying { rate_per_second: None, keeps, ..Copying::pieces_alone() };
        let settings = Settings { copying, ..Bench::settings() };
        let mut bench = Bench::with_far(&[8, 8, 8], 2, 0, settings);
        bench.group.create_volume(Nanos(0), Bytes(40 * CHUNK)).expect("a volume");
        bench.write(0, 1, CHUNK as usize);
        bench.flush();
        bench.operate(OperationKind::Migrate, 0, 2);
        bench.group.set_placement(Some(Box::new(AllTo(PoolId(0)))));
        let epoch = bench.settings.epoch;
        bench.pass(Nanos(epoch.0 + 5_000_000_000));
        bench.group.set_placement(None);
        bench.group.drain_pool(bench.now(), PoolId(0)).expect("drains");
        bench.pass(Nanos::from_secs(60));
        assert_eq!(bench.pools_of(0), [1], "keeps: {keeps}");
    }
}

/// A read that fails on the fast pool does not make a chunk a replicated one.
#[test]
fn a_failed_read_beside_a_kept_copy_leaves_no_replica() {
    let mut bench = risen(&[8, 16], 1, &[], Bench::settings());
    assert_eq!(bench.pools_of(0), [0, 1]);
    bench.disks[0].fail_nth(1);
    assert!(bench.read(0, 4096).is_ok(), "the kept copy serves it");
    bench.pass(Nanos::from_secs(20));
    let chunk = ChunkId { volume: VolumeId(0), index: 0 };
    let copies = bench.group.locate(chunk).expect("there").copies;
    assert!(copies.iter().filter(|copy| !copy.gives_way()).count() == 1, "{copies:?}");
}

/// The list of kept copies does not grow with every move.
#[test]
fn the_list_of_kept_copies_is_bounded_by_what_is_kept() {
    let mut bench = risen(&[8, 16], 1, &[], Bench::settings());
    let state = &mut bench.group.machines;
    let chunk = ChunkId { volume: VolumeId(0), index: 0 };
    // Each of these is what one more move up leaves: the chunk went down and up meanwhile.
    for _ in 0..100_000 {
        state.kept.add(&state.state, chunk, PoolId(1));
    }
    assert!(state.kept.len() <= 2048, "{} entries of one copy", state.kept.len());
}

/// An operation ends although clients write all the time to a block that it has brought already.
#[test]
fn writes_to_what_is_there_do_not_keep_a_piece_from_beginning() {
    let copying = Copying {
        rate_per_second: None,
        yield_above: Some(0),
        patience: Nanos(5_000_000),
        feeds: true,
        piece: Some(Bytes(CHUNK)),
        ..Copying::pieces_alone()
    };
    let mut bench = Bench::with_settings(&[8, 8], 0, Settings { copying, ..Bench::settings() });
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.flush();
    read(&mut bench, 0, 40_960, 512);
    let chunk = ChunkId { volume: VolumeId(0), index: 0 };
    let operation = Operation { kind: OperationKind::Migrate, chunk, to: PoolId(1) };
    bench.group.start(bench.now(), operation).expect("accepted");
    // Blocks 1 and 3..16 are brought; then block 1 is written all the time, by two requests of
    // which one waits for the other.
    write(&mut bench, 1, 12_288, 5, 53_248);
    write(&mut bench, 2, 4096, 5, 4096);
    write(&mut bench, 3, 4096, 5, 4096);
    let (mut id, mut done) = (3, 2);
    let end = Nanos(bench.now().0 + 20_000_000_000);
    while bench.now() < end && bench.group.pool_of(chunk) == Some(PoolId(0)) {
        bench.step(1);
        bench.group.take_replies(&mut bench.replies);
        while done < bench.replies.len() {
            done += 1;
            id += 1;
            write(&mut bench, id, 4096, 5, 4096);
        }
        let now = bench.now();
        if bench.group.next_tick().is_some_and(|at| at <= now) {
            bench.group.tick(now);
        }
    }
    assert_eq!(bench.group.pool_of(chunk), Some(PoolId(1)), "the operation ends within 20 s");
}

/// Kept copies leave the reserve to hints.
#[test]
fn kept_copies_do_not_take_the_reserve_of_hints() {
    use thermocline_ports::Geometry;
    use thermocline_ports::faulty::{Faults, SimDisk};
    let copying = Copying { rate_per_second: None, keeps: true, ..Copying::pieces_alone() };
    let settings = Settings { tactics: tactics(&["slowest-first"]), copying, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[8, 16], 4, settings);
    // A faster pool joins: pool 0, which has the reserve, is in the middle.
    let geometry = Geometry { size: Bytes::from_mib(8), discard_zeroes: true, far: false };
    bench.disks.push(SimDisk::new(geometry, 77, Faults::NONE));
    let spec = crate::PoolSpec { name: "new".into(), geometry, zeroed: true, reserve_chunks: 0 };
    let added = bench.group.add_pool_before(bench.now(), spec, Some(PoolId(0)));
    bench.run();
    added.expect("it fits");
    bench.group.create_volume(Nanos(0), Bytes(64 * CHUNK)).expect("a volume");
    (0..6).for_each(|chunk| bench.write(chunk * CHUNK, 1, 4096));
    (0..5).for_each(|chunk| {
        bench.operate(OperationKind::Migrate, chunk, 0);
    });
    bench.group.pin(bench.now(), ChunkId { volume: VolumeId(0), index: 5 }, true).expect("pinned");
    bench.group.set_placement(Some(Box::new(AllTo(PoolId(0)))));
    let epoch = bench.settings.epoch;
    bench.pass(Nanos(epoch.0 + 5_000_000_000));
    bench.group.set_placement(None);
    let chunk = ChunkId { volume: VolumeId(0), index: 5 };
    let operation = Operation { kind: OperationKind::Prefetch, chunk, to: PoolId(0) };
    let now = bench.now();
    assert!(bench.group.start(now, operation).is_ok(), "{:?}", bench.group.start(now, operation));
}

/// A group at rest comes to rest.
#[test]
fn kept_copies_do_not_keep_a_group_awake() {
    for prefetched in [0, 2] {
        let mut bench = risen(&[4, 16], 100, &[2], Bench::settings());
        let slow = (0..100u32).filter(|&chunk| bench.pools_of(chunk) == [1]).collect::<Vec<_>>();
        for &chunk in &slow[..prefetched] {
            bench.operate(OperationKind::Prefetch, chunk, 0);
        }
        bench.flush();
        bench.pass(Nanos::from_secs(60));
        let end = Nanos(bench.now().0 + 60_000_000_000);
        let mut ticks = 0;
        while let Some(at) = bench.group.next_tick().filter(|at| *at <= end) {
            bench.now = bench.now.max(at);
            bench.group.tick(bench.now);
            bench.run();
            ticks += 1;
        }
        assert!(ticks < 10, "{ticks} ticks");
    }
}

/// Without feeding, the same writes and pieces lose nothing: control of the first test.
#[test]
fn hint_prefetches_outlive_kept_copies() {
    let mut bench = risen(&[4, 8], 100, &[2], Bench::settings());
    let slow = (0..100u32).filter(|&chunk| bench.pools_of(chunk) == [1]).collect::<Vec<_>>();
    for &chunk in &slow[..2] {
        bench.operate(OperationKind::Prefetch, chunk, 0);
    }
    assert_eq!(bench.status(0).prefetched, 2);
    // New chunks at once, until a kept or prefetched copy must go.
    let mut next = 100;
    let before = (bench.status(0).prefetched, bench.status(1).kept);
    while bench.status(1).kept == before.1 && bench.status(0).prefetched == 2 && next < 400 {
        write(&mut bench, next, next * CHUNK, 2, 4096);
        bench.run();
        next += 1;
    }
    assert_eq!(bench.status(0).prefetched, 2);
}

/// The list grew with every round trip of one chunk.
#[test]
fn round_trips_of_a_chunk_leave_one_entry() {
    let mut bench = risen(&[8, 16], 1, &[], Bench::settings());
    for _ in 0..20 {
        bench.operate(OperationKind::Migrate, 0, 1);
        bench.group.set_placement(Some(Box::new(AllTo(PoolId(0)))));
        let epoch = bench.settings.epoch;
        bench.pass(Nanos(epoch.0 + 5_000_000_000));
        bench.group.set_placement(None);
        assert_eq!(bench.pools_of(0), [0, 1]);
    }
    assert_eq!(bench.group.machines.kept.len(), 1);
}
