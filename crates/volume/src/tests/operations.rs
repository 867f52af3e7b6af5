//! The four operations, without faults.

use super::{Bench, CHUNK, tactics};
use crate::Copying;
use crate::{Operation, OperationKind, Outcome, Refusal, Settings};
use thermocline_policy::Footprint;
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
use thermocline_ports::faulty::{Background, Faults};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

fn bench() -> Bench {
    let mut bench = Bench::new(&[4, 8, 8]);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.write(0, 2, 4096);
    bench.flush();
    bench
}

fn holds_the_data(bench: &mut Bench) {
    let read = bench.read(0, CHUNK as u32).expect("readable");
    assert!(read[..4096].iter().all(|&byte| byte == 2));
    assert!(read[4096..].iter().all(|&byte| byte == 1));
    bench.check();
}

#[test]
fn a_migrated_chunk_lives_on_the_other_pool_alone_also_after_a_crash() {
    let mut bench = bench();
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Done);
    assert_eq!(bench.pools_of(0), [1]);
    holds_the_data(&mut bench);
    bench.crash();
    assert_eq!(bench.pools_of(0), [1]);
    holds_the_data(&mut bench);
}

#[test]
fn a_replica_takes_writes_and_survives_the_death_of_the_original() {
    let mut bench = bench();
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 2), Outcome::Done);
    assert_eq!(bench.pools_of(0), [0, 2]);
    bench.write(0, 2, 4096);
    bench.flush();
    bench.disks[0].kill();
    holds_the_data(&mut bench);
    bench.pass(Nanos::from_secs(5));
    assert!(!bench.pools_of(0).contains(&0), "the dead pool's copy is dropped");
}

#[test]
fn a_redirected_chunk_is_whole_at_its_new_place() {
    let mut bench = bench();
    assert_eq!(bench.operate(OperationKind::Redirect, 0, 2), Outcome::Done);
    assert_eq!(bench.pools_of(0), [2]);
    holds_the_data(&mut bench);
    bench.crash();
    holds_the_data(&mut bench);
}

#[test]
fn replicas_that_may_differ_after_a_crash_are_made_anew() {
    let mut bench = bench();
    bench.operate(OperationKind::Replicate, 0, 1);
    bench.write(0, 2, 4096);
    bench.crash();
    assert_eq!(bench.pools_of(0), [0]);
    bench.pass(Nanos::from_secs(5));
    assert_eq!(bench.pools_of(0), [0, 1]);
    holds_the_data(&mut bench);
}

#[test]
fn a_drained_pool_is_empty_and_can_be_removed() {
    use crate::PoolState;
    use thermocline_units::PoolId;
    let mut bench = bench();
    bench.group.drain_pool(Nanos(0), PoolId(0)).expect("others take its chunks");
    bench.pass(Nanos::from_secs(10));
    let state = |bench: &Bench| bench.group.pool_status(PoolId(0)).expect("it exists").state;
    assert_eq!(state(&bench), PoolState::Drained);
    bench.group.remove_pool(Nanos(0), PoolId(0)).expect("it is drained");
    bench.pass(Nanos::from_secs(10));
    assert_eq!(state(&bench), PoolState::Removed);
    holds_the_data(&mut bench);
    bench.crash();
    holds_the_data(&mut bench);
}

#[test]
fn a_scrub_repairs_a_copy_that_two_others_outvote() {
    use thermocline_units::{ChunkId, VolumeId};
    let mut bench = bench();
    bench.operate(OperationKind::Replicate, 0, 1);
    bench.operate(OperationKind::Replicate, 0, 2);
    bench.flush();
    let chunk = ChunkId { volume: VolumeId(0), index: 0 };
    let status = bench.group.locate(chunk).expect("it exists");
    // The first copy rots; the two others outvote it.
    let place = status.copies[0].place;
    let first_slot = (0..64).map(|at| Bytes(at * CHUNK)).find(|&at| {
        let found = bench.disks[0].peek(at, CHUNK as u32).expect("readable").to_vec();
        found[..4096].iter().all(|&b| b == 2) && found[4096..].iter().all(|&b| b == 1)
    });
    assert_eq!(place.pool.0, 0);
    bench.disks[0].flip_bit(Bytes(first_slot.expect("the copy is there").0 + 9000), 3);
    bench.group.scrub(Nanos(0));
    bench.pass(Nanos::from_secs(10));
    let status = bench.group.scrub_status();
    assert_eq!((status.running, status.repaired, status.dropped), (false, 1, 0));
    assert_eq!(bench.pools_of(0).len(), 3);
    holds_the_data(&mut bench);
}

#[test]
fn a_prefetched_copy_serves_reads_and_goes_away_when_space_runs_short() {
    let mut bench = Bench::with_reserve(&[2, 4], 4);
    bench.group.create_volume(Nanos(0), Bytes(200 * CHUNK)).expect("a volume");
    let slots = |bench: &Bench, pool| {
        let status = bench.group.pool_status(thermocline_units::PoolId(pool));
        status.expect("it exists").slots_total as u64
    };
    let (fast, slow) = (slots(&bench, 0), slots(&bench, 1));
    for chunk in 0..fast - 4 + 1 {
        bench.write(chunk * CHUNK, chunk as u8 + 1, 512);
    }
    // The last chunk went to the slow pool, because four slots of the fast one are kept.
    let last = (fast - 4) as u32;
    assert_eq!(bench.pools_of(last), [1]);
    assert_eq!(bench.operate(OperationKind::Prefetch, last, 0), Outcome::Done);
    assert_eq!(bench.pools_of(last), [1, 0]);
    for chunk in fast - 4 + 1..fast + slow {
        bench.write(chunk * CHUNK, chunk as u8 + 1, 512);
    }
    assert_eq!(bench.pools_of(last), [1], "the reserve was given up");
    for chunk in 0..fast + slow {
        assert_eq!(bench.read(chunk * CHUNK, 512), Ok(vec![chunk as u8 + 1; 512]));
    }
    bench.check();
}

/// Wants every chunk on one pool.
pub(super) struct AllTo(pub(super) PoolId);

impl Placement for AllTo {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        for pool in (0..view.pool_count()).map(PoolId).filter(|&pool| pool != self.0) {
            view.visit_pool(pool, &mut |chunk| moves.push(Move::to(chunk, self.0)));
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

#[test]
fn a_pinned_chunk_is_left_alone_by_placements_also_after_a_crash_and_not_by_name() {
    let mut bench = bench();
    let chunk = |index| ChunkId { volume: VolumeId(0), index };
    bench.write(0, 1, CHUNK as usize);
    bench.write(CHUNK, 2, CHUNK as usize);
    assert_eq!(bench.group.pin(bench.now, chunk(2), true), Err(Refusal::Unmapped));
    bench.group.pin(bench.now, chunk(0), true).unwrap();
    bench.flush();
    bench.crash();
    bench.group.set_placement(Some(Box::new(AllTo(PoolId(1)))));
    let two_epochs = Nanos(2 * bench.settings.epoch.0);
    bench.pass(two_epochs);
    let pools = [0, 1].map(|index| bench.group.pool_of(chunk(index)));
    assert_eq!(pools, [Some(PoolId(0)), Some(PoolId(1))]);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Done);
    assert!(bench.group.locate(chunk(0)).unwrap().pinned);
    bench.check();
}

/// A bench with 2 chunks of data on pool 1, which a placement wants on pool 0.
fn wanted_up(copying: Copying, texts: &[&str]) -> Bench {
    let settings = Settings { tactics: tactics(texts), copying, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.write(CHUNK, 2, CHUNK as usize);
    bench.flush();
    bench.group.set_placement(Some(Box::new(AllTo(PoolId(0)))));
    bench
}

/// A chunk on the slow pool with a prefetched copy on the fast one.
fn prefetched() -> Bench {
    let mut bench = Bench::with_reserve(&[8, 8], 2);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.write(0, 2, 4096);
    bench.flush();
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Done);
    assert_eq!(bench.operate(OperationKind::Prefetch, 0, 0), Outcome::Done);
    assert_eq!(bench.pools_of(0), [1, 0]);
    bench
}

fn prefetched_on(bench: &Bench, pool: u16) -> u32 {
    bench.group.pool_status(PoolId(pool)).expect("it exists").prefetched
}

#[test]
fn a_chunk_moves_to_its_prefetched_copy_without_being_copied() {
    let mut bench = prefetched();
    let copied = |bench: &Bench| {
        let status = bench.group.pool_status(PoolId(1)).expect("it exists");
        status.counters.copied_out_bytes
    };
    let before = copied(&bench);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 0), Outcome::Done);
    assert_eq!((bench.pools_of(0), copied(&bench)), (vec![0], before));
    assert_eq!(prefetched_on(&bench, 0), 0);
    bench.flush();
    bench.crash();
    assert_eq!(bench.pools_of(0), [0]);
    assert_eq!(prefetched_on(&bench, 0), 0);
    holds_the_data(&mut bench);
}

#[test]
fn a_replica_where_a_prefetched_copy_is_stays() {
    let mut bench = prefetched();
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 0), Outcome::Done);
    assert_eq!((bench.pools_of(0), prefetched_on(&bench, 0)), (vec![1, 0], 0));
    let again = Operation {
        kind: OperationKind::Replicate,
        chunk: ChunkId { volume: VolumeId(0), index: 0 },
        to: PoolId(0),
    };
    assert_eq!(bench.group.start(Nanos(0), again), Err(Refusal::AlreadyThere));
    bench.flush();
    bench.crash();
    assert_eq!(prefetched_on(&bench, 0), 0);
    holds_the_data(&mut bench);
}

/// Each commit flushes the pools, and clients' requests wait behind that: moves that end at about
/// the same time share one.
#[test]
fn moves_share_the_flushes_of_their_commits() {
    const CHUNKS: u32 = 32;
    let copying = Copying { rate_per_second: None, ..Copying::pieces_alone() };
    let mut bench = Bench::with_settings(&[48, 48], 0, Settings { copying, ..Bench::settings() });
    bench.group.create_volume(Nanos(0), Bytes(u64::from(CHUNKS) * CHUNK)).expect("a volume");
    (0..u64::from(CHUNKS)).for_each(|chunk| bench.write(chunk * CHUNK, 1, CHUNK as usize));
    bench.flush();
    let flushes =
        |bench: &Bench| bench.group.pool_status(PoolId(1)).expect("it exists").counters.flushes;
    let before = flushes(&bench);
    for index in 0..CHUNKS {
        let chunk = ChunkId { volume: VolumeId(0), index };
        let operation = Operation { kind: OperationKind::Migrate, chunk, to: PoolId(1) };
        bench.group.start(bench.now(), operation).expect("accepted");
    }
    bench.pass(Nanos::from_secs(5));
    assert!((0..CHUNKS).all(|chunk| bench.pools_of(chunk) == [1]));
    let flushed = flushes(&bench) - before;
    assert!(flushed <= u64::from(CHUNKS) / 8, "{flushed} flushes for {CHUNKS} moves");
    bench.check();
}

#[test]
fn a_proposed_move_that_has_not_begun_by_its_deadline_is_dropped() {
    let rate_per_second = Some(Bytes(CHUNK / 8));
    let (deadline, piece) = (Some(Nanos::from_secs(1)), Some(Bytes::from_kib(4)));
    for (deadline, expired) in [(None, 0), (deadline, 1)] {
        let copying =
            Copying { rate_per_second, piece, concurrent: 1, deadline, ..Copying::pieces_alone() };
        let mut bench = wanted_up(copying, &["slowest-first"]);
        let epoch = bench.settings.epoch;
        bench.pass(Nanos(epoch.0 + 30_000_000_000));
        assert_eq!(bench.group.moves_dropped().expired, expired);
        assert_eq!(bench.pools_of(0), [0], "it had begun");
        assert_eq!(bench.pools_of(1), [if expired == 1 { 1 } else { 0 }]);
    }
}

#[test]
fn a_chunk_whose_first_part_is_slower_at_the_faster_pool_stays() {
    for (slow, stays) in [(0, true), (1, false)] {
        let piece = Some(Bytes::from_kib(16));
        let copying = Copying { rate_per_second: None, piece, ..Copying::pieces_alone() };
        let mut bench = wanted_up(copying, &["slowest-first", "first-part:share=50"]);
        let background = if slow == 0 { Background::Garbage } else { Background::Zeroes };
        let latency_mean = Nanos::from_micros(5_000);
        bench.disks[slow].set_faults(Faults { background, latency_mean, ..Faults::NONE });
        let epoch = bench.settings.epoch;
        bench.pass(Nanos(epoch.0 + 1_000_000));
        assert_eq!(bench.pools_of(0), [1], "it is tried");
        for at in (0..CHUNK).step_by(4096).cycle().take(64) {
            bench.read(at, 4096).expect("readable");
        }
        bench.pass(Nanos::from_secs(2));
        assert_eq!(bench.pools_of(0), [if stays { 1 } else { 0 }]);
        assert_eq!(bench.group.moves_dropped().slower, u64::from(stays));
        bench.check();
    }
}

/// Two pools of one name: commands that name a pool reached the first of them only.
#[test]
fn a_pool_does_not_join_under_a_name_that_is_taken_or_is_none() {
    use crate::{AdminError, CreateError, PoolSpec};
    use thermocline_ports::Geometry;
    let mut bench = bench();
    let mut joins = |name: &str| {
        let geometry = Geometry { size: Bytes(64 * CHUNK), discard_zeroes: true, far: false };
        let name = name.to_string();
        bench.group.check_pool(&PoolSpec { name, geometry, zeroed: true, reserve_chunks: 0 })
    };
    assert!(joins("new").is_ok());
    let taken = CreateError::NameTaken("pool0".to_string());
    assert_eq!(joins("pool0"), Err(AdminError::Pool(taken)));
    for name in ["", "a/b", "a\"b", "two\nlines", "seventeen bytes!!"] {
        let wrong = CreateError::Name(name.to_string());
        assert_eq!(joins(name), Err(AdminError::Pool(wrong)));
    }
}
