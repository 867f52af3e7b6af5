//! A NAT among hosts, strangers and time, and inspected streams, by seed.
//!
//! `THERMOCLINE_SEEDS` says how many seeds (1,000), `THERMOCLINE_FROM` the first one. A run that
//! fails prints the line that runs its seed alone. The run reports which situations its seeds met;
//! one that none met is a failure. Every mutant must be caught.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

mod streams;
mod world;

use thermocline_seeds::{Seeds, Simulation, met_by, plain};

/// Situations that the seeds must have met.
const SITUATIONS: [&str; 29] = [
    "a packet turned",
    "a host has all its ports",
    "ports are exhausted",
    "a flow gave way",
    "the table is full of flows in use",
    "a stranger was let in",
    "an error came in",
    "an error went out",
    "a flow was idle for too long",
    "a fragment waited for the first one",
    "flows were imported",
    "bytes came ahead of a gap",
    "a segment contradicts what is buffered",
    "a segment was new in part",
    "ports of a connection were used again",
    "a SYN came in an open connection",
    "something came before the answer to a SYN",
    "a segment acknowledged what was never sent",
    "a segment was urgent",
    "bytes came before the beginning of a connection",
    "an end that came ahead of a gap was reached",
    "a rule with several elements matched",
    "a partial match found no room in its direction",
    "buffers stayed behind at an export",
    "an inspected flow gave way",
    "a literal may end here",
    "bytes were skipped",
    "the filter was of little use",
    "a match of an expression has begun",
];

/// Bugs that a seed must catch.
const MUTANTS: [&str; 22] = [
    "checksum_with_the_wrong_sign",
    "udp_without_checksum_gets_one",
    "port_given_twice",
    "port_stays_taken",
    "open_flows_give_way",
    "filter_lets_everybody_in",
    "quoted_packet_is_not_translated",
    "automaton_begins_anew_with_each_segment",
    "distance_does_not_count",
    "drop_goes_before_pass",
    "later_bytes_of_an_overlap_are_believed",
    "bytes_ahead_of_a_gap_are_not_kept",
    "bytes_of_a_syn_count",
    "bytes_before_an_answer_count",
    "any_acknowledgement_counts",
    "urgent_bytes_pass",
    "bytes_before_the_beginning_pass",
    "an_end_ahead_of_a_gap_is_forgotten",
    "state_before_a_skip_is_forgotten",
    "automaton_begins_a_byte_too_late",
    "state_behind_the_last_byte_is_not_decided",
    "a_match_that_has_begun_is_skipped",
];

/// Seeds in which a mutant must be caught.
const MUTANT_SEEDS: u64 = 1000;

fn simulation() -> Simulation {
    Simulation {
        replay: "thermocline-functions --test simulation no_packet".to_string(),
        situations: met_by(1000, &SITUATIONS),
        ..Simulation::default()
    }
}

fn run(seed: u64) {
    world::World::new(seed).run();
    streams::run(seed);
}

#[test]
fn no_packet_is_altered_wrongly_and_no_mapping_leaks() {
    simulation().run(Seeds::asked(1000), run).report();
}

#[test]
fn every_mutant_is_caught() {
    simulation().catch(plain(&MUTANTS), MUTANT_SEEDS, run);
}
