//! The written bytes follow the budget.

use super::{Admission, Budget, PROBABILITY_MIN};
use crate::cache::Tag;
use crate::registry::{Geometry, PolicySpec};
use thermocline_units::{LineId, Nanos};

const LINE: f64 = 4096.0;

fn budget(spec: &str) -> Budget {
    let spec = PolicySpec::parse(&format!("{spec}+lru")).unwrap();
    Budget::read(&Geometry::for_tests(), &spec.filter.unwrap().settings).unwrap()
}

/// Ten-second epochs, each with `misses` of which the filter admits some and `write_hits`; the
/// bytes written in all of them.
fn run(budget: &mut Budget, epochs: std::ops::Range<u64>, misses: u32, write_hits: u32) -> f64 {
    let mut written = 0.0;
    for epoch in epochs {
        for i in 0..misses {
            written += if budget.admit(LineId(i), Tag::default()) { LINE } else { 0.0 };
        }
        for i in 0..write_hits {
            budget.on_hit(LineId(i), Tag::new(0, true));
            budget.on_hit(LineId(i), Tag::new(0, false));
            written += LINE;
        }
        budget.end_epoch(Nanos::from_secs(10 * (epoch + 1)));
    }
    written
}

#[test]
fn written_bytes_follow_the_rate_whatever_is_offered() {
    for misses in [3000, 20_000] {
        let mut budget = budget("budget:rate=400KiB:horizon=100s");
        let written = run(&mut budget, 0..60, misses, 0);
        let aim = 400.0 * 1024.0 * 600.0;
        assert!((written / aim - 1.0).abs() < 0.02, "{misses} misses: {}", written / aim);
    }
}

#[test]
fn write_hits_count_against_the_budget() {
    // 600 write hits a second-epoch of 10 s are 240 KiB a second of the 400.
    let mut budget = budget("budget:rate=400KiB:horizon=100s");
    let written = run(&mut budget, 0..60, 5000, 600);
    let aim = 400.0 * 1024.0 * 600.0;
    assert!((written / aim - 1.0).abs() < 0.02, "{}", written / aim);
}

#[test]
fn the_probability_moves_by_one_step_an_epoch_after_the_first() {
    let mut budget = budget("budget:rate=400KiB:step=0.25");
    run(&mut budget, 0..1, 10_000, 0);
    let first = budget.probability;
    assert!((first - 0.1).abs() < 0.005, "1000 of 10,000 lines an epoch: {first}");
    run(&mut budget, 1..2, 100, 0);
    assert_eq!(budget.probability, first * 1.25);
    run(&mut budget, 2..3, 1_000_000, 0);
    assert_eq!(budget.probability, first);
}

#[test]
fn a_budget_that_hits_use_up_leaves_hardly_an_admission_and_recovers() {
    let mut budget = budget("budget:rate=4KiB:horizon=100s");
    run(&mut budget, 0..50, 1000, 1000);
    assert_eq!(budget.probability, PROBABILITY_MIN);
    run(&mut budget, 50..51, 0, 0);
    assert!(budget.probability >= PROBABILITY_MIN, "an idle epoch divides by nothing");
}

#[test]
fn time_that_stands_still_changes_nothing() {
    let mut budget = budget("budget");
    run(&mut budget, 0..1, 1000, 0);
    let before = budget.probability;
    budget.admit(LineId(0), Tag::default());
    budget.end_epoch(Nanos::from_secs(10));
    assert_eq!((budget.probability, budget.epochs_ended), (before, 1));
}
