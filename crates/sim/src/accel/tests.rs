//! Claims about the laboratory of accelerators: what the platform promises holds on modelled slots.

use super::{BEST, Happening, Row, Scene, run};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::Nanos;

fn rows(scene: &Scene) -> Vec<Row> {
    let specs = ["by-cost", "first-fit"].map(|text| PolicySpec::parse(text).unwrap());
    run(scene, &specs, &[1]).unwrap()
}

/// A scene that is short enough for a test.
fn short(happening: Happening) -> Scene {
    let mut scene = Scene::chain(happening);
    scene.tenants[0].rate = 30_000.0;
    (scene.at, scene.length) = (Nanos(200_000_000), Nanos(500_000_000));
    scene
}

#[test]
fn no_packet_overtakes_another_whatever_happens() {
    for happening in [
        Happening::Demand(3.0),
        Happening::FunctionAdded(1),
        Happening::SlotDies(1),
        Happening::CardDrained,
    ] {
        for row in rows(&short(happening)) {
            let overtaken: u64 = row.outcomes.iter().map(|outcome| outcome.overtaken).sum();
            assert_eq!(overtaken, 0, "{happening:?} {}", row.policy);
        }
    }
}

#[test]
fn equal_seeds_give_equal_results() {
    let figures = || -> Vec<(String, u64, u64, u64)> {
        let row = |row: &Row| {
            let outcome = &row.outcomes[0];
            (row.policy.clone(), outcome.carried, outcome.late, outcome.lost)
        };
        rows(&short(Happening::Demand(2.0))).iter().map(row).collect()
    };
    assert_eq!(figures(), figures());
}

#[test]
fn a_drained_card_loses_neither_packets_nor_state() {
    let rows = rows(&short(Happening::CardDrained));
    let by_cost = &rows[0].outcomes[0];
    assert_eq!((by_cost.lost, by_cost.states_lost), (0, 0));
}

#[test]
fn a_reload_leaves_flows_on_other_slots_alone() {
    let mut scene = Scene::tenants();
    (scene.at, scene.length) = (Nanos(300_000_000), Nanos(600_000_000));
    let rows = rows(&scene);
    let by_cost = &rows[0].outcomes[0];
    assert!(by_cost.loads > 0, "a slot was loaded anew");
    let growth = by_cost.growth(|tenant| tenant == 0).expect("packets came meanwhile");
    assert!(growth <= 0.05, "p99 of flows on other slots grew by {growth}");
}

#[test]
fn a_scene_that_makes_no_sense_is_refused() {
    let specs = [PolicySpec::parse("by-cost").unwrap()];
    let mut scene = Scene::chain(Happening::Nothing);
    scene.tenants[0].rate = -1.0;
    assert!(run(&scene, &specs, &[1]).is_err());
    let lru = [PolicySpec::parse("lru").unwrap()];
    let error = run(&Scene::chain(Happening::Nothing), &lru, &[1]).expect_err("no scheduler");
    assert!(error.to_string().contains("accelerator scheduler; those are by-cost"), "{error}");
    let rows = rows(&short(Happening::Nothing));
    assert_eq!(rows.last().unwrap().policy, BEST);
}
