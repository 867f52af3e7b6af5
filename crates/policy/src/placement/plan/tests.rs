//! Plans against hand-worked pools, and against the promise that any prefix fits.

use super::Plan;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::{Budget, Move, VolumeView};
use proptest::prelude::*;
use thermocline_units::PoolId;

fn carried_out(plan: Plan, budget: u64) -> Vec<(u32, u16)> {
    let mut moves: Vec<Move> = Vec::new();
    plan.propose(Budget { moves: budget }, &mut moves);
    moves.iter().map(|step| (step.chunk.index, step.to.0)).collect()
}

#[test]
fn the_best_rise_goes_first_and_the_worst_make_room() {
    let view = Pools::new(&[2, 9, 9], &[(0, 0), (1, 0), (2, 1), (3, 2), (4, 2)]);
    let plan = || {
        let mut plan = Plan::new(&view);
        plan.wish(chunk(3), PoolId(2), PoolId(0));
        plan.wish(chunk(2), PoolId(1), PoolId(0));
        plan.wish(chunk(4), PoolId(2), PoolId(1));
        plan.may_yield(chunk(0), PoolId(0));
        plan.may_yield(chunk(1), PoolId(0));
        plan
    };
    // Pool 1 has room at once, pool 0 only when the worst of it, chunk 1, has left.
    assert_eq!(carried_out(plan(), 99), [(4, 1), (1, 1), (3, 0), (0, 1), (2, 0)]);
    assert_eq!(carried_out(plan(), 2), [(4, 1), (1, 1)]);
}

#[test]
fn nobody_yields_without_need_and_who_should_fall_falls() {
    let view = Pools::new(&[4, 4], &[(0, 0), (1, 0), (2, 1)]);
    let mut plan = Plan::new(&view);
    plan.may_yield(chunk(0), PoolId(0));
    plan.wish(chunk(1), PoolId(0), PoolId(1));
    plan.wish(chunk(2), PoolId(1), PoolId(1));
    assert_eq!(carried_out(plan, 99), [(1, 1)]);
}

#[test]
fn a_full_pool_below_lets_a_chunk_go_first_and_is_passed_by_when_it_cannot() {
    let at = [(0, 0), (1, 1), (2, 2)];
    let view = Pools::new(&[1, 1, 9], &at);
    let mut plan = Plan::new(&view);
    plan.wish(chunk(2), PoolId(2), PoolId(0));
    plan.wish(chunk(0), PoolId(0), PoolId(1));
    plan.may_yield(chunk(1), PoolId(1));
    assert_eq!(carried_out(plan, 99), [(1, 2), (0, 1), (2, 0)]);
    let mut plan = Plan::new(&view);
    plan.wish(chunk(1), PoolId(1), PoolId(0));
    plan.wish(chunk(0), PoolId(0), PoolId(1));
    assert_eq!(carried_out(plan, 99), [(0, 2), (1, 0)], "two that change places need a third");
}

#[test]
fn full_pools_everywhere_allow_no_move() {
    let view = Pools::new(&[1, 1], &[(0, 0), (1, 1)]);
    let mut plan = Plan::new(&view);
    plan.wish(chunk(1), PoolId(1), PoolId(0));
    plan.wish(chunk(0), PoolId(0), PoolId(1));
    assert_eq!(carried_out(plan, 99), []);
}

proptest! {
    #[test]
    fn any_prefix_of_any_plan_fits_and_moves_each_chunk_once(
        places in prop::collection::vec(0u64..8, 2..5),
        chunks in prop::collection::vec((0u16..5, 0u16..5, any::<bool>()), 0..24),
    ) {
        let pools = places.len() as u16;
        let mut at: Vec<(u32, u16)> = Vec::new();
        for (index, &(from, ..)) in chunks.iter().enumerate() {
            // Where the drawn pool is full, the first with room; a machine is never overfull.
            let full = |pool: u16| {
                at.iter().filter(|(_, there)| *there == pool).count() as u64
                    >= places[usize::from(pool)]
            };
            let wanted = std::iter::once(from % pools).chain(0..pools);
            if let Some(pool) = wanted.into_iter().find(|&pool| !full(pool)) {
                at.push((index as u32, pool));
            }
        }
        let mut view = Pools::new(&places, &at);
        let mut plan = Plan::new(&view);
        for &(index, from) in &at {
            let (_, to, yields) = chunks[index as usize];
            match yields {
                true => plan.may_yield(chunk(index), PoolId(from)),
                false => plan.wish(chunk(index), PoolId(from), PoolId(to % pools)),
            }
        }
        let mut moves = Vec::new();
        plan.propose(Budget::UNLIMITED, &mut moves);
        let mut moved: Vec<_> = moves.iter().map(|step| step.chunk).collect();
        moved.sort_unstable();
        prop_assert!(moved.windows(2).all(|pair| pair[0] != pair[1]), "{moves:?}");
        view.carry_out(&moves);
        prop_assert!(view.pool_count() == pools);
    }
}
