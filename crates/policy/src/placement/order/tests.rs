//! The order of chunks: by weight, then by where they are, then by when they were met.

use super::{number, place};
use thermocline_units::PoolId;

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
