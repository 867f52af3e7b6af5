//! The order by itself; in a group: `tests/ranks.rs`.

use super::Ranks;
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
fn ids_and_ranks_translate_into_each_other_and_unknown_ones_stay() {
    let ranks = order(&[2, 0, 1]).expect("every id is there once");
    for (rank, id) in [(0, 2), (1, 0), (2, 1), (3, 3), (900, 900)] {
        assert_eq!(ranks.at_rank(PoolId(rank)), PoolId(id));
        assert_eq!(ranks.rank_of(PoolId(id)), PoolId(rank));
    }
}

#[test]
fn the_next_pool_comes_before_the_one_that_is_named_or_last() {
    let ranks = order(&[2, 0, 1]).expect("every id is there once");
    assert_eq!(Some(ranks.with_next(Some(PoolId(0)))), order(&[2, 3, 0, 1]));
    assert_eq!(Some(ranks.with_next(Some(PoolId(2)))), order(&[3, 2, 0, 1]));
    assert_eq!(Some(ranks.with_next(None)), order(&[2, 0, 1, 3]));
}
