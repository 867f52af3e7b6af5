//! Two ends, their users and a slow line by seed, compared with a plain model; what the seeds
//! reached, and bugs that they must notice.
//!
//! One number decides the limits, what users do, when bytes arrive and in which pieces. The model
//! knows of each direction how many bytes were taken and whether it was ended or reset; the bytes
//! are a function of stream, direction and place. docs/testing/simulation.md tells what mutants and
//! situations are.

#![allow(clippy::disallowed_macros)] // The report of what was reached is printed.

mod world;

use super::turns;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::mutants::plant;
use thermocline_units::situations;
use world::World;

/// Seeds, unless `THERMOCLINE_SEEDS` says how many.
const SEEDS: u64 = 2000;

/// Situations that the seeds must meet.
const SITUATIONS: [&str; 19] = [
    "a frame came in pieces",
    "a payload came in pieces",
    "a ping was answered",
    "a queue took a part",
    "a short frame cost the least charge",
    "a stream waits for credit",
    "a stream was refused while closing",
    "a stream was reset after its end",
    "a stream was reset that is over here",
    "a turn was cut",
    "a window grew",
    "a window shrank",
    "an end came before all was consumed",
    "as many streams are open as may be",
    "both ends reset a stream",
    "credit was not needed any more",
    "late credit for a stream that was reset or has ended",
    "late data of a stream that was reset",
    "the other end closed a stream first",
];

/// Bugs that stand in the code, noticed by a seed.
const MUTANTS: [&str; 12] = [
    "closed_before_consumed",
    "credit_lost_when_consumed",
    "credit_not_paid",
    "end_overtakes_data",
    "forgotten_before_their_last_frame",
    "late_data_delivered",
    "piece_lost_at_a_split",
    "ping_not_answered",
    "released_window_kept",
    "row_forgets_a_stream",
    "writable_forgotten",
    "writable_told_twice",
];

/// Bugs noticed by a test of its own.
const TESTED: [(&str, fn()); 1] =
    [("turn_never_over", turns::a_short_message_leaves_within_one_round_beside_a_long_one)];

fn seeds() -> u64 {
    let seeds = std::env::var("THERMOCLINE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    seeds.unwrap_or(SEEDS)
}

/// All that a seed decides.
fn life(seed: u64) {
    let mut world = World::new(seed);
    let steps = 100 + world.rng.below(500);
    (0..steps).for_each(|_| world.step());
    world.settle();
    world.part();
}

/// Also the report of what was reached: how many seeds met each situation.
#[test]
fn both_users_get_what_was_sent_and_every_situation_is_met() {
    let mut met: BTreeMap<&str, u64> = SITUATIONS.iter().map(|name| (*name, 0)).collect();
    for seed in 0..seeds() {
        situations::take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| life(seed))) {
            println!("seed {seed} fails; again with: THERMOCLINE_SEEDS={}", seed + 1);
            std::panic::resume_unwind(panic);
        }
        for name in situations::take() {
            *met.get_mut(name).unwrap_or_else(|| panic!("`{name}` is not in the list")) += 1;
        }
    }
    for (name, count) in &met {
        println!("{count:>6} {name}");
    }
    let unmet: Vec<&str> = met.iter().filter(|(_, count)| **count == 0).map(|(n, _)| *n).collect();
    assert!(unmet.is_empty(), "no seed met: {unmet:?}");
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// True if `test` fails while the mutant is planted.
fn notices(name: &'static str, test: impl FnOnce()) -> bool {
    let planted = plant(name);
    QUIET.set(true);
    let noticed = catch_unwind(AssertUnwindSafe(test)).is_err();
    QUIET.set(false);
    drop(planted);
    noticed
}

#[test]
fn every_mutant_is_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !QUIET.get() {
            hook(info);
        }
    }));
    let mut survivors = Vec::new();
    for name in MUTANTS {
        match (0..SEEDS).find(|&seed| notices(name, || life(seed))) {
            Some(seed) => println!("{name}: seed {seed}"),
            None => survivors.push(name),
        }
    }
    survivors.extend(TESTED.iter().filter(|(name, test)| !notices(name, test)).map(|(n, _)| *n));
    assert!(survivors.is_empty(), "nothing notices {survivors:?}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let digest = |seed| {
        let mut world = World::new(seed);
        (0..300).for_each(|_| world.step());
        world.settle();
        (world.digest, world.rng.next_u64())
    };
    (0..20).for_each(|seed| assert_eq!(digest(seed), digest(seed)));
}
