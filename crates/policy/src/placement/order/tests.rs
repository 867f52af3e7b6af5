//! The order of chunks: by weight, then by where they are, then by when they were met.

use super::{number, place, sort};
use thermocline_units::{PoolId, Rng};

#[test]
fn the_heaviest_goes_first_then_the_one_on_the_faster_pool_then_the_one_met_first() {
    let ordered = [
        (1e30, 9, 7),
        (2.5, 63, 1),
        (2.25, 0, 3),
        (2.25, 0, 4),
        (2.25, 1, 0),
        (1e-9, 5, u32::MAX),
        (0.0, 0, 2),
        (0.0, 2, 1),
    ];
    let places = ordered.map(|(weight, home, number)| place(weight, PoolId(home), number));
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:x?}");
    assert_eq!(places.map(number), ordered.map(|(.., number)| number));
}

#[test]
fn a_difference_too_small_to_move_for_is_none() {
    let [mut at, mut next] = [1000.0, 1000.001].map(|weight| place(weight, PoolId(1), 5));
    assert_eq!(at, next);
    [at, next] = [1000.0, 1000.1].map(|weight| place(weight, PoolId(1), 5));
    assert!(next < at);
}

#[test]
fn many_are_sorted_as_few_are_whatever_they_are_like() {
    let mut rng = Rng::seeded(5);
    for (count, weights, pools, ascending) in [
        (5000, 1e9, 64, true),
        (5000, 1e9, 64, false),
        (5000, 1.0, 1, true),
        (0, 1.0, 1, true),
        (3000, 4.0, 3, true),
    ] {
        let mut places: Vec<u64> = (0..count)
            .map(|number| {
                let weight = (rng.unit_f64() * weights).floor();
                place(weight, PoolId(rng.below(pools) as u16), number)
            })
            .collect();
        if !ascending {
            places.reverse();
        }
        let mut expected = places.clone();
        expected.sort();
        sort(&mut places);
        assert!(places == expected, "{count} of weights up to {weights}");
    }
}
