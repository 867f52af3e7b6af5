//! Bugs that stand in the code, each planted in turn: the tests must notice.
//!
//! docs/testing/simulation.md tells what mutants are. Those that need two programs, or a bucket
//! that has forgotten, are noticed by the test about that; all others by the simulation.

use super::{bucket, crash, owners};
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::mutants::plant;

/// Noticed by a seed of the simulation.
const SIMULATED: [&str; 12] = [
    "doubtful_record_forgotten",
    "failed_flush_succeeds",
    "failed_object_counts",
    "flush_waits_for_one_layer",
    "forced_write_answered_from_memory",
    "log_deleted_although_the_map_failed",
    "old_objects_deleted_although_the_record_failed",
    "old_objects_deleted_before_the_record",
    "openings_not_counted",
    "read_ahead_of_any_generation",
    "record_before_its_objects",
    "sweep_takes_this_openings_objects",
];

/// Noticed by a test of its own.
const TESTED: [(&str, fn()); 7] = [
    (
        "another_ones_lock_passed",
        owners::whoever_finds_another_ones_lock_in_place_of_its_own_has_lost_the_device,
    ),
    (
        "another_ones_record_counts",
        owners::a_program_that_was_held_up_finds_its_device_gone_and_changes_nothing,
    ),
    (
        "any_record_is_ours",
        owners::a_program_that_was_held_up_finds_its_device_gone_and_changes_nothing,
    ),
    ("blocks_not_checked", bucket::an_answer_that_is_not_what_was_written_is_an_error),
    ("doubt_never_ends", bucket::nothing_is_told_of_extents_that_were_blank_and_are),
    ("gap_in_the_log_passed", owners::a_gap_in_the_log_and_a_damaged_record_are_refused),
    (
        "older_bucket_passed",
        owners::a_bucket_that_lost_its_newest_records_is_refused_where_they_are_remembered,
    ),
];

/// True if `test` fails while the mutant `name` is planted.
fn notices(name: &'static str, test: impl FnOnce()) -> bool {
    let planted = plant(name);
    let noticed = catch_unwind(AssertUnwindSafe(test)).is_err();
    drop(planted);
    noticed
}

/// More seeds than the simulation tries at each build, where a mutant needs a rare coincidence.
const SEEDS: u64 = 10 * crash::SEEDS;

#[test]
fn every_mutant_is_noticed() {
    let mut survivors = Vec::new();
    for name in SIMULATED {
        let life = |seed| {
            let _flushes = crash::life(seed);
        };
        let noticed = |&seed: &u64| notices(name, || life(seed));
        match (0..SEEDS).find(noticed) {
            Some(seed) => println!("{name}: seed {seed}"),
            None => survivors.push(name),
        }
    }
    let missed = TESTED.into_iter().filter(|(name, test)| !notices(name, test));
    survivors.extend(missed.map(|(name, _)| name));
    assert!(survivors.is_empty(), "nothing notices {survivors:?}");
}
