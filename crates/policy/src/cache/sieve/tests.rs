//! The way of the hand on three lines, step by step.

use super::Sieve;
use crate::cache::{Outcome, Replacement};
use thermocline_units::LineId;

/// A cache of three lines that has seen `accesses`.
fn after(accesses: &[u32]) -> Sieve {
    let mut cache = Sieve::new(3);
    cache.reserve(100);
    for line in accesses {
        cache.access(LineId(*line));
    }
    cache
}

fn evicted(cache: &mut Sieve, line: u32) -> Option<u32> {
    cache.access(LineId(line)).evicted().map(|line| line.0)
}

#[test]
fn the_hand_spares_the_visited_and_stays_where_it_evicted() {
    let mut cache = after(&[1, 2, 3, 1]);
    assert_eq!(evicted(&mut cache, 4), Some(2)); // 1 was visited; the hand now is before 3
    assert_eq!(evicted(&mut cache, 5), Some(3));
    assert_eq!(evicted(&mut cache, 6), Some(4)); // on towards the newest; 1 keeps its place
    assert!(cache.contains(LineId(1)));
}

#[test]
fn a_hand_that_evicted_the_newest_starts_from_the_oldest() {
    let mut cache = after(&[1, 2, 3, 1, 2]);
    assert_eq!(evicted(&mut cache, 4), Some(3)); // the newest; 1 and 2 lost their bits
    assert_eq!(evicted(&mut cache, 5), Some(1)); // and not 4, though 4 came after the hand
}

#[test]
fn all_visited_costs_a_whole_turn_and_evicts_the_oldest() {
    let mut cache = after(&[1, 2, 3, 1, 2, 3]);
    assert_eq!(evicted(&mut cache, 4), Some(1));
    assert_eq!(evicted(&mut cache, 5), Some(2));
}

#[test]
fn a_discard_under_the_hand_moves_it_on() {
    let mut cache = after(&[1, 2, 3, 1]);
    assert_eq!(evicted(&mut cache, 4), Some(2));
    assert!(cache.invalidate(LineId(3)) && !cache.invalidate(LineId(3)));
    assert_eq!(cache.access(LineId(5)), Outcome::ADMITTED);
    assert_eq!(evicted(&mut cache, 6), Some(4));
    assert!(cache.invalidate(LineId(5)) && cache.invalidate(LineId(6)));
    assert_eq!(cache.access(LineId(7)), Outcome::ADMITTED);
    assert_eq!(cache.access(LineId(8)), Outcome::ADMITTED);
    assert_eq!(evicted(&mut cache, 9), Some(1)); // no line was left before the hand
}
