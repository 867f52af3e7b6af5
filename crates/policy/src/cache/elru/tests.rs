//! ELRU-n spares what is shared, and is LRU without counts.

use super::super::tests::misses;
use super::{Elru, Replacement};
use thermocline_units::LineId;

fn filled(depth: u32) -> Elru {
    let mut cache = Elru::new(4, depth);
    Replacement::reserve(&mut cache, 16);
    for line in 0..4 {
        Replacement::access(&mut cache, LineId(line));
        Replacement::set_shares(&mut cache, LineId(line), [3, 2, 1, 5][line as usize]);
    }
    cache
}

#[test]
fn the_least_shared_of_the_oldest_leaves() {
    let evicted = |depth| Replacement::access(&mut filled(depth), LineId(9)).evicted();
    assert_eq!(evicted(1), Some(LineId(0)), "depth 1 is lru");
    assert_eq!(evicted(2), Some(LineId(1)));
    assert_eq!(evicted(3), Some(LineId(2)));
    assert_eq!(evicted(100), Some(LineId(2)), "deeper than the cache");
}

#[test]
fn without_counts_it_is_lru() {
    for lines in [20, 200] {
        assert_eq!(misses("elru:n=100", lines), misses("lru", lines));
    }
}
