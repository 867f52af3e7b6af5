//! A platform with slots that hang, lie and die, loads, moves and reloads at any moment, by seed.
//!
//! `THERMOCLINE_SEEDS` says how many seeds (300), `THERMOCLINE_FROM` the first one. A run that
//! fails prints the line that runs its seed alone. The run reports which situations its seeds met;
//! one that none met is a failure. Every mutant must be caught; `THERMOCLINE_MUTANT` says which
//! alone.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

mod restless;
mod workers;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::mutants::plant;
use thermocline_units::situations;
use world::World;

/// Situations that the seeds must have met.
const SITUATIONS: [&str; 35] = [
    "a draining slot failed",
    "a failed slot was tried again",
    "a flow had no place",
    "a flow had to move again",
    "a flow lost its place",
    "a flow moved for balance",
    "a flow waited for its packets",
    "a function moved to another slot",
    "a function was loaded in advance",
    "a load failed",
    "a packet came to a slot that had failed",
    "a packet was held",
    "a queue was full",
    "a running slot failed",
    "a slot failed before it took over state",
    "a slot was loaded with another function",
    "a transfer of state failed",
    "a worker answered another question",
    "a worker did not answer",
    "a worker lied",
    "a worker reported a failure",
    "an answer came before that of an earlier batch",
    "an answer came too late or twice",
    "an idle flow was forgotten",
    "an image did not fit any more",
    "state was carried over",
    "the flow table was full",
    "the processor failed",
    "the state of a flow was lost",
    "the state of several functions moved",
    "too many packets were held",
    "a card was emptied while it ran",
    "a chain was changed while it ran",
    "a version was replaced",
    "a slot was reserved or given back",
];

/// Bugs that a seed must catch.
const MUTANTS: [&str; 9] = [
    "a_flow_moves_with_packets_under_way",
    "a_forgotten_flow_keeps_its_tag",
    "a_full_queue_is_not_counted",
    "a_lie_is_believed",
    "a_port_loads_two_slots_at_once",
    "an_answer_overtakes_another",
    "flows_stay_at_a_failed_slot",
    "held_packets_enter_backwards",
    "state_is_left_behind",
];

/// Seeds in which a mutant must be caught.
const MUTANT_SEEDS: u64 = 1000;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn no_packet_is_lost_uncounted_overtaken_or_altered_and_nothing_leaks() {
    let from = from_environment("THERMOCLINE_FROM", 0);
    let count = from_environment("THERMOCLINE_SEEDS", 300);
    let mut reached: BTreeMap<&str, u64> = SITUATIONS.iter().map(|name| (*name, 0)).collect();
    for seed in from..from + count {
        let failed = catch_unwind(AssertUnwindSafe(|| World::new(seed).run())).is_err();
        assert!(
            !failed,
            "THERMOCLINE_FROM={seed} THERMOCLINE_SEEDS=1 cargo test -p thermocline-accel \
             --test simulation no_packet"
        );
        for name in situations::take() {
            *reached.entry(name).or_default() += 1;
        }
    }
    for (name, seeds) in &reached {
        eprintln!("{seeds:>6} of {count} seeds: {name}");
    }
    if count >= 300 && cfg!(debug_assertions) {
        let never: Vec<_> = SITUATIONS.iter().filter(|name| reached[*name] == 0).collect();
        assert!(never.is_empty(), "no seed met {never:?}");
    }
}

#[test]
fn every_mutant_is_caught() {
    if !cfg!(debug_assertions) {
        eprintln!("SKIPPED: mutants exist in builds with debug assertions only");
        return;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let mut survivors = Vec::new();
    let only = std::env::var("THERMOCLINE_MUTANT").unwrap_or_default();
    for name in MUTANTS.into_iter().filter(|name| name.contains(&only)) {
        let _planted = plant(name);
        let caught = (0..MUTANT_SEEDS).find(|&seed| {
            let failed = catch_unwind(AssertUnwindSafe(|| World::new(seed).run())).is_err();
            situations::take();
            failed
        });
        match caught {
            Some(seed) => eprintln!("{name}: caught by seed {seed}"),
            None => survivors.push(name),
        }
    }
    let _ = std::panic::take_hook();
    assert!(survivors.is_empty(), "no seed catches {survivors:?}");
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = |seed| {
        let end = World::new(seed).run();
        situations::take();
        end
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
