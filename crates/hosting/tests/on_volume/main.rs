//! A store of de-duplicated blocks on a volume of a group: two journals, one above the other, on
//! disks that lose what was not flushed, while the group moves chunks between its pools.
//!
//! Virtual time, by seed; the same two machines and the same translation between them as live. Each
//! fault that is planted between them must be found, and each situation met, or the test fails.

#![allow(clippy::unwrap_used)]

mod flush_cost;
mod group_device;
mod world;

use group_device::Fault;
use world::{Met, World};

/// Seeds of a run in the gate.
const SEEDS: u64 = 60;

#[test]
fn what_was_flushed_survives_crashes_while_the_group_moves_chunks() {
    let mut met = Met::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed, Fault::None);
        world.run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        met.add(&world.met);
    }
    for (what, seeds) in met.seeds() {
        assert!(seeds > 0, "no seed met: {what}");
    }
}

#[test]
fn an_adapter_that_forgets_fua_or_flushes_is_found() {
    for fault in [Fault::ForgetsFua, Fault::ForgetsFlush] {
        let finds = |seed| World::new(seed, fault).run().is_err();
        assert!((0..SEEDS).any(finds), "no seed finds {fault:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = World::new(seed, Fault::None);
        world.run().unwrap();
        world.outline()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
