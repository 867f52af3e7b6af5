//! Pools across a network: what they are not chosen for, and how chunks go there and come back.

use super::{Bench, CHUNK, tactics};
use crate::{Operation, OperationKind, Outcome, PoolState, Refusal, Settings};
use thermocline_policy::hints::store::Hint;
use thermocline_policy::hints::{Facts, Level, Usage, Wishes};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const SECOND: Nanos = Nanos(1_000_000_000);

/// Two pools here and one far away; new chunks go to the slowest that they may.
fn bench() -> Bench {
    let settings =
        Settings { tactics: tactics(&["slowest-first"]), epoch: SECOND, ..Bench::settings() };
    let mut bench = Bench::with_far(&[4, 8, 64], 2, 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(200 * CHUNK)).expect("a volume");
    bench
}

fn operation(kind: OperationKind, chunk: u32, to: u16) -> Operation {
    Operation { kind, chunk: ChunkId { volume: VolumeId(0), index: chunk }, to: PoolId(to) }
}

#[test]
fn journal_and_checkpoints_stay_off_a_far_pool_where_two_others_can_have_them() {
    let replicas = |sizes: &[u64], near: usize| {
        Bench::with_far(sizes, near, 0, Bench::settings()).group.machines.state.elect_replicas()
    };
    assert_eq!(replicas(&[16, 16, 64], 3), [PoolId(0), PoolId(1)]);
    let mut bench = Bench::with_far(&[16, 16, 64], 1, 0, Bench::settings());
    bench.group.machines.state.pools[PoolId(2)].geometry.far = false;
    assert_eq!(bench.group.machines.state.elect_replicas(), [PoolId(0), PoolId(2)], "however fast");
    assert_eq!(replicas(&[16, 64], 1), [PoolId(0), PoolId(1)], "better far than once");
}

#[test]
fn a_first_write_goes_far_away_only_where_nothing_else_has_room() {
    let mut bench = bench();
    let facts = Facts { usage: Usage::Archival, ..Facts::default() };
    let hint = Hint {
        source: "t",
        level: Level::Range,
        volume: Some(VolumeId(0)),
        range: (0, CHUNK),
        facts: &facts,
        wishes: Wishes::default(),
        until: None,
    };
    bench.group.hint(Nanos(0), &hint).expect("it is taken");
    bench.write(0, 1, 512);
    assert_eq!(bench.pools_of(0), [1], "the slowest that is here");
    let here: u32 = [0, 1]
        .map(|pool| bench.group.machines.state.pools[PoolId(pool)].slots.total())
        .iter()
        .sum();
    (1..here).for_each(|chunk| bench.write(u64::from(chunk) * CHUNK, 1, 512));
    assert!((1..here).all(|chunk| bench.pools_of(chunk) != [2]));
    bench.write(u64::from(here) * CHUNK, 1, 512);
    assert_eq!(bench.pools_of(here), [2]);
    // At an epoch's end the archive goes where its class wants it.
    bench.pass(Nanos(2 * SECOND.0));
    assert_eq!(bench.pools_of(0), [2]);
}

#[test]
fn a_chunk_goes_there_and_back_in_two_requests_each() {
    let mut bench = bench();
    bench.write(0, 7, CHUNK as usize);
    let asked = |bench: &Bench| bench.disks[2].submitted();
    let before = asked(&bench);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 2), Outcome::Done);
    let superblocks = 2;
    assert!(asked(&bench) - before <= 2 + superblocks, "{}", asked(&bench) - before);
    let before = asked(&bench);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 0), Outcome::Done);
    assert!(asked(&bench) - before <= 2 + superblocks, "{}", asked(&bench) - before);
    assert_eq!(bench.read(0, CHUNK as u32).expect("readable"), vec![7; CHUNK as usize]);
}

#[test]
fn a_chunk_that_is_written_to_comes_back_from_a_far_pool() {
    let mut bench = bench();
    bench.write(0, 7, CHUNK as usize);
    bench.operate(OperationKind::Migrate, 0, 2);
    bench.write(4096, 8, 4096);
    bench.pass(SECOND);
    assert_eq!(bench.pools_of(0), [1]);
    let read = bench.read(0, CHUNK as u32).expect("readable");
    assert_eq!((read[4095], read[4096], read[8192]), (7, 8, 7));
    bench.check();
}

#[test]
fn nothing_is_redirected_or_mirrored_to_a_far_pool() {
    let mut bench = bench();
    bench.write(0, 7, CHUNK as usize);
    for kind in [OperationKind::Redirect, OperationKind::Mirror] {
        let refused = bench.group.start(bench.now, operation(kind, 0, 2));
        assert_eq!(refused, Err(Refusal::Far));
    }
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 2), Outcome::Done);
    assert_eq!(bench.pools_of(0), [1, 2]);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 0), Outcome::Done);
}

#[test]
fn a_prefetched_copy_is_read_although_its_pool_was_slow_once() {
    let mut bench = Bench::with_far(&[4, 8, 64], 2, 4, Bench::settings());
    bench.group.create_volume(Nanos(0), Bytes(200 * CHUNK)).expect("a volume");
    bench.write(0, 7, CHUNK as usize);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 2), Outcome::Done);
    bench.group.machines.state.pools[PoolId(0)].note_latency(
        bench.now,
        false,
        Nanos(5 * SECOND.0),
        1,
    );
    bench.group.machines.state.pools[PoolId(2)].note_latency(
        bench.now,
        false,
        Nanos(SECOND.0 / 25),
        1,
    );
    assert_eq!(bench.group.prefetch(bench.now, VolumeId(0), (0, CHUNK), None), Ok(1));
    bench.pass(Nanos(10 * SECOND.0));
    assert_eq!(bench.pools_of(0), [2, 0]);
    for _ in 0..200 {
        bench.pass(SECOND);
        bench.group.machines.state.pools[PoolId(2)].note_latency(
            bench.now,
            false,
            Nanos(SECOND.0 / 25),
            1,
        );
    }
    let before = bench.group.machines.state.pools[PoolId(0)].counters.reads;
    bench.read(0, 512).expect("readable");
    assert_eq!(bench.group.machines.state.pools[PoolId(0)].counters.reads, before + 1);
}

/// A drain took the first pool with room, and a bucket that stands before a pool which was added
/// later is the first.
#[test]
fn a_drain_keeps_chunks_here_until_it_is_told_that_they_may_go_far() {
    let mut bench = Bench::with_far(&[4, 8, 64], 2, 0, Bench::settings());
    bench.group.create_volume(Nanos(0), Bytes(200 * CHUNK)).expect("a volume");
    let slots = |bench: &Bench, pool| bench.group.machines.state.pools[PoolId(pool)].slots.total();
    let here = slots(&bench, 0) + slots(&bench, 1);
    (0..here).for_each(|chunk| bench.write(u64::from(chunk) * CHUNK, 1, 512));
    bench.group.drain_pool(bench.now, PoolId(0)).expect("others take chunks");
    bench.pass(Nanos(10 * SECOND.0));
    assert_eq!(
        bench.group.machines.state.pools[PoolId(2)].slots.used(),
        0,
        "nothing goes far by itself"
    );
    assert_eq!(
        bench.group.machines.state.pools[PoolId(0)].state,
        PoolState::Draining,
        "it waits for room"
    );
    bench.group.drain_pool_anywhere(bench.now, PoolId(0)).expect("it is being drained");
    bench.pass(Nanos(10 * SECOND.0));
    assert_eq!(bench.group.machines.state.pools[PoolId(0)].state, PoolState::Drained);
    assert_eq!(bench.group.machines.state.pools[PoolId(2)].slots.used(), slots(&bench, 0));
    bench.check();
}
