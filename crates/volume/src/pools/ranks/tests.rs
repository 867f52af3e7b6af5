//! The order by itself; in a group: `tests/ranks.rs`.

use super::Ranks;
use thermocline_policy::placement::PoolChange;
use thermocline_units::PoolId;

fn order(ids: &[u16]) -> Option<Ranks> {
    Ranks::of_order(ids.iter().copied().map(PoolId).collect())
}

#[test]
fn an_order_has_every_id_once() {
    assert_eq!(order(&[0, 1, 2]), Some(Ranks::by_id(3)));
    assert_eq!(order(&[]), Some(Ranks::by_id(0)));
    for wrong in [&[1][..], &[0, 0], &[0, 2], &[1, 2, 3]] {
        assert_eq!(order(wrong), None, "{wrong:?}");
    }
    assert_eq!(Ranks::of_order((0..65).map(PoolId).collect()), None, "more pools than may be");
}

#[test]
fn ids_and_ranks_translate_into_each_other_and_unknown_ones_into_none() {
    let ranks = order(&[2, 0, 1]).expect("every id is there once");
    for (rank, id) in [(0, 2), (1, 0), (2, 1)] {
        assert_eq!(ranks.at_rank(PoolId(rank)), PoolId(id));
        assert_eq!(ranks.rank_of(PoolId(id)), PoolId(rank));
    }
    for unknown in [3, 900].map(PoolId) {
        assert_eq!(ranks.at_rank(unknown), PoolId(u16::MAX), "not a pool with this id");
        assert_eq!(ranks.rank_of(unknown), unknown);
    }
    // The rank that a removed pool had is nobody's, though its number is another pool's id.
    let fewer = ranks.of_those(|id| id != PoolId(0));
    assert_eq!([0, 1, 2].map(|rank| fewer.at_rank(PoolId(rank)).0), [2, 1, u16::MAX]);
}

#[test]
fn a_pool_that_is_gone_keeps_its_place_in_the_order_and_has_no_rank() {
    let ranks = order(&[2, 0, 3, 1]).expect("every id is there once");
    let ranks = ranks.of_those(|id| id != PoolId(2) && id != PoolId(3));
    assert_eq!(ranks.there(), [PoolId(0), PoolId(1)]);
    assert_eq!(ranks.order(), [2, 0, 3, 1].map(PoolId));
    for (id, rank) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
        assert_eq!(ranks.rank_of(PoolId(id)), PoolId(rank), "{id}");
    }
    assert_eq!([0, 1].map(|rank| ranks.at_rank(PoolId(rank))), [PoolId(0), PoolId(1)]);
    assert_eq!(ranks.faster_than(PoolId(1)).collect::<Vec<_>>(), [PoolId(0)]);
    let more = ranks.with_next(Some(PoolId(1)));
    assert_eq!(more.order(), [2, 0, 3, 4, 1].map(PoolId));
    assert_eq!(more.there(), [0, 4, 1].map(PoolId));
    assert_eq!(more.without_last(), ranks);
    let slowest = ranks.with_next(None);
    assert_eq!(slowest.there(), [0, 1, 4].map(PoolId));
}

#[test]
fn changes_lead_from_any_order_of_before_to_that_of_now() {
    let ranks = order(&[4, 2, 0, 3, 1]).expect("every id is there once");
    let ranks = ranks.of_those(|id| ![2, 3].contains(&id.0));
    for before in [&[4, 0, 1][..], &[2, 0, 3, 1], &[4, 2, 0, 3, 1], &[2], &[1], &[]] {
        let mut order: Vec<PoolId> = before.iter().copied().map(PoolId).collect();
        let changes = ranks.changes_since(&order).expect("the order is the same");
        for change in changes {
            match change {
                PoolChange::Left(PoolId(place)) => _ = order.remove(usize::from(place)),
                // Whoever joins is looked for by its place.
                PoolChange::Joined(PoolId(place)) => {
                    order.insert(usize::from(place), ranks.at_rank(PoolId(place)));
                }
            }
        }
        assert_eq!(order, [4, 0, 1].map(PoolId), "{before:?}");
    }
    assert_eq!(ranks.changes_since(&[1, 0].map(PoolId)), None, "another group's");
}

#[test]
fn the_next_pool_comes_before_the_one_that_is_named_or_last() {
    let ranks = order(&[2, 0, 1]).expect("every id is there once");
    assert_eq!(Some(ranks.with_next(Some(PoolId(0)))), order(&[2, 3, 0, 1]));
    assert_eq!(Some(ranks.with_next(Some(PoolId(2)))), order(&[3, 2, 0, 1]));
    assert_eq!(Some(ranks.with_next(None)), order(&[2, 0, 1, 3]));
}
