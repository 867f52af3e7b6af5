//! Two ends of a tunnel, a link that breaks, caches that are lost, and units that cut and fail, by
//! seed.
//!
//! `THERMOCLINE_SEEDS` says how many seeds (2,000), `THERMOCLINE_FROM` the first one. A run that
//! fails prints the line that runs its seed alone. The run reports which situations its seeds met;
//! one that none met is a failure. Every mutant must be caught.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

mod compute;
mod device;
mod unit;
mod world;

use thermocline_seeds::{Seeds, Simulation, met_by, plain};
use world::World;

/// Situations that the seeds must have met.
const SITUATIONS: [&str; 24] = [
    "chunks were missing",
    "the other end asked for chunks",
    "a segment waits for the connection",
    "a client reset its flow",
    "the connection broke",
    "a cache was lost",
    "a cache of an older run came back",
    "a cache was saved and read by another process",
    "a flow waits for the other end",
    "a flow was dropped whose client has everything",
    "a chunk is read from the device",
    "the device returned other bytes",
    "the disk tier lost a chunk",
    "the device did not return a chunk in time",
    "the disk tier is given up",
    "a unit's answer was used",
    "a false answer was found",
    "a job failed, and the unit goes on",
    "a unit did not answer in time",
    "an answer came that nobody waits for",
    "a unit was taken away",
    "a unit came back",
    "a unit has as many jobs as it takes",
    "a flow is flushed while a unit cuts",
];

/// A situation that no seed may meet, meet, because no store goes bad here: the check of a segment
/// would hide that a name stood for other bytes.
const NEVER: &str = "a chunk of the store went bad";

/// Bugs that a seed must catch.
const MUTANTS: [&str; 15] = [
    "retained_until_sent_only",
    "names_of_an_older_peer_are_kept",
    "reference_without_a_look_at_the_bytes",
    "the_last_chunk_is_not_flushed",
    "end_before_fills",
    "no_credit_for_a_long_segment",
    "next_name_is_not_saved",
    "the_device_is_believed",
    "a_chunk_that_the_device_lost_is_not_asked_for",
    "a_segment_is_written_over_before_its_chunks_are_forgotten",
    "an_answer_is_believed",
    "a_lost_job_is_waited_for",
    "what_a_failed_unit_had_is_forgotten",
    "a_unit_is_not_told_the_bytes_before",
    "a_flush_is_lost_while_a_unit_cuts",
];

/// Seeds in which a mutant must be caught.
const MUTANT_SEEDS: u64 = 3000;

fn simulation() -> Simulation {
    Simulation {
        replay: "thermocline-tunnel --test simulation every_byte".to_string(),
        situations: met_by(1000, &SITUATIONS),
        never: Some(NEVER),
    }
}

#[test]
fn every_byte_arrives_and_no_flow_is_stuck() {
    simulation().run(Seeds::asked(2000), |seed| World::new(seed).run()).report();
}

#[test]
fn every_mutant_is_caught() {
    simulation().catch(plain(&MUTANTS), MUTANT_SEEDS, |seed| World::new(seed).run());
}
