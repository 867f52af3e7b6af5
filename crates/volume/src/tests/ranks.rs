//! The order of pools by speed in a group. The accident: a fast pool that was added to a group was
//! last for ever, so placements that go by the order filled it with what nobody asked for.

use super::{Bench, CHUNK, tactics};
use crate::{AdminError, PoolSpec, PoolState, Settings};
use std::sync::{Arc, Mutex};
use thermocline_policy::Footprint;
use thermocline_policy::hints::store::Hint;
use thermocline_policy::hints::{Facts, Level, Wishes};
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::Geometry;
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const EPOCH: Nanos = Nanos(10_000_000_000);

fn bench(fill: &str) -> Bench {
    let settings = Settings { epoch: EPOCH, tactics: tactics(&[fill]), ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(40 * CHUNK)).expect("a volume");
    bench
}

/// Plugs a disk of so many MiB in.
fn plug(bench: &mut Bench, mib: u64) -> PoolSpec {
    let geometry = Geometry { size: Bytes::from_mib(mib), discard_zeroes: true, far: false };
    let name = format!("added{}", bench.disks.len());
    bench.disks.push(SimDisk::new(geometry, 77, Faults::NONE));
    PoolSpec { name, geometry, zeroed: true, reserve_chunks: 0 }
}

fn add(bench: &mut Bench, mib: u64, before: Option<u16>) -> PoolId {
    let spec = plug(bench, mib);
    let added = bench.group.add_pool_before(bench.now, spec, before.map(PoolId));
    bench.run();
    added.expect("it fits")
}

fn order(bench: &Bench) -> Vec<u16> {
    bench.group.pools_by_rank().iter().map(|pool| pool.0).collect()
}

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(0), index }
}

/// A placement's view at an epoch's end: chunks that each rank can hold, and the first chunk's.
type Sight = (Vec<u64>, PoolId);

/// Writes down what it sees, and wants the first chunk on the fastest pool.
struct Raises(Arc<Mutex<Vec<Sight>>>);

impl Placement for Raises {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        let pools = (0..view.pool_count()).map(PoolId);
        let capacities = pools.map(|pool| view.capacity_chunks(pool)).collect();
        let home = view.pool_of(chunk(0));
        let mut found = None;
        view.visit_pool(home, &mut |there| found = found.or(Some(there)));
        assert_eq!(found, Some(chunk(0)), "the views of a pool and of a chunk agree");
        self.0.lock().expect("nobody panics with it").push((capacities, home));
        if home != PoolId(0) {
            moves.push(Move::to(chunk(0), PoolId(0)));
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: 0 }
    }
}

#[test]
fn a_placement_sees_pools_in_order_of_rank_and_its_proposals_reach_the_pools_that_it_means() {
    let mut bench = bench("slowest-first");
    bench.write(0, 7, CHUNK as usize);
    assert_eq!(bench.pools_of(0), [1]);
    let added = add(&mut bench, 2, Some(0));
    assert_eq!((added, order(&bench)), (PoolId(2), vec![2, 0, 1]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    bench.group.set_placement(Some(Box::new(Raises(seen.clone()))));
    bench.pass(EPOCH);
    bench.pass(EPOCH);
    assert_eq!(bench.pools_of(0), [2], "its pool 0 is the one that was added");
    let slots = |id| {
        let status = bench.group.pool_status(PoolId(id)).expect("it exists");
        u64::from(status.slots_total)
    };
    let capacities = vec![slots(2), slots(0), slots(1)];
    let seen = seen.lock().expect("nobody panics with it");
    assert_eq!(seen[..2], [(capacities.clone(), PoolId(2)), (capacities, PoolId(0))]);
    drop(seen);
    assert_eq!(bench.read(0, 4096).expect("readable"), [7; 4096]);
    bench.check();
}

#[test]
fn first_writes_go_to_the_pool_that_was_added_before_the_fastest_also_after_a_crash() {
    let mut bench = bench("fastest-first");
    bench.write(0, 1, 512);
    add(&mut bench, 2, Some(0));
    add(&mut bench, 8, Some(1));
    add(&mut bench, 8, None);
    assert_eq!(order(&bench), [2, 0, 3, 1, 4]);
    bench.write(CHUNK, 2, 512);
    bench.flush();
    bench.crash();
    assert_eq!(order(&bench), [2, 0, 3, 1, 4]);
    bench.write(2 * CHUNK, 3, 512);
    assert_eq!([bench.pools_of(0), bench.pools_of(1), bench.pools_of(2)], [[0], [2], [2]]);
    // Ranks are the pools' own: a removed pool takes nobody's with it.
    bench.group.drain_pool(bench.now, PoolId(2)).expect("others take its chunks");
    bench.pass(Nanos(10 * EPOCH.0));
    bench.group.remove_pool(bench.now, PoolId(2)).expect("it is empty");
    bench.pass(EPOCH);
    assert_eq!(bench.group.machines.state.pools[PoolId(2)].state, PoolState::Removed);
    assert_eq!([bench.pools_of(1), bench.pools_of(2)], [[0], [0]], "the next fastest");
    bench.crash();
    assert_eq!(order(&bench), [2, 0, 3, 1, 4]);
    let spec = plug(&mut bench, 8);
    let gone = bench.group.add_pool_before(bench.now, spec.clone(), Some(PoolId(2)));
    assert_eq!(gone, Err(AdminError::NoPool(PoolId(2))));
    let unknown = bench.group.add_pool_before(bench.now, spec, Some(PoolId(9)));
    assert_eq!(unknown, Err(AdminError::NoPool(PoolId(9))));
    bench.check();
}

/// The accident: after the fastest of three pools was removed, placements went on to want chunks on
/// it, and nothing moved between the two that were left.
#[test]
fn a_placement_goes_on_without_a_pool_that_was_removed() {
    let mut bench = bench("slowest-first");
    add(&mut bench, 2, Some(0));
    bench.write(0, 7, CHUNK as usize);
    let hot = PolicySpec::parse("hemem:hot-reads=1").expect("it is in the registry");
    let build = || hot.build_placement().expect("its settings are right");
    bench.group.begin_shadow(bench.now, ("hemem", build()), None).expect("it is the first");
    bench.group.set_placement(Some(build()));
    for _ in 0..3 {
        bench.read(0, 512).expect("readable");
        bench.pass(EPOCH);
    }
    assert_eq!(bench.pools_of(0), [2], "the fastest");
    let before = bench.group.shadows().reports().next().expect("there is one").total.all().reads;
    assert!(before > 0, "its epochs were judged");
    bench.group.drain_pool(bench.now, PoolId(2)).expect("others take its chunks");
    // What it wants back on a pool that takes nothing is refused.
    bench.pass(Nanos(10 * EPOCH.0));
    bench.group.remove_pool(bench.now, PoolId(2)).expect("it is empty");
    bench.run();
    assert_eq!(bench.group.machines.state.pools[PoolId(2)].state, PoolState::Removed);
    assert_eq!(bench.group.pools_there(), [PoolId(0), PoolId(1)]);
    let status = |bench: &Bench, id| bench.group.pool_status(PoolId(id)).expect("it was").rank;
    assert_eq!([2, 0, 1].map(|id| status(&bench, id)), [2, 0, 1], "it is behind all others");
    bench.write(3 * CHUNK, 7, CHUNK as usize);
    assert_eq!(bench.pools_of(3), [1], "the slowest");
    for _ in 0..4 {
        (0..4).for_each(|_| _ = bench.read(3 * CHUNK, 512).expect("readable"));
        bench.pass(EPOCH);
    }
    assert_eq!(bench.pools_of(3), [0], "the fastest that there is");
    let report = bench.group.shadows().reports().next().expect("there is one");
    assert!(report.total.all().reads >= before, "what the pool served counts in the sum");
    assert_eq!(report.total.of(PoolId(2)).reads, 0, "there is no third pool");
    bench.crash();
    assert_eq!(bench.group.pools_there(), [PoolId(0), PoolId(1)]);
    assert_eq!(bench.read(3 * CHUNK, 512).expect("readable"), [7; 512]);
    bench.check();
}

#[test]
fn what_was_learnt_of_pools_is_of_the_same_pools_after_one_has_gone() {
    // Its first place is that of a chunk: [fastest, second, slowest].
    let mut bench = bench("slowest-first");
    add(&mut bench, 2, Some(0));
    (0..3).for_each(|chunk| bench.write(chunk * CHUNK, 7, CHUNK as usize));
    let auto = || PolicySpec::parse("auto").expect("known").build_placement().expect("defaults");
    bench.group.set_named_placement("auto", auto());
    for _ in 0..3 {
        (0..3).for_each(|chunk| _ = bench.read(chunk * CHUNK, 512).expect("readable"));
        bench.pass(EPOCH);
    }
    let before = bench.group.pools_there().to_vec();
    let firsts = |bench: &Bench| -> Vec<String> {
        let told = |index| bench.group.explain(chunk(index)).unwrap_or_default().join(" ");
        (0..3).map(told).collect()
    };
    assert!(firsts(&bench).iter().all(|told| told.contains("on pool 2")), "{:?}", firsts(&bench));
    let learnt = bench.group.learnt().expect("it learns").1;
    bench.group.drain_pool(bench.now, PoolId(2)).expect("it is empty");
    bench.pass(EPOCH);
    bench.group.remove_pool(bench.now, PoolId(2)).expect("it is empty");
    bench.run();
    // As after a crash: what was kept is older than the removal.
    bench.group.set_named_placement("auto", auto());
    bench.group.learn_from(&learnt, &before).expect("it is its own");
    bench.pass(EPOCH);
    let account = bench.group.placement_account().expect("it keeps one");
    assert_eq!((account.saved, account.moved_chunks), (0.0, 0), "nothing is anywhere else");
    let other = [PoolId(1), PoolId(0)];
    assert!(bench.group.learn_from(&learnt, &other).is_err(), "another order");
}

#[test]
fn a_crash_at_any_request_of_adding_leaves_the_pool_at_its_rank_or_not_at_all() {
    let mut joined = [0, 0];
    for requests in 0..100 {
        let mut bench = bench("fastest-first");
        bench.write(0, 1, 512);
        bench.flush();
        let spec = plug(&mut bench, 8);
        let now = bench.now;
        bench.group.add_pool_before(now, spec, Some(PoolId(1))).expect("it fits");
        let ended = bench.run_requests(requests);
        bench.crash();
        let is_there = bench.group.machines.state.pools.count() == 3;
        assert_eq!(order(&bench), if is_there { vec![0, 2, 1] } else { vec![0, 1] });
        joined[usize::from(is_there)] += 1;
        assert_eq!(bench.read(0, 512).expect("readable"), [1; 512]);
        if ended {
            assert!(joined[0] >= 2 && joined[1] > 0, "crashes before and after: {joined:?}");
            return;
        }
    }
    panic!("adding a pool does not end");
}

#[test]
fn a_pool_that_is_looked_at_and_not_added_takes_no_rank() {
    let mut bench = bench("fastest-first");
    let spec = plug(&mut bench, 8);
    bench.group.check_pool(&spec).expect("it would fit");
    assert_eq!(order(&bench), [0, 1]);
    let small = PoolSpec { geometry: Geometry { size: Bytes(4096), ..spec.geometry }, ..spec };
    bench.group.add_pool_before(Nanos(0), small, Some(PoolId(0))).expect_err("too small");
    assert_eq!(order(&bench), [0, 1]);
    bench.disks.pop();
    bench.check();
}

#[test]
fn a_drained_pools_chunks_go_to_the_pool_that_is_next_to_it_in_speed() {
    let mut bench = bench("slowest-first");
    (0..3).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    let spec = plug(&mut bench, 8);
    let room = bench.group.check_pool(&spec).expect("it would fit");
    let now = bench.now;
    let added = bench.group.add_pool_before(now, spec, Some(PoolId(1))).expect("it fits");
    bench.run();
    let status = bench.group.pool_status(added).expect("it was added");
    assert_eq!((status.rank, status.slots_total), (1, room));
    bench.group.drain_pool(now, PoolId(1)).expect("others take its chunks");
    bench.pass(EPOCH);
    assert_eq!([0, 1, 2].map(|chunk| bench.pools_of(chunk)), [[2], [2], [2]], "not the fastest");
}

#[test]
fn metadata_stands_on_the_fastest_pools_by_rank() {
    let mut bench = bench("fastest-first");
    assert_eq!(bench.group.machines.state.elect_replicas(), [PoolId(0), PoolId(1)]);
    add(&mut bench, 16, Some(0));
    assert_eq!(bench.group.machines.state.elect_replicas(), [PoolId(2), PoolId(0)]);
    bench.crash();
    assert_eq!(bench.group.machines.state.elect_replicas(), [PoolId(2), PoolId(0)]);
}

#[test]
fn hints_mean_the_fastest_pool_by_rank() {
    let mut bench = bench("slowest-first");
    add(&mut bench, 2, Some(0));
    let facts = Facts { metadata: true, ..Facts::default() };
    let (volume, range, wishes) = (Some(VolumeId(0)), (0, CHUNK), Wishes::default());
    let hint = Hint {
        source: "t",
        level: Level::Range,
        volume,
        range,
        facts: &facts,
        wishes,
        until: None,
    };
    bench.group.hint(Nanos(0), &hint).expect("it is taken");
    (0..2).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    assert_eq!([bench.pools_of(0), bench.pools_of(1)], [[2], [1]]);
}

#[test]
fn a_shadow_goes_on_with_its_chunks_where_they_were() {
    let mut bench = bench("slowest-first");
    (0..4).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    let spec = PolicySpec::parse("static").expect("it is in the registry");
    let rival = ("static", spec.build_placement().expect("no settings"));
    bench.group.begin_shadow(bench.now, rival, None).expect("it is the first");
    for _ in 0..3 {
        bench.pass(EPOCH);
        bench.read(0, 512).expect("readable");
    }
    add(&mut bench, 2, Some(0));
    bench.pass(EPOCH);
    let report = bench.group.shadows().reports().next().expect("there is one");
    let reads = [0, 1, 2].map(|rank| report.total.of(PoolId(rank)).reads);
    assert_eq!(reads, [0, 0, 3], "the slowest pool is the third now");
    assert_eq!(report.total, report.actual_total, "nobody has moved anything");
    assert_eq!(report.total.all().moved_in, Bytes(0));
}
