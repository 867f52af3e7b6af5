//! LMsT's queues by hand, and its windows on two and three pools.

use super::queue::{Migration, Mix, Queue};
use super::{Form, Rate};
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to};
use crate::placement::{ChunkAccess, Placement, PoolLoad, PoolTraits, Service, Sla, SlaClass};
use thermocline_units::{Bytes, Nanos, PoolId};

/// A pool that serves so many bytes a second, whatever the pattern.
fn serving(bytes_per_s: u64) -> PoolTraits {
    let service = Service { latency: Nanos(1), per_second: bytes_per_s / 4096 };
    PoolTraits { services: [service; 4], ..PoolTraits::assumed(PoolId(0), 1) }
}

/// The source's two tiers: 500 and 160 MB/s, in steps of 4 KiB.
fn tiers(at: &[(u32, u16)]) -> Pools {
    let mut pools = Pools::new(&[8, 100], at);
    pools.traits = vec![serving(500 << 20), serving(160 << 20)];
    pools.epoch = Nanos::from_secs(10);
    pools
}

/// Reads of 100 KiB from a chunk, so many MiB of them.
fn read(lmst: &mut dyn Placement, index: u32, mib: u64) {
    for at in 0..mib * 1024 / 100 {
        let (offset, bytes) = (Bytes(at % 9 * (100 << 10)), Bytes::from_kib(100));
        let (at, chunk) = (Nanos(0), chunk(index));
        lmst.observe(&ChunkAccess { at, chunk, offset, bytes, write: false });
    }
}

#[test]
fn a_queue_waits_and_answers_as_eq_6_to_9_say() {
    let mut queue = Queue::new(&serving(1000 * 4096), &Mix::default());
    queue.join(400.0 * 4096.0, 0.001);
    queue.join(400.0 * 4096.0, 0.02);
    assert!((queue.load() - 0.8).abs() < 1e-12);
    // Strict requests see 400 of 1,000 units, loose ones 800: 2/3 and 4 requests wait.
    assert!((queue.waiting(0.001, 0.0) - 4096.0 * 2.0 / 3.0).abs() < 1e-6);
    assert!((queue.waiting(0.02, 0.0) - 4.0 * 4096.0).abs() < 1e-6);
    assert_eq!(queue.waiting(0.02, 200.0 * 4096.0), f64::INFINITY);
    // 20 ms of 1,000 units a second are 20 units, 1 ms is one.
    assert!((queue.bearable(0.02) - 20.0 * 4096.0).abs() < 1e-6);
    queue.leave(400.0 * 4096.0, 0.02);
    assert!((queue.spare(0.0) - 600.0 * 4096.0).abs() < 1e-6);
}

#[test]
fn a_queue_is_as_fast_as_what_it_completed_shows() {
    let serves = |latency: Nanos| Service { latency, per_second: 1000 };
    let load = |latency_ms: u64| PoolLoad {
        reads: 600,
        read_bytes: Bytes(600 * 4096),
        read_latency: Nanos::from_micros(latency_ms * 1000),
        ..PoolLoad::default()
    };
    // One at a time: 60 a second that take 10 ms each leave 100 a second, in all 160.
    let disk = PoolTraits { services: [serves(Nanos::from_micros(1000)); 4], ..serving(1 << 30) };
    let of = |traits: &PoolTraits, load: PoolLoad| {
        Queue::new(traits, &Mix::default()).measured(traits, &load, 10.0)
    };
    assert!((of(&disk, load(10)).spare(0.0) - 160.0 * 4096.0).abs() < 1e-6);
    // Four at once leave four times as many.
    let flash = PoolTraits { services: [serves(Nanos::from_micros(4 * 1000)); 4], ..disk };
    assert!((of(&flash, load(10)).spare(0.0) - 460.0 * 4096.0).abs() < 1e-6);
    // Too few tell nothing: the profile counts.
    let few = PoolLoad { reads: 29, ..load(10) };
    assert!((of(&disk, few).spare(0.0) - 1000.0 * 4096.0).abs() < 1e-6);
}

#[test]
fn a_pool_that_is_slower_than_its_profile_takes_no_more() {
    let moves = |policy: &str| {
        let mut lmst = build(policy);
        let mut view = tiers(&[(0, 0), (1, 1)]);
        // The fastest pool answers in half a second, its profile says two milliseconds.
        view.loads[0] = PoolLoad {
            reads: 1000,
            read_bytes: Bytes::from_mib(100),
            read_latency: Nanos::from_micros(500 * 1000),
            ..PoolLoad::default()
        };
        read(lmst.as_mut(), 1, 50);
        let moves = propose_to(lmst.as_mut(), &view);
        moves.into_iter().filter(|(_, to)| *to == 0).collect::<Vec<_>>()
    };
    assert_eq!(moves("lmst:memory=0:service=profile"), [(1, 0)]);
    assert_eq!(moves("lmst:memory=0"), []);
}

#[test]
fn a_pool_that_cannot_keep_up_is_relieved_all_the_same() {
    let mut lmst = build("lmst:memory=0");
    let mut view = tiers(&[(1, 1), (2, 1)]);
    // It completes half of what is asked of it, and takes seconds for it.
    view.loads[1] = PoolLoad {
        reads: 250,
        read_bytes: Bytes::from_mib(25),
        read_latency: Nanos::from_secs(4),
        ..PoolLoad::default()
    };
    read(lmst.as_mut(), 1, 30);
    read(lmst.as_mut(), 2, 20);
    assert_eq!(propose_to(lmst.as_mut(), &view).first(), Some(&(1, 0)));
}

#[test]
fn moving_load_from_a_busy_pool_to_an_idle_one_pays_and_back_it_does_not() {
    let (mut busy, idle) = (
        Queue::new(&serving(1 << 20), &Mix::default()),
        Queue::new(&serving(1 << 20), &Mix::default()),
    );
    busy.join(900_000.0, 0.02);
    let migration = Migration { rate: 400_000.0, extra: 50_000.0, takes: 1.0, window: 100.0 };
    assert!(migration.benefit(&busy, &idle, Form::Corrected) > 0.3);
    assert!(migration.benefit(&idle, &busy, Form::Corrected) < 0.0);
    // As printed the copy takes all that is left of a pool, and each response is endless meanwhile.
    let printed = Migration { extra: busy.spare(0.0), ..migration };
    assert_eq!(printed.benefit(&busy, &idle, Form::Printed), f64::NEG_INFINITY);
}

#[test]
fn a_rate_is_the_mean_and_deviation_of_its_windows() {
    let mut rate = Rate::default();
    for bytes in [8.0, 0.0] {
        rate.note(bytes, 0.5);
    }
    // Weights 1/4 for 8, 3/4 for 0: mean 2, variance 1/4 · 36 + 3/4 · 4.
    assert_eq!((rate.mean, rate.variance), (2.0, 12.0));
    (0..60).for_each(|_| rate.note(0.0, 0.5));
    assert_eq!((rate.mean, rate.variance), (0.0, 0.0));
}

#[test]
fn hot_chunks_come_up_hottest_first_and_cold_loose_ones_leave_before() {
    let mut lmst = build("lmst:memory=0");
    let view = tiers(&[(0, 0), (1, 0), (2, 1), (3, 1), (4, 1)]);
    for (index, mib) in [(1, 2), (2, 50), (3, 100), (4, 1)] {
        read(lmst.as_mut(), index, mib);
    }
    // Chunk 4, at 100 KiB a second, is hot as well, chunk 0 cold.
    assert_eq!(propose_to(lmst.as_mut(), &view), [(0, 1), (3, 0), (2, 0), (4, 0)]);
    for (settings, expected) in [
        ("sla=1ms", vec![(3, 0), (2, 0), (4, 0)]),
        ("hot=2MiB", vec![(0, 1), (3, 0), (2, 0)]),
        ("e=0.9", vec![(0, 1)]),
        ("form=printed", vec![(0, 1)]),
    ] {
        let mut lmst = build(&format!("lmst:memory=0:{settings}"));
        for (index, mib) in [(1, 2), (2, 50), (3, 100), (4, 1)] {
            read(lmst.as_mut(), index, mib);
        }
        assert_eq!(propose_to(lmst.as_mut(), &view), expected, "{settings}");
    }
}

#[test]
fn an_sla_that_would_be_broken_forbids_a_migration() {
    // A small fast pool of 3 MiB a second, of which 2 MiB are asked for by chunk 0; chunk 1 brings
    // half a MiB: requests of 100 KiB then wait for 5 others, 160 ms.
    let run = |sla: &str| {
        let mut lmst = build(&format!("lmst:memory=0:e=-1000:share=0.9:loose=1s:sla={sla}"));
        let mut view = tiers(&[(0, 0), (1, 1)]);
        view.traits[0] = serving(3 << 20);
        read(lmst.as_mut(), 0, 20);
        read(lmst.as_mut(), 1, 5);
        propose_to(lmst.as_mut(), &view)
    };
    assert_eq!(run("100ms"), []);
    assert_eq!(run("300ms"), [(1, 0)]);
}

#[test]
fn what_does_not_end_within_the_window_is_dropped() {
    // 10 MiB a second: a chunk of 1 MiB, times 1.1, at half of the spare rate takes a quarter of a
    // second and more, one after the other.
    let at: Vec<_> = (0..100).map(|index| (index, 1)).collect();
    let mut lmst = build("lmst:memory=0:e=-1");
    let mut view = tiers(&at);
    (view.places, view.traits) = (vec![100, 100], vec![serving(500 << 20), serving(10 << 20)]);
    (0..100).for_each(|index| read(lmst.as_mut(), index, 1));
    // Nearly all of the slow pool's rate is asked for; the spare part grows with each that leaves.
    let moves = propose_to(lmst.as_mut(), &view);
    assert!((1..50).contains(&moves.len()), "{} moves", moves.len());
}

#[test]
fn chunks_migrate_between_tiers_of_like_pools_and_to_the_least_loaded_one() {
    // Two fast pools and three slow ones. Chunk 0 loads the first fast pool; the hot chunk 1 comes
    // to the second. Chunk 2 is cold: it leaves for the first slow pool, which has no load.
    let mut lmst = build("lmst:memory=0");
    let mut view = Pools::new(&[4, 4, 9, 9, 9], &[(0, 0), (1, 4), (2, 0), (3, 3)]);
    view.traits = [500, 500, 160, 160, 160].map(|mib| serving(mib << 20)).to_vec();
    view.epoch = Nanos::from_secs(10);
    for (index, mib) in [(0, 80), (1, 60), (3, 1)] {
        read(lmst.as_mut(), index, mib);
    }
    assert_eq!(propose_to(lmst.as_mut(), &view), [(2, 2), (1, 1), (3, 1)]);
    // Were all alike, there would be nowhere to go.
    let mut lmst = build("lmst:memory=0");
    view.traits = vec![serving(160 << 20); 5];
    read(lmst.as_mut(), 1, 60);
    assert_eq!(propose_to(lmst.as_mut(), &view), []);
}

#[test]
fn a_volumes_own_sla_counts_before_the_settings() {
    // As above: 160 ms are too long for an SLA of 100 ms, and not for one of 300 ms.
    let run = |sla: &str, own: Option<u64>| {
        let mut lmst = build(&format!("lmst:memory=0:e=-1000:share=0.9:loose=1s:sla={sla}"));
        let mut view = tiers(&[(0, 0), (1, 1)]);
        view.traits[0] = serving(3 << 20);
        let class = SlaClass::Strict;
        view.sla = own.map(|ms| Sla { latency: Nanos(ms * 1_000_000), class });
        read(lmst.as_mut(), 0, 20);
        read(lmst.as_mut(), 1, 5);
        propose_to(lmst.as_mut(), &view)
    };
    assert_eq!(run("100ms", Some(300)), [(1, 0)]);
    assert_eq!(run("300ms", Some(100)), []);
    assert_eq!(run("300ms", None), [(1, 0)]);
}

#[test]
fn cold_chunks_of_loose_volumes_leave_and_those_of_strict_ones_stay() {
    let run = |settings: &str, class: SlaClass| {
        let mut lmst = build(&format!("lmst:memory=0:{settings}"));
        let mut view = tiers(&[(0, 0), (1, 1)]);
        view.sla = Some(Sla { latency: Nanos(5_000_000), class });
        propose_to(lmst.as_mut(), &view)
    };
    // Whatever the settings take for loose.
    for settings in ["loose=1ms", "loose=1s"] {
        assert_eq!(run(settings, SlaClass::Loose), [(0, 1)]);
        assert_eq!(run(settings, SlaClass::Strict), []);
    }
}
