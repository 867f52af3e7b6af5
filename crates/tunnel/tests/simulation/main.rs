//! Two ends of a tunnel, a link that breaks and caches that are lost, by seed.
//!  `THERMOCLINE_SEEDS` says how many seeds (2,000), `THERMOCLINE_FROM` the first one. A run that
//! fails prints the line that runs its seed alone. The run reports which situations its seeds met;
//! one that none met is a failure. Every mutant must be caught.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

mod device;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::mutants::plant;
use thermocline_units::situations;
use world::World;

/// Situations that the seeds must have met.
const SITUATIONS: [&str; 14] = [
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
    "the disk tier is given up",
];

/// A situation that no seed may meet, meet, because no store goes bad here: the check of a segment
/// would hide that a name stood for other bytes.
const NEVER: &str = "a chunk of the store went bad";

/// Bugs that a seed must catch.
const MUTANTS: [&str; 10] = [
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
];

/// Seeds in which a mutant must be caught.
const MUTANT_SEEDS: u64 = 3000;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn every_byte_arrives_and_no_flow_is_stuck() {
    let from = from_environment("THERMOCLINE_FROM", 0);
    let count = from_environment("THERMOCLINE_SEEDS", 2000);
    let mut reached: BTreeMap<&str, u64> = SITUATIONS.iter().map(|name| (*name, 0)).collect();
    for seed in from..from + count {
        let failed = catch_unwind(AssertUnwindSafe(|| World::new(seed).run())).is_err();
        assert!(
            !failed,
            "THERMOCLINE_FROM={seed} THERMOCLINE_SEEDS=1 cargo test -p thermocline-tunnel \
             --test simulation every_byte"
        );
        let met = situations::take();
        assert!(!met.contains(NEVER), "seed {seed}: {NEVER}");
        for name in met {
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
        let caught = (0..MUTANT_SEEDS).find(|&seed| {
            let failed = catch_unwind(AssertUnwindSafe(|| World::new(seed).run())).is_err();
            situations::take().contains(NEVER) || failed
        });
        match caught {
            Some(seed) => eprintln!("{name}: caught by seed {seed}"),
            None => survivors.push(name),
        }
    }
    let _ = std::panic::take_hook();
    assert!(survivors.is_empty(), "no seed catches {survivors:?}");
}
