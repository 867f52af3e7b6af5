//! Shadows beside machines that do something else, on figures worked out by hand.

use super::*;
use crate::placement::tests::build;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::{FLASH, Service};
use thermocline_units::Rng;

const CHUNK: Bytes = Bytes::from_mib(1);
const SLOW: PoolId = PoolId(1);

/// Two pools of 100 µs and 10 ms, whatever is asked; streams pass at 4 KiB in 10 µs and 1 ms.
fn machine(places: &[u64; 2], at: &[(u32, u16)]) -> Pools {
    let mut pools = Pools::new(places, at);
    for (traits, scale) in pools.traits.iter_mut().zip([1, 100]) {
        let random = Service { latency: Nanos(100_000 * scale), per_second: 100_000 };
        let stream = Service { latency: Nanos(100_000 * scale), per_second: 100_000 / scale };
        traits.services = [random, random, stream, stream];
    }
    pools
}

fn access(index: u32, offset: u64, bytes: u64, write: bool) -> ChunkAccess {
    let (offset, bytes) = (Bytes(offset), Bytes(bytes));
    ChunkAccess { at: Nanos(0), chunk: chunk(index), offset, bytes, write }
}

/// Tells of so many random reads of 4 KiB.
fn read(shadows: &mut Shadows, index: u32, times: u64) {
    (0..times).for_each(|_| shadows.observe(&access(index, 8192, 4096, false)));
}

fn begin(shadows: &mut Shadows, view: &Pools, spec: &str) {
    shadows.begin(Nanos(0), view, (spec, build(spec)), None).expect("there is room");
}

fn end_epoch(shadows: &mut Shadows, view: &Pools) {
    shadows.end_epoch(Nanos(0), view, None);
}

fn only(shadows: &Shadows) -> Report<'_> {
    shadows.reports().next().expect("there is one")
}

#[test]
fn a_rival_that_promotes_what_is_read_is_told_from_a_machine_that_does_not() {
    let view = machine(&[1, 4], &[(0, 0), (1, 1), (2, 1)]);
    let mut shadows = Shadows::default();
    begin(&mut shadows, &view, "baseline:k=1");
    for _ in 0..3 {
        read(&mut shadows, 0, 1);
        read(&mut shadows, 1, 9);
        end_epoch(&mut shadows, &view);
    }
    let report = only(&shadows);
    // The first epoch is not a whole one. Chunks 0 and 1 changed places at its end.
    assert_eq!((report.epochs, report.total.all().accesses()), (2, 20));
    assert_eq!(report.total.fastest().accesses(), 18);
    assert_eq!(report.total.fastest_share(), Some(0.9));
    assert_eq!(report.total.mean_latency(), Some(Nanos((9 * 100_000 + 10_000_000) / 10)));
    assert_eq!(report.actual_total.fastest_share(), Some(0.1));
    assert_eq!(report.actual_total.mean_latency(), Some(Nanos((9 * 10_000_000 + 100_000) / 10)));
    let moved = |tally: &Tally| [FLASH, SLOW].map(|pool| tally.of(pool).moved_in);
    assert_eq!(moved(report.total), [CHUNK, CHUNK]);
    assert_eq!(moved(report.epoch), [Bytes(0), Bytes(0)]);
    assert_eq!(moved(report.actual_total), [Bytes(0), Bytes(0)]);
}

#[test]
fn the_machines_own_placement_as_a_shadow_has_the_machines_own_figures() {
    let mut view = machine(&[3, 20], &[]);
    view.at = (0..15).map(|index| (index, u16::from(index >= 3))).collect();
    let (mut placement, mut shadows) = (build("baseline:k=3"), Shadows::default());
    begin(&mut shadows, &view, "baseline:k=3");
    let mut rng = Rng::seeded(4);
    for epoch in 0..20 {
        for _ in 0..200 {
            // What is hot wanders.
            let index = (epoch / 4 + rng.below(rng.clone().below(12) + 1)) % 15;
            let write = rng.below(3) == 0;
            let one = access(index as u32, rng.below(255) * 4096, 4096, write);
            placement.observe(&one);
            shadows.observe(&one);
        }
        end_epoch(&mut shadows, &view);
        let mut moves = Vec::new();
        placement.propose(Nanos(0), &view, crate::placement::Budget::UNLIMITED, &mut moves);
        view.carry_out(&moves);
    }
    let report = only(&shadows);
    assert!(report.actual_total.all().moved_in > Bytes(0));
    assert_eq!(report.total, report.actual_total);
    assert_eq!(report.epoch, report.actual_epoch);
}

#[test]
fn the_actual_mean_latency_is_the_measured_one_and_a_rivals_is_corrected_alike() {
    let mut view = machine(&[1, 4], &[(0, 0), (1, 1)]);
    let mut shadows = Shadows::default();
    begin(&mut shadows, &view, "baseline:k=1");
    view.loads[0] = PoolLoadOf { reads: 40, latency: 150_000 }.load();
    view.loads[1] = PoolLoadOf { reads: 160, latency: 40_000_000 }.load();
    for _ in 0..2 {
        read(&mut shadows, 0, 40);
        read(&mut shadows, 1, 160);
        end_epoch(&mut shadows, &view);
    }
    let report = only(&shadows);
    let mean = |fast: u64, slow: u64| Nanos((fast * 150_000 + slow * 40_000_000) / 200);
    assert_eq!(report.actual_total.mean_latency(), Some(mean(40, 160)));
    assert_eq!(report.total.mean_latency(), Some(mean(160, 40)));
    // Too few requests say nothing new: the level stays.
    view.loads[1] = PoolLoadOf { reads: MEASURED_FEW, latency: 9 }.load();
    read(&mut shadows, 1, 160);
    end_epoch(&mut shadows, &view);
    let slow = only(&shadows).actual_epoch.mean_latency();
    assert_eq!(slow, Some(Nanos(40_000_000)));
}

const MEASURED_FEW: u64 = tally::MEASURED_MIN - 1;

struct PoolLoadOf {
    reads: u64,
    latency: u64,
}

impl PoolLoadOf {
    fn load(self) -> crate::placement::PoolLoad {
        let read_latency = Nanos(self.latency);
        crate::placement::PoolLoad { reads: self.reads, read_latency, ..Default::default() }
    }
}

#[test]
fn long_requests_take_the_time_of_a_stream_and_wear_counts_writes_and_moves() {
    let view = machine(&[4, 4], &[(0, 0), (1, 1)]);
    let mut shadows = Shadows::default();
    begin(&mut shadows, &view, "static");
    end_epoch(&mut shadows, &view);
    shadows.observe(&access(0, 0, 65_536, true));
    shadows.observe(&access(1, 0, 4096, true));
    shadows.observe(&access(1, 4096, 512, true));
    end_epoch(&mut shadows, &view);
    let report = only(&shadows);
    // 16 units, of which the first takes 100 µs and each other 10 µs; two of at most one unit.
    let sum = 100_000 + 15 * 10_000 + 2 * 10_000_000;
    assert_eq!(report.total.mean_latency(), Some(Nanos((sum + 1) / 3)));
    assert_eq!(report.total.of(FLASH).wear(), Bytes(65_536));
    assert_eq!(report.total.of(SLOW).wear(), Bytes(4608));
}

#[test]
fn the_copy_rate_bounds_what_a_rival_moves_and_small_rests_add_up() {
    let hot: Vec<(u32, u16)> = (0..8).map(|index| (index, 1)).collect();
    let view = machine(&[8, 8], &hot);
    let mut shadows = Shadows::default();
    begin(&mut shadows, &view, "baseline:k=8");
    // A chunk and a half in an epoch of a second.
    let rate = Some(Bytes(CHUNK.0 * 3 / 2));
    let mut moved = Vec::new();
    for _ in 0..5 {
        (0..8).for_each(|index| read(&mut shadows, index, 3));
        shadows.end_epoch(Nanos(0), &view, rate);
        moved.push(only(&shadows).epoch.of(FLASH).moved_in.0 / CHUNK.0);
    }
    // The first epoch is not told, but moves at its end count for the second.
    assert_eq!(moved, [0, 1, 2, 1, 2]);
}

#[test]
fn new_chunks_go_where_the_machine_puts_them_or_to_the_next_pool_with_room() {
    let mut view = machine(&[2, 9], &[(0, 0), (1, 1)]);
    let mut shadows = Shadows::default();
    begin(&mut shadows, &view, "baseline:k=2");
    read(&mut shadows, 1, 5);
    read(&mut shadows, 0, 5);
    end_epoch(&mut shadows, &view);
    // The rival has both on the fast pool, which is full then; the machine puts chunk 2 there.
    view.at.insert(2, 0);
    read(&mut shadows, 2, 1);
    end_epoch(&mut shadows, &view);
    let report = only(&shadows);
    assert_eq!(report.actual_epoch.fastest().accesses(), 1);
    assert_eq!(report.epoch.of(SLOW).accesses(), 1);
    // And what is discarded is nowhere for both, and is read from nowhere.
    view.at.clear();
    read(&mut shadows, 0, 4);
    end_epoch(&mut shadows, &view);
    assert_eq!(only(&shadows).epoch.all().accesses(), 0);
    assert_eq!(only(&shadows).actual_epoch.all().accesses(), 0);
}

#[test]
fn a_pool_that_takes_no_chunks_any_more_is_left_as_the_machine_leaves_it() {
    let mut view = machine(&[2, 9], &[(0, 0), (1, 0)]);
    let mut shadows = Shadows::default();
    begin(&mut shadows, &view, "static");
    end_epoch(&mut shadows, &view);
    view.places[0] = 0;
    view.at = [(0, 1), (1, 1)].into();
    read(&mut shadows, 0, 2);
    end_epoch(&mut shadows, &view);
    assert_eq!(only(&shadows).epoch.of(SLOW).accesses(), 2);
    assert_eq!(only(&shadows).epoch.all().moved_in, Bytes(0), "it was not the rival's doing");
}

/// 40,000 chunks of which the first 4,000 fill the fast pool; an eighth is watched.
fn large() -> Pools {
    let mut view = machine(&[4000, 40_000], &[]);
    view.at = (0..40_000).map(|index| (index, u16::from(index >= 4000))).collect();
    view
}

#[test]
fn an_eighth_of_a_large_volume_stands_for_all_of_it() {
    let view = large();
    let mut shadows = Shadows::default();
    begin(&mut shadows, &view, "baseline:k=4000");
    assert_eq!(shadows.one_in(), ONE_IN);
    let mut rng = Rng::seeded(9);
    for _ in 0..2 {
        for _ in 0..80_000 {
            // Every chunk beyond 36,000 is hot.
            let index =
                if rng.below(10) < 8 { 36_000 + rng.below(4000) } else { rng.below(40_000) };
            read(&mut shadows, index as u32, 1);
        }
        end_epoch(&mut shadows, &view);
    }
    let report = only(&shadows);
    let sampled = report.total.all().accesses() as f64 / 80_000.0;
    assert!((sampled - 0.125).abs() < 0.005, "{sampled} of the accesses");
    let (rival, actual) = (report.total.fastest_share(), report.actual_total.fastest_share());
    assert!((rival.unwrap() - 0.82).abs() < 0.02, "{rival:?} of the accesses");
    assert!((actual.unwrap() - 0.02).abs() < 0.01, "{actual:?} of the accesses");
    let moved = report.total.fastest().moved_in.0 / CHUNK.0 * 8;
    assert!(moved.abs_diff(4000) < 200, "{moved} chunks");
}

/// The machine as a placement was shown it: capacity and use by pool, and rates.
#[derive(Default)]
struct Spy(std::sync::Arc<std::sync::Mutex<Vec<[u64; 4]>>>);

impl Placement for Spy {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(
        &mut self,
        _: Nanos,
        view: &dyn VolumeView,
        _: crate::placement::Budget,
        _: &mut Vec<crate::placement::Move>,
    ) {
        for pool in pools(view) {
            let mut visited = Vec::new();
            view.visit_pool(pool, &mut |chunk| visited.push(chunk));
            assert!(
                visited.is_sorted() && visited.iter().all(|&chunk| view.pool_of(chunk) == pool)
            );
            assert_eq!(visited.len() as u64, view.used_chunks(pool));
            let rate = view.traits(pool).services[0].per_second;
            let load = view.load(pool);
            let figures = [view.capacity_chunks(pool), view.used_chunks(pool), rate, load.reads];
            self.0.lock().unwrap().push(figures);
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

#[test]
fn a_rival_sees_a_machine_as_small_as_the_sample_and_full_where_the_machine_is_full() {
    let (view, spy) = (large(), Spy::default());
    let seen = std::sync::Arc::clone(&spy.0);
    let mut shadows = Shadows::default();
    shadows.begin(Nanos(0), &view, ("spy", Box::new(spy)), None).expect("it is the first");
    read(&mut shadows, 7, 3);
    let watched = is_watched(chunk(7), ONE_IN);
    end_epoch(&mut shadows, &view);
    let seen = seen.lock().unwrap();
    let reads = if watched { 3 } else { 0 };
    assert_eq!(seen[..], [[500, 500, 12_500, reads], [5000, 4500, 12_500, 0]]);
}

#[test]
fn shadows_are_bounded_named_once_and_share_one_sample() {
    let view = machine(&[2, 9], &[(0, 0)]);
    let mut shadows = Shadows::default();
    let mut add = |name: &str, share| {
        let begun = shadows.begin(Nanos(0), &view, (name, build("static")), share);
        begun.map_err(|error| error.to_string())
    };
    assert!(add("a", Some(0)).unwrap_err().contains("from 1, all chunks, to 1024"));
    assert!(add("a", Some(1025)).is_err());
    assert_eq!(add("a", Some(2)), Ok(()));
    assert!(add("a", None).unwrap_err().contains("there is a shadow a already"));
    assert!(add("b", Some(4)).unwrap_err().contains("watch one chunk in 2"));
    (1..SHADOWS_MAX).for_each(|i| assert_eq!(add(&i.to_string(), None), Ok(())));
    assert!(add("b", Some(2)).unwrap_err().contains("there are 8 shadows"));
    assert!(shadows.end("b").is_none());
    assert!(shadows.end("a").is_some());
    assert_eq!(shadows.reports().count(), SHADOWS_MAX - 1);
    (1..SHADOWS_MAX).for_each(|i| assert!(shadows.end(&i.to_string()).is_some()));
    assert!(shadows.is_empty());
    begin(&mut shadows, &view, "static");
    assert_eq!(shadows.one_in(), 1, "the next sample is chosen anew");
}

#[test]
fn a_sampled_chunk_costs_the_bytes_that_the_algorithm_states() {
    let mut view = machine(&[1, 1 << 20], &[]);
    view.at = (0..1 << 15).map(|index| (index, 1)).collect();
    let mut shadows = Shadows::default();
    shadows.begin(Nanos(0), &view, ("static", build("static")), Some(1)).expect("the first");
    (0..1 << 15).for_each(|index| read(&mut shadows, index, 1));
    end_epoch(&mut shadows, &view);
    let each = shadows.footprint().index as f64 / f64::from(1 << 15);
    assert!((60.0..60.1).contains(&each), "{each} B a chunk");
}
