//! Simulation of the block cache by seed, what it reached, and bugs that it must notice.
//!
//! docs/testing/simulation.md tells what mutants and situations are. Every situation of the code is
//! met, every mutant of the code is noticed; the lists are here.

#![allow(clippy::disallowed_macros)] // A report for whoever runs it, not a library.

mod formatting;
mod world;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_ports::faulty::Faults;
use thermocline_ports::{Io, Payload};
use thermocline_units::mutants::plant;
use thermocline_units::{Bytes, situations};
use world::World;

/// Seeds, unless `THERMOCLINE_SEEDS` says how many.
const SEEDS: u64 = 300;

/// Situations that the seeds must meet, in the code and in the world.
const SITUATIONS: [&str; 28] = [
    "a clean line cannot be read",
    "a commit writes several runs of the table",
    "a damaged table is refused",
    "a dirty line cannot be read",
    "a drop covers a dirty line",
    "a drop covers part of a cached line",
    "a drop of cached lines fails",
    "a flipped bit of the table is set right",
    "a flush of a commit fails",
    "a flush of a commit may have forgotten writes",
    "a forced write waits for the table",
    "a formatting was cut off",
    "a line cannot be kept",
    "a line cannot be taken back",
    "a line is not taken back after a flush that forgot",
    "a line is written while it is taken back",
    "a line leaves for another",
    "a line that is taken back cannot be read",
    "a set has no slot to give",
    "a slot changes during its commit",
    "a write fills a slot that waits for the table",
    "a write to a dirty line fails",
    "others want the lines that were read",
    "parts that go around are written together",
    "several wait for one commit",
    "the cache has failed",
    "the table cannot be written",
    "the table is written again",
];

/// Bugs that stand in the code. Not among them: a fill that does not ask for its lines alone while
/// it keeps its hold as a reader, which is no bug: writers and drops wait for readers, and two
/// readers that fill a slot at once write the same contents there.
const MUTANTS: [&str; 28] = [
    "change_in_a_commit_not_noted",
    "dirty_line_read_from_the_slow_device",
    "drop_beside_taking_back",
    "drop_keeps_lines",
    "drop_leaves_the_ends",
    "failed_flush_forgets_what_was_volatile",
    "failed_flush_tried_again",
    "failed_taking_back_counts",
    "failed_write_forgets_a_dirty_line",
    "fast_device_not_flushed",
    "fast_label_first",
    "fill_without_the_lock",
    "forced_write_without_the_table",
    "found_lines_taken_for_flushed",
    "line_that_left_stays_counted",
    "old_label_not_cleared",
    "part_written_to_a_slot_without_contents",
    "recorded_although_the_table_is_under_way",
    "rewritten_line_called_clean",
    "rewritten_lines_stay_so",
    "slot_reused_while_the_table_names_it",
    "slow_device_not_flushed",
    "slow_device_taken_for_flushed",
    "table_checked_without_its_place",
    "table_failure_ignored",
    "table_not_checked",
    "table_not_flushed_before_the_labels",
    "table_not_forced",
];

fn seeds() -> u64 {
    let seeds = std::env::var("THERMOCLINE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    seeds.unwrap_or(SEEDS)
}

/// A fast device on which no write of the table ends well: a flush must not promise the lines that
/// it names. Seeds seldom find a device that is flushed and then fails that often.
fn untold(seed: u64) -> u64 {
    let mut world = World::new(seed ^ 0xf011);
    let line = |number: u64| Io::Write {
        offset: Bytes(number * 4096),
        data: Payload::Zeroes(4096),
        fua: false,
    };
    (0..1 + seed % 9).for_each(|number| world.submit(line(number)));
    world.drain();
    world.submit(Io::Flush);
    // Its flushes of the devices are under way, and end well; writes of the table do not.
    world.cache().devices_mut().0.set_faults(Faults { fail: 1.0, ..Faults::NONE });
    world.drain();
    world.crash(); // What the flush promised is there, if it succeeded.
    world.digest()
}

/// All that a seed decides: a formatting, three runs with a crash behind each, a device that dies,
/// and one that fails the table. Returns the digest of all that passed.
fn life(seed: u64) -> u64 {
    let formatted = formatting::run(seed);
    let mut world = World::new(seed);
    for _ in 0..3 {
        let requests = 50 + world.rng.below(400);
        world.run(requests);
        if world.rng.below(3) == 0 {
            world.drain();
        }
        world.crash();
    }
    [formatted, world.digest(), death(seed), untold(seed)]
        .into_iter()
        .fold(0, |sum: u64, digest| sum.rotate_left(1) ^ digest)
}

/// A dead device answers everybody.
fn death(seed: u64) -> u64 {
    let mut world = World::new(seed ^ 0xdead);
    world.run(100);
    world.kill(seed.is_multiple_of(2));
    world.requests(50);
    world.drain();
    // With an error once the cache has noticed, and it need not have: but with an answer.
    world.submit(Io::Flush);
    world.drain();
    world.digest()
}

/// Also the report of what was reached: how many seeds met each situation.
#[test]
fn no_seed_loses_what_was_flushed_and_every_situation_is_met() {
    let mut met: BTreeMap<&str, u64> = SITUATIONS.iter().map(|name| (*name, 0)).collect();
    let mut digest = 0u64;
    for seed in 0..seeds() {
        situations::take();
        digest = digest.wrapping_add(life(seed));
        for name in situations::take() {
            *met.get_mut(name).unwrap_or_else(|| panic!("`{name}` is not in the list")) += 1;
        }
    }
    println!("{} seeds, digest {digest:#018x}", seeds());
    for (name, count) in &met {
        println!("{count:>6} {name}");
    }
    let unmet: Vec<&str> = met.iter().filter(|(_, count)| **count == 0).map(|(n, _)| *n).collect();
    assert!(unmet.is_empty(), "no seed met: {unmet:?}");
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
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
        QUIET.set(true);
        let planted = plant(name);
        let noticed = |&seed: &u64| catch_unwind(AssertUnwindSafe(|| life(seed))).is_err();
        let first = (0..SEEDS).find(noticed);
        drop(planted);
        QUIET.set(false);
        match first {
            Some(seed) => println!("{name}: seed {seed}"),
            None => survivors.push(name),
        }
    }
    assert!(survivors.is_empty(), "nothing notices {survivors:?}");
}
