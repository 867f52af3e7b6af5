//! Claims that hold for every registered placement; where something must move, for all but
//! `static`.

use super::machine::{Machine, chunk};
use super::pools::{self, Pools};
use super::{build, propose, touch, touch_at};
use crate::placement::chunks::Chunks;
use crate::placement::{Budget, ENTRIES, Move, Placement, PoolChange, VolumeView};
use crate::registry::Entry;
use thermocline_units::{Nanos, PoolId, Rng};

/// Skewed accesses to 3 volumes of `chunks` chunks, the hot spot drifting with the epoch.
fn accesses(rng: &mut Rng, epoch: u32, chunks: u32, count: usize) -> Vec<(u32, u32)> {
    let draw = |rng: &mut Rng| (rng.unit_f64().powi(3) * f64::from(chunks)) as u32;
    (0..count).map(|_| (rng.below(3) as u32, (draw(rng) + epoch / 4 * 7) % chunks)).collect()
}

fn second(epoch: u32) -> Nanos {
    Nanos::from_secs(epoch.into())
}

/// Every placement that moves chunks at all, with settings by which what these tests do is hot.
fn movers() -> impl Iterator<Item = String> {
    let sensitive = |entry: &Entry| match entry.name {
        "hemem" => "hemem:hot-reads=1".to_string(),
        "benefit" => "benefit:payback=1e6".to_string(),
        "auto" => "auto:trust=1:margin=0:spend=1e6".to_string(),
        "lmst" => "lmst:hot=1KiB:cold=100:e=-1".to_string(),
        "chew" => "chew:top=0.001:low=0.0001".to_string(),
        "chew-pp" => "chew-pp:top=0.001:low=0.0001:span=4MiB".to_string(),
        name => name.to_string(),
    };
    let all = ENTRIES.iter().filter(|entry| entry.name != "static").map(sensitive);
    all.chain(["benefit:payback=1e6:mirrors=0.3".to_string()])
}

/// Those that fill the fastest pool with whatever is hottest; the others weigh something else too,
/// or leave what is there alone.
fn fillers() -> impl Iterator<Item = String> {
    movers().filter(|name| {
        !["auto", "colloid", "smq", "lmst", "benefit", "orthus", "most"]
            .iter()
            .any(|other| name.starts_with(other))
    })
}

#[test]
fn a_static_placement_moves_nothing_and_takes_no_memory() {
    let (mut placement, mut machine) = (build("static"), Machine::new(20, 1));
    machine.flash = (50..60).map(|i| chunk(0, i)).collect();
    (0..100).for_each(|i| touch(placement.as_mut(), chunk(0, i), 3));
    assert_eq!(propose(placement.as_mut(), &machine), []);
    assert_eq!(placement.footprint(), crate::Footprint::default());
}

#[test]
fn any_prefix_of_the_moves_is_valid() {
    for name in movers() {
        few_at_a_time(&name);
    }
}

/// A placement and its machine after 60 epochs, each of which carried out a few moves only.
fn few_at_a_time(name: &str) -> (Box<dyn Placement>, Machine) {
    let (mut placement, mut machine) = (build(name), Machine::new(20, 3));
    let mut rng = Rng::seeded(11);
    for epoch in 0..60 {
        for (vm, index) in accesses(&mut rng, epoch, 100, 200) {
            touch_at(placement.as_mut(), second(epoch), chunk(vm, index), 1);
        }
        let moves = propose(placement.as_mut(), &machine);
        machine.carry_out(&moves, rng.below(6) as usize);
    }
    (placement, machine)
}

#[test]
fn a_machine_that_carries_out_few_moves_still_converges() {
    for name in fillers() {
        let (mut placement, mut machine) = few_at_a_time(&name);
        // What the last prefix left undone is wanted by those without a history, too.
        (0..100).for_each(|index| touch(placement.as_mut(), chunk(0, index), 1));
        // Without accesses, temperatures still change order until the history is empty.
        for _ in 0..9 {
            let moves = propose(placement.as_mut(), &machine);
            machine.carry_out(&moves, usize::MAX);
        }
        assert_eq!(machine.flash.len(), 20, "{name}: flash is not filled");
        assert_eq!(propose(placement.as_mut(), &machine), [], "{name}: not settled");
    }
}

#[test]
fn a_budget_bounds_the_moves_and_takes_the_first_of_them() {
    for name in movers() {
        let (mut one, mut other) = (build(&name), build(&name));
        let mut machine = Machine::new(10, 1);
        for (epoch, budget) in [(0, 3), (1, 0), (2, 7)] {
            for index in epoch * 5..epoch * 5 + 20 {
                touch(one.as_mut(), chunk(0, index), u64::from(index % 7) + 1);
                touch(other.as_mut(), chunk(0, index), u64::from(index % 7) + 1);
            }
            let mut few = Vec::new();
            one.propose(Nanos(0), &machine, Budget { moves: budget }, &mut few);
            let all = propose(other.as_mut(), &machine);
            assert_eq!(few, all[..all.len().min(budget as usize)], "{}", name);
            machine.carry_out(&all, usize::MAX);
        }
    }
}

#[test]
fn a_full_disk_and_a_full_flash_still_allow_valid_moves_only() {
    for name in movers() {
        for spare in [0, 1] {
            let mut placement = build(&name);
            let mut machine = Machine::new(4, 1);
            (machine.chunks, machine.disk_capacity) = (12, 8 + spare);
            machine.flash = (0..4).map(|i| chunk(0, i)).collect();
            (4..12).for_each(|i| touch(placement.as_mut(), chunk(0, i), 5));
            let moves = propose(placement.as_mut(), &machine);
            machine.carry_out(&moves, usize::MAX);
            assert_eq!(moves.is_empty(), spare == 0, "{}: {moves:?}", name);
        }
    }
}

#[test]
fn chunks_found_on_flash_by_a_fresh_placement_are_judged_like_any_other() {
    for name in fillers() {
        let mut placement = build(&name);
        let mut machine = Machine::new(4, 1);
        machine.flash = (100..104).map(|i| chunk(0, i)).collect();
        (0..8).for_each(|i| touch(placement.as_mut(), chunk(0, i), 5));
        let moves = propose(placement.as_mut(), &machine);
        machine.carry_out(&moves, usize::MAX);
        assert!(machine.flash.iter().all(|c| c.index < 8), "{}: {:?}", name, machine.flash);
    }
}

#[test]
fn the_same_accesses_give_the_same_moves() {
    for name in movers() {
        let run = || {
            let mut placement = build(&name);
            let mut machine = Machine::new(30, 3);
            let mut rng = Rng::seeded(3);
            let mut all = Vec::new();
            for epoch in 0..20 {
                for (vm, index) in accesses(&mut rng, epoch, 200, 300) {
                    touch_at(placement.as_mut(), second(epoch), chunk(vm, index), 1);
                }
                let moves = propose(placement.as_mut(), &machine);
                machine.carry_out(&moves, usize::MAX);
                all.extend(moves);
            }
            all
        };
        let (first, second) = (run(), run());
        assert!(first.len() > 30 && first == second, "{}", name);
    }
}

#[test]
fn chunks_far_apart_keep_their_numbers_and_cost_a_page_each() {
    let mut chunks = Chunks::default();
    let far = [chunk(0, 0), chunk(7, u32::MAX), chunk(7, 0), chunk(0, 1), chunk(2, 1 << 20)];
    for _ in 0..2 {
        let numbers: Vec<u32> = far.iter().map(|c| chunks.number(*c)).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
    }
    assert!((0..5).all(|number| chunks.id(number) == far[number as usize]));
    assert_eq!(chunks.len(), 5);
    // Four pages of 4 KiB; the table of volume 7 reaches 2³² chunks, 16 B a page.
    assert!(chunks.bytes() < (65 << 20) + (4 << 12) + (64 << 10), "{} B", chunks.bytes());
}

#[test]
fn a_chunk_costs_the_bytes_that_its_algorithm_states() {
    const CHUNKS: u32 = 1 << 16;
    for (name, bytes) in [
        ("baseline", 33),
        ("iops-only", 58),
        ("hemem:hot-reads=1", 25),
        ("colloid", 58),
        ("edt", 82),
        ("chew", 82),
        // 62 a chunk, and five times 78 for each run of 256.
        ("chew-pp", 63),
        ("lmst", 66),
        ("benefit", 82),
        // And the classes of what is watched, 123 KiB.
        ("auto", 83),
        ("smq", 29),
        ("edt-strawman", 58),
        ("vfrm", 29),
        ("g1-vfrm", 30),
        ("g2-vfrm", 34),
        ("grem", 34),
    ] {
        // Reads: pages that were written cost 32 B a MiB beside this, in `activity`.
        let mut placement = build(name);
        (0..CHUNKS).for_each(|i| touch(placement.as_mut(), chunk(0, i), 1));
        propose(placement.as_mut(), &Machine::new(0, 1));
        let index = placement.footprint().index;
        // Vectors double: up to twice the counters, and the page table above them.
        let (low, high) = (bytes * u64::from(CHUNKS), 2 * bytes * u64::from(CHUNKS) + 4096);
        assert!((low..=high).contains(&index), "{name}: {index} B for {CHUNKS} chunks");
    }
}

/// Some epochs in which half of the 24 chunks are asked for, the first ones most; moves that do not
/// make sense are refused by the machine.
fn some_epochs(placement: &mut dyn Placement, view: &mut Pools) -> Vec<Move> {
    let mut last = Vec::new();
    for _ in 0..12 {
        view.accesses.clear();
        for index in 0..12u32 {
            let times = u64::from(40 - 3 * index);
            touch(placement, pools::chunk(index), times);
            view.accesses.insert(index, times);
        }
        last = propose(placement, view);
        view.carry_out(&last);
    }
    last
}

#[test]
fn pools_may_join_before_others_and_go_while_a_placement_decides() {
    let statics = ENTRIES.iter().filter(|entry| entry.name == "static");
    for name in movers().chain(statics.map(|entry| entry.name.to_string())) {
        let mut placement = build(&name);
        let all: Vec<(u32, u16)> = (0..24).map(|index| (index, 1 + (index % 2) as u16)).collect();
        let mut view = Pools::new(&[4, 30, 30], &all);
        some_epochs(placement.as_mut(), &mut view);
        // The fastest is drained and goes; the second is the fastest then, and full.
        view.at.values_mut().filter(|at| **at == 0).for_each(|at| *at = 2);
        view.mirrors.clear();
        view.change(PoolChange::Left(PoolId(0)), 0);
        placement.pools_changed(PoolChange::Left(PoolId(0)));
        some_epochs(placement.as_mut(), &mut view);
        // Another one joins before both, and one behind them.
        for (at, places) in [(0, 8), (3, 30)] {
            view.change(PoolChange::Joined(PoolId(at)), places);
            placement.pools_changed(PoolChange::Joined(PoolId(at)));
            some_epochs(placement.as_mut(), &mut view);
        }
        assert_eq!(view.places, [8, 30, 30, 30]);
        if fillers().any(|filler| filler == name) {
            assert_eq!(view.used_chunks(PoolId(0)), 8, "{name}: the new pool is not filled");
        }
        // All but the second go, the slowest first: nothing is left to decide.
        view.mirrors.clear();
        view.at.values_mut().for_each(|at| *at = 1);
        for gone in [3, 2, 0].map(PoolId) {
            view.change(PoolChange::Left(gone), 0);
            placement.pools_changed(PoolChange::Left(gone));
        }
        assert_eq!(view.pool_count(), 1, "{name}");
        assert_eq!(some_epochs(placement.as_mut(), &mut view), [], "{name}");
    }
}
