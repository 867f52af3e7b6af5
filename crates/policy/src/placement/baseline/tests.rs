//! The baseline against hand-worked epochs on three pools.

use crate::placement::tests::machine::{Machine, chunk};
use crate::placement::tests::pools::Pools;
use crate::placement::tests::{build, propose, touch};
use crate::placement::{Budget, Move, Placement, VolumeView};
use thermocline_units::Nanos;

fn heat(placement: &mut dyn Placement, counts: &[(u32, u64)]) {
    counts.iter().for_each(|&(index, times)| touch(placement, chunk(0, index), times));
}

/// The proposal, as (chunk, pool).
fn moves(placement: &mut dyn Placement, view: &dyn VolumeView) -> Vec<(u32, u16)> {
    let mut moves: Vec<Move> = Vec::new();
    placement.propose(Nanos(0), view, Budget::UNLIMITED, &mut moves);
    moves.iter().map(|step| (step.chunk.index, step.to.0)).collect()
}

#[test]
fn the_k_most_accessed_chunks_of_the_epoch_come_up_hottest_first() {
    let mut baseline = build("baseline:k=2");
    let at: Vec<_> = (0..6).map(|i| (i, 2)).collect();
    let view = Pools::new(&[10, 10, 10], &at);
    heat(baseline.as_mut(), &[(0, 1), (3, 9), (4, 4), (5, 3)]);
    assert_eq!(moves(baseline.as_mut(), &view), [(3, 0), (4, 0)]);
    assert_eq!(moves(baseline.as_mut(), &view), [], "counts start again with each epoch");
}

#[test]
fn the_least_recently_used_move_down_to_the_next_pool_with_room() {
    let mut baseline = build("baseline");
    // Chunks 0..4 fill the fastest pool; the one below it has one place left, then none.
    let at: Vec<_> = (0..4).map(|i| (i, 0)).chain([(10, 1), (11, 2), (12, 2)]).collect();
    let view = Pools::new(&[4, 2, 10], &at);
    heat(baseline.as_mut(), &[(2, 1), (0, 1), (3, 1), (1, 1)]);
    assert_eq!(moves(baseline.as_mut(), &view), [], "all that was accessed is where it belongs");
    heat(baseline.as_mut(), &[(11, 5), (12, 4), (1, 1)]);
    assert_eq!(moves(baseline.as_mut(), &view), [(2, 1), (11, 0), (0, 2), (12, 0)]);
}

#[test]
fn a_chunk_that_was_never_accessed_leaves_first() {
    let mut baseline = build("baseline");
    let view = Pools::new(&[2, 5, 5], &[(7, 0), (8, 0), (9, 2)]);
    heat(baseline.as_mut(), &[(7, 1)]);
    assert_eq!(moves(baseline.as_mut(), &view), []);
    heat(baseline.as_mut(), &[(9, 1)]);
    assert_eq!(moves(baseline.as_mut(), &view), [(8, 1), (9, 0)]);
}

#[test]
fn what_cooled_down_stays_while_there_is_room() {
    let (mut baseline, mut machine) = (build("baseline"), Machine::new(4, 1));
    for index in 0..3 {
        heat(baseline.as_mut(), &[(index, 2)]);
        let moves = propose(baseline.as_mut(), &machine);
        machine.carry_out(&moves, usize::MAX);
    }
    assert_eq!(machine.flash, (0..3).map(|i| chunk(0, i)).collect());
}

#[test]
fn equally_hot_chunks_do_not_chase_each_other() {
    let (mut baseline, mut machine) = (build("baseline"), Machine::new(1, 1));
    machine.flash = [chunk(0, 7)].into();
    heat(baseline.as_mut(), &[(3, 2), (7, 2)]);
    assert_eq!(propose(baseline.as_mut(), &machine), []);
}
