//! The ways of a line between the queues, step by step.

use super::TwoQ;
use crate::cache::Replacement;
use thermocline_units::LineId;

fn after(accesses: impl IntoIterator<Item = u32>) -> TwoQ {
    let mut cache = TwoQ::new(8, 2, 4);
    cache.reserve(1000);
    for line in accesses {
        cache.access(LineId(line));
    }
    cache
}

#[test]
fn a_line_stays_only_if_it_comes_back_after_a1in() {
    // 0 is hit while in A1in, which earns nothing; it leaves with the ninth line.
    let mut cache = after((0..8).chain([0, 0, 8]));
    assert!(!cache.contains(LineId(0)));
    // Remembered in A1out, it enters Am, and a scan longer than the cache does not move it out.
    assert_eq!(cache.access(LineId(0)).evicted(), Some(LineId(1)));
    for line in 100..200 {
        cache.access(LineId(line));
    }
    assert!(cache.contains(LineId(0)));
}

#[test]
fn a1out_remembers_no_more_than_kout() {
    let mut cache = after(0..13); // 0 to 4 have left A1in; 1 to 4 are remembered
    cache.access(LineId(0));
    cache.access(LineId(4));
    for line in 100..200 {
        cache.access(LineId(line));
    }
    assert!(!cache.contains(LineId(0)) && cache.contains(LineId(4)));
}

#[test]
fn am_gives_a_line_when_a1in_has_no_more_than_kin() {
    let mut cache = after(0..9);
    // Every one of these comes back from A1out, until A1in is down to two lines.
    for line in 0..6 {
        cache.access(LineId(line));
    }
    assert_eq!(cache.access(LineId(6)).evicted(), Some(LineId(0)), "the oldest of Am");
}
