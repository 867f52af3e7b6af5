//! A proposal by itself: replaced, expired, stuck, and kept away by wear budgets.

use super::Proposal;
use crate::group_state::GroupState;
use crate::group_state::tests::{FAST, SLOW, chunk, group, put};
use thermocline_policy::migration::WearBudget;
use thermocline_policy::placement::Move;
use thermocline_units::{Bytes, Nanos, PoolId};

fn proposal(moves: &[(u32, PoolId)]) -> Proposal {
    let mut proposal = Proposal::default();
    let moves = moves.iter().map(|&(index, to)| Move::to(chunk(index), to));
    proposal.replace(Nanos(10), moves.collect());
    proposal
}

/// A group in which moves may write nothing more to a pool.
fn worn(pool: PoolId) -> GroupState {
    let mut group = group();
    group.pools[pool].wear = WearBudget::new(Nanos(0), Some(Bytes(1)));
    group
}

#[test]
fn a_new_proposal_takes_the_place_of_all_that_has_not_begun() {
    let mut proposal = proposal(&[(0, FAST), (1, FAST)]);
    proposal.directed.insert(chunk(0));
    proposal.stuck = true;
    proposal.replace(Nanos(20), vec![Move::to(chunk(7), SLOW)]);
    assert_eq!(proposal.moves, [Move::to(chunk(7), SLOW)]);
    assert!(!proposal.is_directed(chunk(0)) && proposal.is_worth_a_look());
}

#[test]
fn what_has_not_begun_by_its_deadline_is_dropped_and_counted() {
    let mut proposal = proposal(&[(0, FAST), (1, FAST)]);
    proposal.expire(Nanos(u64::MAX), None);
    proposal.expire(Nanos(14), Some(Nanos(5)));
    assert_eq!((proposal.waiting(), proposal.expired), (2, 0));
    proposal.expire(Nanos(15), Some(Nanos(5)));
    assert_eq!((proposal.waiting(), proposal.expired), (0, 2));
    assert!(!proposal.is_worth_a_look());
}

#[test]
fn nobody_looks_at_a_proposal_that_is_stuck_until_something_has_changed() {
    let mut proposal = proposal(&[(0, FAST)]);
    proposal.stuck = true;
    assert!(!proposal.is_worth_a_look());
    proposal.look_again();
    assert!(proposal.is_worth_a_look());
}

#[test]
fn a_worn_pool_gets_no_arrival_and_loses_none_for_it() {
    let mut group = worn(FAST);
    put(&mut group, chunk(0), FAST);
    put(&mut group, chunk(1), SLOW);
    let proposal = proposal(&[(0, SLOW), (1, FAST)]);
    assert_eq!(proposal.kept_away(&mut group, 1), Some(1), "the arrival itself");
    assert_eq!(proposal.kept_away(&mut group, 0), Some(1), "the departure that makes room for it");
    group.pools[FAST].wear = WearBudget::default();
    assert_eq!([0, 1].map(|at| proposal.kept_away(&mut group, at)), [None; 2]);
}

#[test]
fn a_chunk_leaves_a_worn_pool_where_nothing_comes_in_its_place() {
    let mut group = worn(FAST);
    put(&mut group, chunk(0), FAST);
    assert_eq!(proposal(&[(0, SLOW)]).kept_away(&mut group, 0), None);
}
