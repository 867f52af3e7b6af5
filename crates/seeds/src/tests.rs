//! A small simulation: seeds are counted, and whatever is wrong with them is told.

use super::{Met, Seeds, Simulation, met_by, plain};
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

const TEN: Seeds = Seeds { from: 0, count: 10 };

fn simulation() -> Simulation {
    Simulation {
        replay: "thermocline-x --test simulation every_seed".to_string(),
        situations: met_by(10, &["even", "seldom"]),
        never: Some("never"),
    }
}

/// Fails from seed 7 on where the mutant is planted; meets what none may where the other one is.
fn run(seed: u64) {
    met_if(seed.is_multiple_of(2), "even");
    met_if(seed == 9, "seldom");
    met_if(seed == 3 && mutant("meets_what_none_may"), "never");
    assert!(seed < 7 || !mutant("fails_late"), "seed {seed} fails");
}

/// Message of the panic in `of`.
fn panics(of: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(of)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

fn counts(met: &Met<'_>) -> Vec<(String, u64)> {
    met.reached.iter().map(|(name, seeds)| (name.clone(), *seeds)).collect()
}

#[test]
fn seeds_that_met_a_situation_are_counted() {
    let simulation = simulation();
    let all = simulation.run(TEN, run);
    all.report();
    if cfg!(debug_assertions) {
        assert_eq!(counts(&all), [("even".to_string(), 5), ("seldom".to_string(), 1)]);
    }
}

#[test]
fn a_situation_that_none_met_is_a_failure_where_there_were_enough_seeds() {
    let simulation = simulation();
    let odd = |seed: u64| met_if(!seed.is_multiple_of(2), "even");
    simulation.run(Seeds { count: 9, ..TEN }, odd).report();
    if cfg!(debug_assertions) {
        let met = simulation.run(TEN, odd);
        assert_eq!(panics(|| met.report()), r#"no seed met ["seldom"]"#);
    }
}

#[test]
fn a_seed_that_fails_gives_the_line_that_runs_it_alone() {
    let message = panics(|| drop(simulation().run(TEN, |seed| assert_ne!(seed, 4))));
    let line = "THERMOCLINE_FROM=4 THERMOCLINE_SEEDS=1 cargo test -p thermocline-x";
    assert_eq!(message, format!("{line} --test simulation every_seed"));
}

#[test]
fn a_seed_that_meets_what_none_may_is_a_failure() {
    if cfg!(debug_assertions) {
        let message = panics(|| drop(simulation().run(TEN, |_| met("never"))));
        assert!(message.contains("seed 0"), "{message}");
    }
}

#[test]
fn a_mutant_is_caught_by_a_failure_or_by_what_none_may_meet() {
    simulation().catch(plain(&["fails_late", "meets_what_none_may"]), 10, run);
    if cfg!(debug_assertions) {
        let few = || simulation().catch(plain(&["fails_late", "meets_what_none_may"]), 5, run);
        assert_eq!(panics(few), r#"no seed catches ["fails_late"]"#);
    }
}
