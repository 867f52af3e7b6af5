//! Verdicts over seeds that differ from each other.

use super::super::{Load, Measures, Point, Runs, Served};
use super::{alpha, gain_shrinks, improves};

/// Runs whose responses, violations and excess are these, a seed each.
fn runs(values: &[f64]) -> Runs {
    let run = |&value: &f64| {
        let served = Served { response_ms: value, violations_percent: value, excess_ms: value };
        Measures {
            all: served,
            strict: served,
            applications: Vec::new(),
            busy: Vec::new(),
            moving_response_ms: value,
            migrated_percent: value,
        }
    };
    Runs(values.iter().map(run).collect())
}

fn load(nmst: &[f64], lmst: &[f64]) -> Load {
    Load {
        size: "70 GB".to_string(),
        burst: 0.5,
        bursty_slots: 0.0,
        nmst: runs(nmst),
        lmst: runs(lmst),
        smst: runs(lmst),
    }
}

#[test]
fn seeds_that_differ_more_than_contenders_do_are_compared_pair_by_pair() {
    let alike = load(&[100.0, 200.0, 400.0], &[90.0, 181.0, 358.0]);
    assert!(improves(&[alike]).holds);
    // Less in the mean, and by chance.
    let by_chance = load(&[100.0, 200.0, 400.0], &[30.0, 210.0, 380.0]);
    assert!(!improves(&[by_chance]).holds);
}

#[test]
fn a_gain_that_shrinks_by_chance_does_not_hold() {
    let light = load(&[100.0, 100.0, 100.0], &[10.0, 12.0, 11.0]);
    let heavy = load(&[100.0, 100.0, 100.0], &[50.0, 55.0, 52.0]);
    assert!(gain_shrinks(&[light.clone(), heavy]).holds);
    let either_way = load(&[100.0, 100.0, 100.0], &[5.0, 40.0, 10.0]);
    assert!(!gain_shrinks(&[light, either_way]).holds);
}

#[test]
fn the_best_alpha_is_one_that_all_others_are_certainly_worse_than() {
    let point = |value: f64, responses: &[f64]| Point { value, lmst: runs(responses) };
    let (at_0, at_3) = (point(0.0, &[12.0, 23.0]), point(0.3, &[10.0, 20.0]));
    assert!(!alpha(&[at_0.clone(), at_3.clone()], 0.3, 0.1).holds, "two seeds say little");
    let (at_0, at_3) = (point(0.0, &[12.0, 24.0, 36.1]), point(0.3, &[10.0, 20.0, 30.0]));
    assert!(alpha(&[at_0.clone(), at_3.clone()], 0.3, 0.1).holds);
    assert!(!alpha(&[at_0, at_3], 0.0, 0.1).holds);
}
