//! Mirrored chunks: who serves what, and what is left when a side goes.

use super::{Bench, CHUNK};
use crate::{OperationKind, Outcome, Refusal};
use thermocline_policy::Footprint;
use thermocline_policy::placement::{
    Budget, ChunkAccess, Move, Placement, PoolLoad, Route, Router, VolumeView,
};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Says the same share for ever.
struct Always(Route);

impl Router for Always {
    fn route(&mut self, _: &[PoolLoad]) -> Route {
        self.0
    }
}

impl Placement for Always {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, _: &dyn VolumeView, _: Budget, _: &mut Vec<Move>) {}

    fn router(&mut self) -> Option<&mut dyn Router> {
        Some(self)
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

/// A chunk of ones on pool 0, mirrored on pool 1, and as equal as it can be.
fn bench() -> Bench {
    let mut bench = Bench::new(&[4, 8, 8]);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    assert_eq!(bench.operate(OperationKind::Mirror, 0, 1), Outcome::Done);
    bench
}

/// A bench whose requests to both sides go to the slower one in these shares.
fn routed(reads: u32, writes: u32) -> Bench {
    let mut bench = bench();
    bench.group.set_placement(Some(Box::new(Always(Route { reads, writes }))));
    bench.pass(Nanos::from_micros(200_000));
    bench
}

fn counted(bench: &Bench) -> [(u64, u64); 2] {
    [0, 1].map(|pool| {
        let counters = bench.group.pool_status(PoolId(pool)).expect("it exists").counters;
        (counters.reads, counters.writes)
    })
}

/// Requests on both pools while `work` was done: reads and writes of clients.
fn during(bench: &mut Bench, work: impl FnOnce(&mut Bench)) -> [(u64, u64); 2] {
    let before = counted(bench);
    work(bench);
    let after = counted(bench);
    [0, 1].map(|pool| (after[pool].0 - before[pool].0, after[pool].1 - before[pool].1))
}

fn other_side(bench: &Bench) -> Option<PoolId> {
    let chunk = ChunkId { volume: VolumeId(0), index: 0 };
    bench.group.locate(chunk).expect("it exists").mirrored_on
}

/// Byte `at` of each block in turn.
fn bytes(bench: &mut Bench, blocks: std::ops::Range<u64>) -> Vec<u8> {
    blocks.map(|block| bench.read(block * 4096, 512).expect("readable")[0]).collect()
}

#[test]
fn reads_are_divided_as_the_router_says() {
    let mut bench = routed(250_000, 0);
    let read = during(&mut bench, |bench| assert_eq!(bytes(bench, 0..16), [1; 16]));
    assert_eq!(read, [(12, 0), (4, 0)]);
}

#[test]
fn a_write_goes_to_one_side_and_is_read_there_until_the_sides_are_equal_again() {
    let mut bench = routed(0, 1_000_000);
    let done = during(&mut bench, |bench| bench.write(0, 7, 8192));
    assert_eq!(done, [(0, 0), (0, 1)]);
    // All reads would go to pool 0, which does not have these.
    let done = during(&mut bench, |bench| assert_eq!(bytes(bench, 0..3), [7, 7, 1]));
    assert_eq!(done, [(1, 0), (2, 0)]);
    assert_eq!(bench.operate(OperationKind::Mirror, 0, 1), Outcome::Done);
    let done = during(&mut bench, |bench| assert_eq!(bytes(bench, 0..3), [7, 7, 1]));
    assert_eq!(done, [(3, 0), (0, 0)]);
}

#[test]
fn part_of_a_block_is_written_where_the_rest_of_it_is() {
    let mut bench = routed(0, 1_000_000);
    bench.write(0, 7, 4096);
    bench.group.set_placement(Some(Box::new(Always(Route::default()))));
    bench.pass(Nanos::from_micros(200_000));
    let done = during(&mut bench, |bench| bench.write(512, 8, 512));
    assert_eq!(done, [(0, 0), (0, 1)], "the block is newer on pool 1");
    let read = bench.read(0, 4096).expect("readable");
    assert_eq!((read[0], read[512], read[1024]), (7, 8, 7));
    let done = during(&mut bench, |bench| bench.write(0, 9, 4096));
    assert_eq!(done, [(0, 1), (0, 0)], "a whole block may change sides");
}

#[test]
fn what_was_flushed_on_either_side_is_there_after_a_crash() {
    let mut bench = routed(500_000, 500_000);
    for block in 0..16 {
        bench.write(block * 4096, block as u8, 4096);
    }
    bench.flush();
    let all: Vec<u8> = (0..16).collect();
    for _ in 0..2 {
        bench.crash();
        assert_eq!(other_side(&bench), Some(PoolId(1)));
        assert_eq!(bytes(&mut bench, 0..16), all);
    }
    bench.pass(Nanos::from_secs(5));
    assert_eq!(bytes(&mut bench, 0..16), all, "made equal again");
    bench.check();
}

#[test]
fn a_mirror_is_brought_together_on_either_pool() {
    for to in [0, 1] {
        let mut bench = routed(500_000, 500_000);
        bench.write(0, 7, 3 * 4096);
        bench.write(5 * 4096, 8, 512);
        assert_eq!(bench.operate(OperationKind::Migrate, 0, to), Outcome::Done);
        assert_eq!((bench.pools_of(0), other_side(&bench)), (vec![to], None));
        bench.crash();
        assert_eq!(bytes(&mut bench, 0..6), [7, 7, 7, 1, 1, 8]);
    }
}

#[test]
fn only_a_side_takes_a_chunk_in_two_parts() {
    let mut bench = bench();
    let chunk = ChunkId { volume: VolumeId(0), index: 0 };
    for kind in [OperationKind::Migrate, OperationKind::Replicate, OperationKind::Mirror] {
        let operation = crate::Operation { kind, chunk, to: PoolId(2) };
        assert_eq!(bench.group.start(Nanos(0), operation), Err(Refusal::InTwoParts));
    }
    let again = crate::Operation { kind: OperationKind::Mirror, chunk, to: PoolId(1) };
    assert_eq!(bench.group.start(Nanos(0), again), Err(Refusal::AlreadyThere));
}

#[test]
fn a_dead_side_takes_only_what_it_alone_had() {
    for dead in [0_u16, 1] {
        let mut bench = routed(0, 1_000_000);
        bench.write(0, 7, 4096);
        bench.disks[usize::from(dead)].kill();
        let read = bench.read(0, 512);
        assert_eq!(read.is_ok(), dead == 0, "the first block was on pool 1 alone");
        assert_eq!(bytes(&mut bench, 1..16), [1; 15]);
        bench.write(4096, 9, 4096);
        assert_eq!(bytes(&mut bench, 1..3), [9, 1]);
    }
}

#[test]
fn a_pool_that_is_drained_keeps_no_side() {
    for drained in [0, 1] {
        let mut bench = routed(500_000, 500_000);
        bench.write(0, 7, 2 * 4096);
        bench.group.drain_pool(Nanos(0), PoolId(drained)).expect("others take its chunks");
        bench.pass(Nanos::from_secs(10));
        assert_eq!((bench.pools_of(0), other_side(&bench)), (vec![1 - drained], None));
        assert_eq!(bytes(&mut bench, 0..3), [7, 7, 1]);
    }
}
