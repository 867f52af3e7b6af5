//! A NAT among hosts, strangers and time, and inspected streams, by seed.
//!
//! `THERMOCLINE_SEEDS` says how many seeds (1,000), `THERMOCLINE_FROM` the first one. A run that
//! fails prints the line that runs its seed alone. The run reports which situations its seeds met;
//! one that none met is a failure. Every mutant must be caught.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

mod streams;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::mutants::plant;
use thermocline_units::situations;

/// Situations that the seeds must have met.
const SITUATIONS: [&str; 18] = [
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
    "a rule with several elements matched",
    "a partial match found no room in its direction",
    "buffers stayed behind at an export",
    "an inspected flow gave way",
];

/// Bugs that a seed must catch.
const MUTANTS: [&str; 12] = [
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
];

/// Seeds in which a mutant must be caught.
const MUTANT_SEEDS: u64 = 1000;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn run(seed: u64) {
    world::World::new(seed).run();
    streams::run(seed);
}

#[test]
fn no_packet_is_altered_wrongly_and_no_mapping_leaks() {
    let from = from_environment("THERMOCLINE_FROM", 0);
    let count = from_environment("THERMOCLINE_SEEDS", 1000);
    let mut reached: BTreeMap<&str, u64> = SITUATIONS.iter().map(|name| (*name, 0)).collect();
    for seed in from..from + count {
        let failed = catch_unwind(AssertUnwindSafe(|| run(seed))).is_err();
        assert!(
            !failed,
            "THERMOCLINE_FROM={seed} THERMOCLINE_SEEDS=1 cargo test -p thermocline-functions \
             --test simulation no_packet"
        );
        for name in situations::take() {
            *reached.entry(name).or_default() += 1;
        }
    }
    for (name, seeds) in &reached {
        eprintln!("{seeds:>6} of {count} seeds: {name}");
    }
    if count >= 1000 && cfg!(debug_assertions) {
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
    for name in MUTANTS {
        let _planted = plant(name);
        let mut seeds = 0..MUTANT_SEEDS;
        match seeds.find(|&seed| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err()) {
            Some(seed) => eprintln!("{name}: caught by seed {seed}"),
            None => survivors.push(name),
        }
        situations::take();
    }
    let _ = std::panic::take_hook();
    assert!(survivors.is_empty(), "no seed catches {survivors:?}");
}
