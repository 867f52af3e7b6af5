//! The benefit of moves by hand, and in a loop with pools that slow down under load.

use super::pools::Loaded;
use crate::placement::demand::Demand;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose, propose_to};
use crate::placement::{ChunkAccess, Move, Placement, PoolLoad, PoolTraits, Service, VolumeView};
use thermocline_units::{Bytes, Nanos, PoolId};

/// A pool that serves so many random requests a second, one at a time, and streams fast.
fn serving(per_second: u64) -> PoolTraits {
    let random = Service { latency: Nanos(1_000_000_000 / per_second), per_second };
    let stream = Service { per_second: 1_000_000, ..random };
    PoolTraits { services: [random, random, stream, stream], ..PoolTraits::assumed(PoolId(0), 1) }
}

/// Random accesses of 4 KiB: an empty one to a chunk far away stands between.
fn ask(benefit: &mut dyn Placement, index: u32, times: u64, write: bool) {
    let mut access = |index, offset, bytes, write| {
        let (at, chunk) = (Nanos(0), chunk(index));
        benefit.observe(&ChunkAccess {
            at,
            chunk,
            offset: Bytes(offset),
            bytes: Bytes(bytes),
            write,
        });
    };
    for step in 0..times {
        access(index, (1 + step % 7) * 65_536, 4096, write);
        access(99_999, 0, 0, false);
    }
}

/// Epochs of ten seconds on pools that serve so many requests a second.
fn pools(rates: &[u64], places: &[u64], at: &[(u32, u16)]) -> Pools {
    let mut pools = Pools::new(places, at);
    pools.traits = rates.iter().map(|&rate| serving(rate)).collect();
    pools.epoch = Nanos::from_secs(10);
    pools
}

#[test]
fn a_chunk_costs_its_own_wait_and_what_it_adds_to_the_others() {
    let mut pool = Loaded::default();
    pool.reset(&serving(100), 0.0);
    let demand = |reads: f64| Demand { random_reads: reads, ..Demand::default() };
    // 50 requests a second of 100: half of its time; they wait 0.5 / (1 − 0.5) = 1 second a second.
    // With 25 more it is 0.75 / 0.25 = 3.
    let share = pool.share(&demand(50.0));
    assert!((pool.cost(share) - 1.0).abs() < 1e-9);
    pool.join(share);
    let more = pool.share(&demand(25.0));
    assert!((pool.cost(more) - 2.0).abs() < 1e-9);
    pool.join(more);
    assert!((pool.saved_without(more) - 2.0).abs() < 1e-9);
    // Beyond what it bears it is dearer still, and endless nowhere.
    let much = pool.share(&demand(1e6));
    assert!(pool.cost(much) > 1e6 && pool.cost(much).is_finite());
}

#[test]
fn what_a_pool_bears_is_learnt_from_its_latencies() {
    let mut pool = Loaded::default();
    let traits = serving(100);
    let demand = Demand { random_reads: 50.0, ..Demand::default() };
    let load = PoolLoad { reads: 500, read_latency: Nanos(100_000_000), ..PoolLoad::default() };
    for _ in 0..30 {
        pool.reset(&traits, 0.0);
        let share = pool.share(&demand);
        pool.join(share);
        pool.learn(&load, &traits, Nanos::from_secs(10));
    }
    // Ten times the idle latency at half of its time: it bears 0.5 / 0.9 of what it says.
    let more = pool.share(&Demand { random_reads: 1.0, ..Demand::default() });
    let at = |requests: f64| requests / 100.0 / (1.0 - requests / 100.0 / (0.5 / 0.9));
    assert!((pool.cost(more) - (at(51.0) - at(50.0))).abs() < 1e-6, "{}", pool.cost(more));
}

#[test]
fn the_chunk_that_saves_most_goes_first_and_a_stream_does_not_pay() {
    let mut benefit = build("benefit:memory=0");
    let view = pools(&[10_000, 100], &[1, 9], &[(0, 1), (1, 1), (2, 1)]);
    ask(benefit.as_mut(), 0, 100, false);
    ask(benefit.as_mut(), 1, 200, false);
    for piece in 0..250 {
        let (at, chunk, bytes) = (Nanos(0), chunk(2), Bytes(4096));
        let offset = Bytes(piece * 4096);
        benefit.observe(&ChunkAccess { at, chunk, offset, bytes, write: false });
    }
    assert_eq!(propose_to(benefit.as_mut(), &view), [(1, 0)]);
}

#[test]
fn a_move_must_pay_for_its_copying_and_for_the_wear_it_causes() {
    let run = |settings: &str, write: bool| {
        let mut benefit = build(&format!("benefit:memory=0:{settings}"));
        let mut view = pools(&[10_000, 100], &[9, 9], &[(0, 1)]);
        view.traits[0].overwrites = Some(3000);
        // Ten requests wait 10 ms each on the slow pool: 0.1 s an epoch. A copy takes 256 units of
        // each stream, half a millisecond.
        ask(benefit.as_mut(), 0, 10, write);
        propose_to(benefit.as_mut(), &view)
    };
    assert_eq!(run("payback=1", false), [(0, 0)]);
    assert_eq!(run("payback=0.001", false), []);
    // 10 × 4 KiB are 1/26,214 of a GiB: at 10,000 s a GiB that is 0.4 s.
    assert_eq!(run("payback=100:wear=10000", true), []);
    assert_eq!(run("payback=100:wear=10000", false), [(0, 0)]);
}

#[test]
fn the_cheapest_resident_makes_room_and_only_for_who_gains_more() {
    let mut benefit = build("benefit:memory=0");
    let at = [(0, 0), (1, 0), (2, 1), (3, 1)];
    let view = pools(&[10_000, 100], &[2, 9], &at);
    for (index, times) in [(0, 50), (1, 10), (2, 60), (3, 5)] {
        ask(benefit.as_mut(), index, times, false);
    }
    assert_eq!(propose_to(benefit.as_mut(), &view), [(1, 1), (2, 0)]);
}

#[test]
fn load_settles_where_the_mean_latency_of_all_requests_is_least() {
    // 100 chunks with 1.4 requests a second each, on pools that serve 100 and 60.
    let at: Vec<_> = (0..100).map(|index| (index, 0)).collect();
    let mut view = pools(&[100, 60], &[200, 200], &at);
    let mut benefit = build("benefit:memory=0");
    let wait = |fast: f64| {
        let (x, y) = (fast * 1.4, (100.0 - fast) * 1.4);
        if x >= 100.0 || y >= 60.0 { f64::INFINITY } else { x / (100.0 - x) + y / (60.0 - y) }
    };
    for _ in 0..6 {
        (0..100).for_each(|index| ask(benefit.as_mut(), index, 14, false));
        let fast = view.used_chunks(PoolId(0)) as f64 * 1.4;
        let load = |rate: f64, asked: f64| PoolLoad {
            reads: (asked * 10.0) as u64,
            read_latency: Nanos((1e9 / (rate - asked).max(1.0)) as u64),
            ..PoolLoad::default()
        };
        view.loads = vec![load(100.0, fast), load(60.0, 140.0 - fast)];
        view.at.extend(propose_to(benefit.as_mut(), &view));
    }
    let least = (0..=100).map(|fast| wait(f64::from(fast))).fold(f64::INFINITY, f64::min);
    let found = wait(view.used_chunks(PoolId(0)) as f64);
    assert!(found <= least * 1.05, "{found} against {least}, {} up", view.used_chunks(PoolId(0)));
}

#[test]
fn a_chunk_that_rises_is_mirrored_and_leaves_again_without_a_copy_to_pay_for() {
    // Copies cost more than anything here saves, but the mirror's is there already.
    let mut benefit = build("benefit:memory=0:mirrors=0.5:payback=4");
    let mut view = pools(&[10_000, 100], &[1, 9], &[(0, 1), (1, 1)]);
    ask(benefit.as_mut(), 0, 10, false);
    let moves = propose(benefit.as_mut(), &view);
    assert_eq!(moves, [Move::mirror(chunk(0), PoolId(0))]);
    view.carry_out(&moves);
    ask(benefit.as_mut(), 1, 20, false);
    ask(benefit.as_mut(), 0, 1, false);
    let moves = propose(benefit.as_mut(), &view);
    assert_eq!(moves, [Move::to(chunk(0), PoolId(1)), Move::mirror(chunk(1), PoolId(0))]);
}

#[test]
fn without_room_for_two_copies_a_rise_is_a_move_and_without_mirrors_nobody_routes() {
    let mut benefit = build("benefit:memory=0:mirrors=0.05");
    let view = pools(&[10_000, 100], &[2, 9], &[(0, 1)]);
    ask(benefit.as_mut(), 0, 10, false);
    assert_eq!(propose(benefit.as_mut(), &view), [Move::to(chunk(0), PoolId(0))]);
    assert!(benefit.router().is_some());
    assert!(build("benefit").router().is_none());
}

/// The fastest pool answers a hundred times slower than the other, so often.
fn overload(benefit: &mut dyn Placement, times: u32) {
    let slow = PoolLoad { reads: 1000, read_latency: Nanos(5_000_000_000), ..PoolLoad::default() };
    let quick = PoolLoad { reads: 10, read_latency: Nanos(1_000_000), ..PoolLoad::default() };
    let router = benefit.router().expect("it routes");
    (0..times).for_each(|_| _ = router.route(&[slow, quick]));
}

#[test]
fn what_takes_most_of_an_overloaded_pool_is_mirrored_when_all_is_diverted() {
    let mut benefit = build("benefit:memory=0:mirrors=0.3:payback=0.001");
    let at = [(0, 0), (1, 0), (2, 0)];
    let view = pools(&[1000, 1000], &[3, 7], &at);
    let ask_all = |benefit: &mut dyn Placement| {
        [(0, 5), (1, 9), (2, 1)].map(|(index, times)| ask(benefit, index, times, false))
    };
    ask_all(benefit.as_mut());
    assert_eq!(propose(benefit.as_mut(), &view), []);
    overload(benefit.as_mut(), 5);
    ask_all(benefit.as_mut());
    assert_eq!(propose(benefit.as_mut(), &view), [], "not all is diverted yet");
    overload(benefit.as_mut(), 10);
    ask_all(benefit.as_mut());
    // A third of ten slots.
    let below = |index| Move::mirror(chunk(index), PoolId(1));
    assert_eq!(propose(benefit.as_mut(), &view), [below(1), below(0), below(2)]);
}

#[test]
fn mirrors_with_the_least_demand_end_when_the_second_pool_is_full() {
    let mut benefit = build("benefit:memory=0:mirrors=0.5:payback=0.001");
    let at = [(0, 0), (1, 1), (2, 1)];
    let mut view = pools(&[1000, 1000], &[2, 40], &at);
    view.at.extend((10..47).map(|index| (index, 1)));
    view.mirrors.extend([(0, 1), (1, 0)]);
    ask(benefit.as_mut(), 0, 5, false);
    ask(benefit.as_mut(), 1, 4, false);
    assert_eq!(view.used_chunks(PoolId(1)), 40);
    assert_eq!(propose(benefit.as_mut(), &view), [Move::to(chunk(1), PoolId(0))]);
}
