//! A store on a faulty disk, by seed: random work, faults and crashes.
//!
//! `THERMOCLINE_SEEDS` says how many seeds (2,000), `THERMOCLINE_FROM` the first one. A run that
//! fails prints the line that runs its seed alone. The run reports which situations its seeds met;
//! one that none met is a failure. Every mutant must be caught.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

mod model;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use thermocline_ports::faulty::Survival;
use thermocline_seeds::{Seeds, Simulation, from_environment};
use thermocline_units::{Digest, Rng};
use world::World;

/// Bugs that a seed must catch, and the step that each leaves out.
const MUTANTS: [(&str, &str); 20] = [
    ("crc_of_one_sector", "a checksum over all of a block of metadata"),
    ("flush_answered_with_records_left", "keeping who flushes until all records are written"),
    ("forced_write_answered_at_once", "making a forced write wait for its commit"),
    ("former_generation_believed", "distrusting records of blocks that were swept"),
    ("frozen_node_changed_in_place", "encoding a frozen node before it is changed"),
    ("generation_stays", "a new generation for numbers that are given again"),
    ("journal_not_forced", "forcing the journal to the medium"),
    ("no_reserve_for_cleaning", "the reserve of free segments"),
    ("reads_not_verified", "comparing what is read with its hash"),
    ("record_before_its_block", "flushing blocks before the records that name them"),
    ("root_forgets_open_segments", "the blocks of segments without a trailer in the root"),
    ("segment_free_before_the_moves_are_durable", "wiping a trailer only when moves are durable"),
    ("segment_free_under_a_read", "keeping a segment while it is read"),
    ("shared_node_changed_in_place", "copying nodes that clones share"),
    ("short_hash_believed", "comparing full hashes"),
    ("superblock_not_forced", "forcing superblocks to the medium"),
    ("sweep_ignores_pins", "keeping pinned blocks"),
    ("swept_block_moved", "looking whether a block is still there when it was moved"),
    ("swept_before_the_drop_is_durable", "freeing numbers only when the drop is durable"),
    ("writes_to_a_block_at_once", "one write at a time to a block"),
];

/// Bugs that a plan of `tests/promises.rs` catches, because seeds reach them too seldom.
const BY_PLAN: [&str; 4] = [
    "block_forgets_its_commit",
    "journal_keeps_its_generation",
    "quotas_without_claims",
    "sweep_misses_what_is_mapped_meanwhile",
];

/// Situation that no seed may meet, because cleaning has a reserve.
const NEVER: &str = "cleaning found no free segment";

/// Situations that about one seed in a thousand meets, so that a run of 2,000 may miss them.
const SELDOM: [&str; 2] =
    ["block found on its way never arrived", "commit took a part of the records"];

/// Seeds in which a mutant must be caught.
const MUTANT_SEEDS: u64 = 1000;

fn simulation() -> Simulation {
    let from = |name: &String| if SELDOM.contains(&name.as_str()) { 20_000 } else { 2000 };
    let listed = names_after("met(\"").into_iter().chain(names_in_conditions());
    let must = listed.filter(|name| name != NEVER);
    Simulation {
        replay: "thermocline-content --test simulation nothing_is_lost".to_string(),
        situations: must.map(|name| (name.clone(), from(&name))).collect(),
        never: Some(NEVER),
    }
}

/// One step of random work.
fn step(world: &mut World, dice: &mut Rng) {
    match dice.below(100) {
        0..=29 => world.write(),
        30..=37 => world.write_part(false),
        38..=44 => world.write_part(true),
        45..=52 => world.write_known(),
        53..=64 => world.read_some(),
        65..=72 => world.flush(),
        73..=74 => world.identify(),
        75 => world.fetch(),
        76..=78 => world.pin(),
        79 => world.unpin(),
        80..=82 => world.create(),
        83..=86 => world.clone_volume(),
        87..=88 => world.delete(),
        89 => world.set_quotas(),
        90..=92 => world.sweep(),
        93 => world.check_rest(),
        94 => world.settle(),
        95 => {
            let full = dice.below(3) == 0;
            world.fill_disk(full);
        }
        96 if dice.below(3) == 0 => world.fill_store(),
        _ => {}
    }
}

/// A run of random work with crashes.
fn run(seed: u64, digest: &Digest) {
    let mut world = World::recorded(seed, false, digest);
    let mut dice = Rng::seeded(seed ^ 0x5EED);
    world.create();
    world.settle();
    let steps = if dice.below(8) == 0 { 500 } else { 40 + dice.below(160) };
    let busy = 1 + dice.below(10) as usize;
    let crashes_in = 30 + dice.below(200);
    for _ in 0..steps {
        if world.is_over {
            return;
        }
        if world.crash_at.is_none() && dice.below(crashes_in) < 4 {
            let now = world.submitted();
            world.crash_at = Some(now + 1 + dice.below(40));
        }
        step(&mut world, &mut dice);
        world.run_until(|world| world.in_flight() < busy || world.is_stopped());
        let must = world.crash_at.is_some_and(|at| world.submitted() >= at);
        if must || world.is_stopped() {
            world.crash(None);
        }
    }
    if world.is_over {
        return;
    }
    world.crash_at = None;
    world.settle();
    if world.is_stopped() {
        world.crash(None);
        if world.is_over {
            return;
        }
    }
    world.fill_disk(false);
    world.check_rest();
    world.flush();
    world.settle();
    world.crash(Some(Survival::Lost));
}

#[test]
fn nothing_is_lost_and_nothing_leaks() {
    let seeds = Seeds::asked(2000);
    let digest = Digest::default();
    let simulation = simulation();
    let met = simulation.run(seeds, |seed| run(seed, &digest));
    eprintln!("{} seeds from {}, digest {:#018x}", seeds.count, seeds.from, digest.value());
    met.report();
}

#[test]
fn every_mutant_is_caught() {
    let only = std::env::var("THERMOCLINE_MUTANTS").ok();
    let asked = MUTANTS.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|o| o == name));
    let mutants = asked.map(|(name, without)| (name, format!(" (without {without})")));
    let seeds = from_environment("THERMOCLINE_MUTANT_SEEDS", MUTANT_SEEDS);
    simulation().catch(mutants, seeds, |seed| run(seed, &Digest::default()));
}

/// The strings that follow each `call` in the machine's code.
fn names_after(call: &str) -> BTreeSet<String> {
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(path).unwrap_or_default();
            for (at, _) in source.match_indices(call) {
                names.extend(source[at..].split('"').nth(1).map(str::to_string));
            }
        }
    }
    names
}

fn names_in_conditions() -> BTreeSet<String> {
    names_after("met_if(")
}

#[test]
fn every_mutant_in_the_code_is_listed() {
    let seeds = MUTANTS.iter().map(|(name, _)| *name);
    let listed: BTreeSet<String> = seeds.chain(BY_PLAN).map(str::to_string).collect();
    let plans = include_str!("../promises.rs");
    let is_planned = |name: &&str| plans.contains(&format!("plant(\"{name}\")"));
    assert!(BY_PLAN.iter().all(is_planned), "no plan plants one of {BY_PLAN:?}");
    assert_eq!(names_after("mutant(\""), listed, "left: in the code; right: in the list");
}

/// A short run with every kind of request.
fn scenario(world: &mut World) {
    for _ in 0..2 {
        world.create();
    }
    world.settle();
    for round in 0..3 {
        for _ in 0..4 {
            world.write();
        }
        world.write_part(round == 1);
        world.flush();
        world.settle();
        world.clone_volume();
        world.write();
        world.settle();
        world.delete();
        world.sweep();
        world.settle();
    }
    world.flush();
    world.settle();
}

#[test]
fn a_crash_or_a_failure_at_every_io_is_survived() {
    for seed in 1..from_environment("THERMOCLINE_SCENARIOS", 3) {
        let mut world = World::new(seed, true);
        let before = world.submitted();
        scenario(&mut world);
        let ios = world.submitted() - before;
        assert!(ios > 60, "the scenario is too short: {ios}");
        for at in 1..=ios {
            let mut world = World::new(seed, true);
            world.crash_at = Some(before + at);
            let done = catch_unwind(AssertUnwindSafe(|| {
                scenario(&mut world);
                world.crash(None);
                world.check_rest();
            }));
            assert!(done.is_ok(), "a crash at request {at} of scenario {seed}");
            let mut world = World::new(seed, true);
            world.fail_nth(at);
            let done = catch_unwind(AssertUnwindSafe(|| {
                scenario(&mut world);
                world.crash(None);
                world.check_rest();
            }));
            assert!(done.is_ok(), "a failure of request {at} of scenario {seed}");
        }
    }
}
