//! Shadows of a group: asked at epochs' ends, and never obeyed.

use super::{Bench, CHUNK, tactics};
use crate::Settings;
use thermocline_policy::placement::{Placement, shadow::Report};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

fn placement(spec: &str) -> Box<dyn Placement> {
    let spec = PolicySpec::parse(spec).expect("it is in the registry");
    spec.build_placement().expect("its settings are right")
}

/// A volume of ten chunks over two pools, epochs of ten seconds.
fn bench() -> Bench {
    let settings = Settings {
        epoch: Nanos::from_secs(10),
        tactics: tactics(&["slowest-first"]),
        ..Bench::settings()
    };
    let mut bench = Bench::with_settings(&[4, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(10 * CHUNK)).expect("a volume");
    bench
}

fn only(bench: &Bench) -> Report<'_> {
    bench.group.shadows().reports().next().expect("there is one")
}

#[test]
fn epochs_pass_for_a_shadow_where_nobody_decides_and_nothing_moves() {
    let mut bench = bench();
    bench.write(0, 1, 512);
    assert!(bench.group.explain(ChunkId::default()).is_none(), "nobody decides");
    let rival = ("baseline:k=1", placement("baseline:k=1"));
    bench.group.begin_shadow(bench.now, rival, None).expect("it is the first");
    for _ in 0..3 {
        bench.read(0, 512).expect("readable");
        bench.pass(Nanos::from_secs(11));
    }
    let report = only(&bench);
    assert_eq!((report.epochs, report.total.all().reads), (2, 2));
    assert_eq!(report.total.fastest_share(), Some(1.0));
    assert_eq!(report.actual_total.fastest_share(), Some(0.0));
    assert_eq!(report.total.all().moved_in, Bytes(CHUNK));
    assert_eq!(bench.group.pool_of(ChunkId::default()), Some(PoolId(1)), "it is where it was");
    assert!(bench.group.end_shadow("baseline:k=1").is_some());
    assert_eq!(bench.group.shadows().reports().count(), 0);
}

#[test]
fn a_shadow_of_the_placement_in_force_comes_to_the_same_figures() {
    let mut bench = bench();
    (0..10).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    bench.group.set_named_placement("baseline:k=3", placement("baseline:k=3"));
    let rival = ("baseline:k=3", placement("baseline:k=3"));
    bench.group.begin_shadow(bench.now, rival, None).expect("it is the first");
    for epoch in 0..6 {
        for chunk in epoch..epoch + 3 {
            (0..=chunk).for_each(|_| assert!(bench.read(chunk * CHUNK, 512).is_ok()));
        }
        bench.pass(Nanos::from_secs(11));
    }
    let report = only(&bench);
    assert!(report.actual_total.all().moved_in > Bytes(0));
    assert_eq!(report.total, report.actual_total);
}
