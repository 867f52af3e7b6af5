//! The flash managers against the sources' algorithms transcribed, and against hand-worked epochs.

mod contract;
pub(crate) mod machine;
mod model;
pub(crate) mod pools;

use self::machine::{Machine, chunk};
use self::model::{G1, G2, History, Set, highest};
use self::pools::Pools;
use super::cooling::Cooling;
use super::{Budget, ChunkAccess, Move, Placement, VolumeView};
use crate::registry::{Build, PolicySpec};
use proptest::prelude::*;
use thermocline_units::{Bytes, ChunkId, Nanos};

pub(crate) fn build(spec: &str) -> Box<dyn Placement> {
    let spec = PolicySpec::parse(spec).expect("a known policy");
    match spec.entry.build {
        Build::Placement(build) => build(&spec.settings).expect("its settings are right"),
        _ => panic!("{} is no placement", spec.label),
    }
}

#[test]
fn defaults_are_written_as_they_are() {
    assert_eq!(super::CHUNK_TEXT.parse(), Ok(super::CHUNK));
    assert_eq!(super::EPOCH_TEXT.parse(), Ok(super::EPOCH));
    assert_eq!(super::AUTO_EPOCH_TEXT.parse(), Ok(super::AUTO_EPOCH));
}

/// A read of 4 KiB at the chunk's beginning, at time 0.
fn access(chunk: ChunkId) -> ChunkAccess {
    let (offset, bytes) = (Bytes(0), Bytes::from_kib(4));
    ChunkAccess { at: Nanos(0), chunk, offset, bytes, write: false }
}

pub(crate) fn touch(placement: &mut dyn Placement, chunk: ChunkId, times: u64) {
    touch_at(placement, Nanos(0), chunk, times);
}

pub(crate) fn touch_at(placement: &mut dyn Placement, at: Nanos, chunk: ChunkId, times: u64) {
    (0..times).for_each(|_| placement.observe(&ChunkAccess { at, ..access(chunk) }));
}

pub(crate) fn write(placement: &mut dyn Placement, chunk: ChunkId, times: u64) {
    (0..times).for_each(|_| placement.observe(&ChunkAccess { write: true, ..access(chunk) }));
}

pub(crate) fn propose(placement: &mut dyn Placement, machine: &dyn VolumeView) -> Vec<Move> {
    let mut moves = Vec::new();
    placement.propose(Nanos(0), machine, Budget::UNLIMITED, &mut moves);
    moves
}

/// Proposals to a machine of any pools, by index of the chunk.
pub(crate) fn propose_to(placement: &mut dyn Placement, view: &Pools) -> Vec<(u32, u16)> {
    let mut moves = Vec::new();
    placement.propose(Nanos(0), view, Budget::UNLIMITED, &mut moves);
    view.clone().carry_out(&moves);
    moves.iter().map(|step| (step.chunk.index, step.to.0)).collect()
}

/// Feeds one epoch and carries its moves out.
fn epoch(placement: &mut dyn Placement, machine: &mut Machine, accesses: &[(u32, u32, u64)]) {
    accesses.iter().for_each(|&(vm, index, times)| touch(placement, chunk(vm, index), times));
    let moves = propose(placement, machine);
    machine.carry_out(&moves, usize::MAX);
}

fn set(chunks: &[(u32, u32)]) -> Set {
    chunks.iter().map(|&(vm, index)| chunk(vm, index)).collect()
}

/// A few epochs of accesses to 3 VMs of 12 chunks: dense enough that zones fill, overflow and
/// starve.
fn epochs() -> impl Strategy<Value = Vec<Vec<(u32, u32, u64)>>> {
    let access = (0u32..3, 0u32..12, 1u64..6);
    prop::collection::vec(prop::collection::vec(access, 0..14), 1..24)
}

/// Runs `spec` and `model` side by side; after every epoch flash must hold what the model says.
fn agrees(
    spec: &str,
    capacity: u64,
    epochs: &[Vec<(u32, u32, u64)>],
    mut model: impl FnMut(&History, &Set) -> Set,
) -> Result<(), TestCaseError> {
    let (mut placement, mut machine) = (build(spec), Machine::new(capacity, 3));
    let mut history = History::default();
    for (i, accesses) in epochs.iter().enumerate() {
        let mut counts = std::collections::BTreeMap::new();
        accesses.iter().for_each(|&(vm, b, n)| *counts.entry(chunk(vm, b)).or_insert(0) += n);
        history.epochs.push(counts);
        let expected = model(&history, &machine.flash);
        epoch(placement.as_mut(), &mut machine, accesses);
        prop_assert_eq!(&machine.flash, &expected, "{} after epoch {}", spec, i);
    }
    Ok(())
}

proptest! {
    #[test]
    fn vfrm_keeps_what_eq_18_ranks_highest(capacity in 0u64..20, epochs in epochs()) {
        agrees("vfrm", capacity, &epochs, |history, flash| {
            let chunks: Set = history.epochs.iter().flat_map(|e| e.keys().copied()).collect();
            let warm = |b: &ChunkId| flash.contains(b) || history.temperature(b) > 0.0;
            let warm: Set = chunks.into_iter().filter(warm).collect();
            highest(&warm, capacity as usize, flash, |b| history.temperature(b))
        })?;
    }

    #[test]
    fn g1_does_what_algorithm_1_says(
        capacity in 0u64..24, corrected in any::<bool>(), epochs in epochs(),
    ) {
        let share = capacity as usize / 2 / 3;
        let room = capacity as usize - 3 * share;
        let mut model =
            G1 { corrected, share, room, private: vec![Set::new(); 3], ..G1::default() };
        let form = if corrected { "corrected" } else { "printed" };
        agrees(&format!("g1-vfrm:form={form}"), capacity, &epochs, |h, f| model.epoch(h, f))?;
    }

    #[test]
    fn g2_does_what_algorithm_2_says(
        capacity in 0u64..24, corrected in any::<bool>(), period in 1usize..5, epochs in epochs(),
    ) {
        let places = capacity as usize / 2;
        let room = capacity as usize - places;
        let mut model = G2 { corrected, places, room, period, ..G2::default() };
        let form = if corrected { "corrected" } else { "printed" };
        let spec = format!("g2-vfrm:form={form}:age-every={period}");
        agrees(&spec, capacity, &epochs, |h, f| model.epoch(h, f))?;
    }
}

#[test]
fn the_sources_cooling_factors_come_out_at_eight_epochs() {
    let printed = [1.0, 0.875, 0.75, 0.625, 0.25, 0.125, 0.0625, 0.03125];
    assert_eq!(Cooling::Printed.factors(8), printed);
    assert_eq!(Cooling::Scaled.factors(8), printed);
}

#[test]
fn scaled_factors_fall_and_keep_their_shape_at_every_history_and_printed_ones_do_not() {
    for n in 1..=256 {
        let factors = Cooling::Scaled.factors(n);
        assert_eq!(factors[0], 1.0);
        assert!(factors.windows(2).all(|pair| pair[1] < pair[0]), "N = {n}: {factors:?}");
        assert!(n < 2 || factors[n - 1] == 1.0 / 32.0, "N = {n}");
    }
    // As printed, the third of four epochs counts more than the second, and of 16 the ninth
    // collapses.
    assert_eq!(Cooling::Printed.factors(4), [1.0, 0.75, 1.0, 0.5]);
    assert_eq!(Cooling::Printed.factors(16)[7..9], [9.0 / 16.0, 1.0 / 64.0]);
    assert_eq!(
        Cooling::HalfLife(2.0).factors(5),
        [1.0, 0.5f64.sqrt(), 0.5, 0.5 * 0.5f64.sqrt(), 0.25]
    );
}

#[test]
fn a_chunk_cools_as_worked_by_hand() {
    // Chunk 0: 8 accesses once. Chunk 1: 1 an epoch later, then 3 each epoch. One place on flash.
    let (mut vfrm, mut machine) = (build("vfrm"), Machine::new(1, 1));
    epoch(vfrm.as_mut(), &mut machine, &[(0, 0, 8)]);
    assert_eq!(machine.flash, set(&[(0, 0)]));
    epoch(vfrm.as_mut(), &mut machine, &[(0, 1, 1)]); // 8 × .875 = 7 against 1
    assert_eq!(machine.flash, set(&[(0, 0)]));
    epoch(vfrm.as_mut(), &mut machine, &[(0, 1, 3)]); // 8 × .75 = 6 against 3 + .875
    assert_eq!(machine.flash, set(&[(0, 0)]));
    epoch(vfrm.as_mut(), &mut machine, &[(0, 1, 3)]); // 8 × .625 = 5 against 3 + 3 × .875 + .75
    assert_eq!(machine.flash, set(&[(0, 1)]));
}

#[test]
fn lambda_weighs_a_volume_against_the_others() {
    for (lambda, expected) in [("1", (0, 0)), ("1/4", (1, 0)), ("0.1/0.5", (1, 0)), ("2", (0, 0))] {
        let (mut vfrm, mut machine) = (build(&format!("vfrm:lambda={lambda}")), Machine::new(1, 2));
        epoch(vfrm.as_mut(), &mut machine, &[(0, 0, 3), (1, 0, 1)]);
        assert_eq!(machine.flash, set(&[expected]), "lambda={lambda}");
    }
}

#[test]
fn counters_saturate_instead_of_wrapping() {
    let (mut vfrm, mut machine) = (build("vfrm"), Machine::new(1, 1));
    epoch(vfrm.as_mut(), &mut machine, &[(0, 0, 65_536), (0, 1, 65_000)]);
    assert_eq!(machine.flash, set(&[(0, 0)]));
}

#[test]
fn equally_hot_chunks_do_not_chase_each_other_off_flash() {
    let (mut vfrm, mut machine) = (build("vfrm:history=1"), Machine::new(1, 1));
    epoch(vfrm.as_mut(), &mut machine, &[(0, 7, 2)]);
    touch(vfrm.as_mut(), chunk(0, 3), 2);
    touch(vfrm.as_mut(), chunk(0, 7), 2);
    assert_eq!(propose(vfrm.as_mut(), &machine), []);
}

#[test]
fn g1_reserves_flash_for_a_quiet_vm_during_a_burst() {
    // 8 places: 2 private for each of 2 VMs, 4 public. VM 1 scans 20 chunks, twice each.
    let (mut g1, mut machine) = (build("g1-vfrm"), Machine::new(8, 2));
    epoch(g1.as_mut(), &mut machine, &[(0, 0, 1), (0, 1, 1)]);
    let burst: Vec<_> = (0..20).map(|i| (1, i, 2)).collect();
    epoch(g1.as_mut(), &mut machine, &burst);
    assert!(machine.flash.is_superset(&set(&[(0, 0), (0, 1)])), "{:?}", machine.flash);
    assert_eq!(machine.flash.len(), 8);
    // vFRM has no zones and gives everything to the burst.
    let (mut vfrm, mut machine) = (build("vfrm"), Machine::new(8, 2));
    epoch(vfrm.as_mut(), &mut machine, &[(0, 0, 1), (0, 1, 1)]);
    epoch(vfrm.as_mut(), &mut machine, &burst);
    assert!(machine.flash.iter().all(|c| c.volume.0 == 1));
}

#[test]
fn g2_keeps_frequent_chunks_through_a_scan_that_is_hotter_for_an_epoch() {
    let (mut g2, mut machine) = (build("g2-vfrm"), Machine::new(4, 1));
    for _ in 0..3 {
        epoch(g2.as_mut(), &mut machine, &[(0, 0, 2), (0, 1, 2)]);
    }
    let scan: Vec<_> = (10..30).map(|i| (0, i, 5)).collect();
    epoch(g2.as_mut(), &mut machine, &scan);
    assert!(machine.flash.is_superset(&set(&[(0, 0), (0, 1)])), "{:?}", machine.flash);
}

#[test]
fn printed_algorithm_1_wastes_places_that_the_corrected_one_uses() {
    // 4 private places, 4 public ones, 5 chunks: all fit. As printed, chunk 1 ends up in both zones
    // and pushes chunk 2 out, although places are free.
    let run = |spec: &str| {
        let (mut g1, mut machine) = (build(spec), Machine::new(8, 1));
        epoch(g1.as_mut(), &mut machine, &[(0, 0, 9), (0, 1, 2), (0, 2, 1)]);
        epoch(g1.as_mut(), &mut machine, &[(0, 3, 9), (0, 4, 8)]);
        epoch(g1.as_mut(), &mut machine, &[(0, 1, 9)]);
        machine.flash
    };
    assert_eq!(run("g1-vfrm"), set(&[(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]));
    assert_eq!(run("g1-vfrm:form=printed"), set(&[(0, 0), (0, 1), (0, 3), (0, 4)]));
}
