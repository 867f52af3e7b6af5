//! The order of evictions by hand: second-last accesses, what is remembered, correlated accesses.

use super::Lru2;
use crate::cache::Replacement;
use thermocline_units::LineId;

fn after(mut cache: Lru2, accesses: &[u32]) -> Lru2 {
    cache.reserve(1000);
    for line in accesses {
        cache.access(LineId(*line));
    }
    cache
}

fn evicted(cache: &mut Lru2, line: u32) -> Option<u32> {
    cache.access(LineId(line)).evicted().map(|line| line.0)
}

#[test]
fn the_oldest_second_last_access_goes_and_lines_without_one_before_it() {
    let mut cache = after(Lru2::new(3, 0, 3), &[1, 2, 3, 2, 1, 3, 3]);
    // HIST2 of 1, 2, 3: times 1, 2, 6.
    assert_eq!(evicted(&mut cache, 4), Some(1));
    assert_eq!(evicted(&mut cache, 5), Some(4), "4 has only one access");
    assert_eq!(evicted(&mut cache, 6), Some(5));
    assert_eq!(evicted(&mut cache, 6), None, "6 gets a second access at time 10");
    assert_eq!(evicted(&mut cache, 7), Some(2));
}

#[test]
fn a_remembered_line_comes_back_with_its_past() {
    let with = |history| after(Lru2::new(2, 0, history), &[1, 1, 2, 3, 2, 4]);
    // 3 evicts 2; 2 returns and evicts 3; 4 is new.
    let mut cache = with(2);
    assert!(cache.contains(LineId(2)), "2 has a second-last access: 1's, older, went");
    assert!(!cache.contains(LineId(1)));
    cache = with(0);
    assert!(!cache.contains(LineId(2)), "2 was as new as 4");
    assert!(cache.contains(LineId(1)));
}

#[test]
fn correlated_accesses_count_as_one_and_protect_for_a_while() {
    let mut cache = after(Lru2::new(2, 2, 0), &[1, 1, 1, 2]);
    // At time 5, line 1's last access (3) is no longer than 2 ago, nor is 2's: the older goes.
    assert_eq!(evicted(&mut cache, 3), Some(1));
    let mut cache = after(Lru2::new(2, 1, 0), &[1, 1, 2, 9, 9, 9, 9]);
    assert_eq!(evicted(&mut cache, 4), Some(2), "9 is fresh; its burst is one access");
    assert_eq!(cache.resident(), 2);
}

#[test]
fn what_is_remembered_stays_within_its_bound_however_often_lines_return() {
    let mut cache = Lru2::new(4, 0, 4);
    cache.reserve(1000);
    for i in 0..50_000u32 {
        cache.access(LineId(i % 7));
    }
    assert!(cache.footprint().resident < 8 * 44 + 8 * 1024, "{:?}", cache.footprint());
}
