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

use thermocline_seeds::{Seeds, Simulation, met_by, plain};
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

fn simulation() -> Simulation {
    Simulation {
        replay: "thermocline-accel --test simulation no_packet".to_string(),
        situations: met_by(300, &SITUATIONS),
        ..Simulation::default()
    }
}

#[test]
fn no_packet_is_lost_uncounted_overtaken_or_altered_and_nothing_leaks() {
    simulation().run(Seeds::asked(300), |seed| World::new(seed).run()).report();
}

#[test]
fn every_mutant_is_caught() {
    simulation().catch(plain(&MUTANTS), MUTANT_SEEDS, |seed| World::new(seed).run());
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
