//! The multi-queue against hand-worked periods.

use crate::placement::Placement;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to, touch_at, write};
use thermocline_units::Nanos;

/// Reads each chunk of `indices` once in every second of `seconds`.
fn read(smq: &mut dyn Placement, seconds: std::ops::Range<u64>, indices: &[u32]) {
    for second in seconds {
        indices.iter().for_each(|&index| touch_at(smq, Nanos::from_secs(second), chunk(index), 1));
    }
}

#[test]
fn a_free_pool_takes_the_upper_half_and_not_the_lower() {
    let mut smq = build("smq");
    let at: Vec<_> = (0..8).map(|index| (index, 1)).collect();
    let view = Pools::new(&[8, 8], &at);
    // Chunks 4 to 7 are used in more periods than 0 to 3, and later chunks later.
    read(smq.as_mut(), 0..1, &[0, 1, 2, 3]);
    read(smq.as_mut(), 0..3, &[4, 5, 6, 7]);
    assert_eq!(propose_to(smq.as_mut(), &view), [(7, 0), (6, 0), (5, 0), (4, 0)]);
}

#[test]
fn many_accesses_in_one_period_lift_a_chunk_once() {
    let view = Pools::new(&[1, 8], &[(0, 1), (1, 1)]);
    for (period, first) in [("1s", 1), ("1ms", 0)] {
        let mut smq = build(&format!("smq:period={period}"));
        for milli in 0..50 {
            touch_at(smq.as_mut(), Nanos(milli * 1_000_000), chunk(0), 1);
        }
        read(smq.as_mut(), 1..3, &[1]);
        assert_eq!(propose_to(smq.as_mut(), &view), [(first, 0)], "period {period}");
    }
}

#[test]
fn a_full_pool_exchanges_only_its_lower_levels_for_the_highest() {
    let mut smq = build("smq");
    let at: Vec<_> = (0..16).map(|index| (index, u16::from(index >= 4))).collect();
    let view = Pools::new(&[4, 16], &at);
    read(smq.as_mut(), 0..1, &[0, 1, 2, 3]);
    read(smq.as_mut(), 1..9, &[12, 13]);
    read(smq.as_mut(), 9..19, &[15]);
    // The fastest pool has served 4 of 30 accesses: one level from the top rises, so one chunk.
    // Nobody touched chunk 4 and those behind it, and they stay.
    assert_eq!(propose_to(smq.as_mut(), &view), [(0, 1), (15, 0)]);
}

#[test]
fn what_was_written_last_must_stand_higher() {
    let mut smq = build("smq");
    let at: Vec<_> = (0..64).map(|index| (index, 1)).collect();
    let view = Pools::new(&[64, 64], &at);
    (0..64).for_each(|index| write(smq.as_mut(), chunk(index), 1));
    let promoted = propose_to(smq.as_mut(), &view);
    assert_eq!(promoted.len(), 30, "levels 34 to 63, where reads would have 32 to 63");
    assert!(promoted.iter().all(|&(index, to)| index >= 34 && to == 0));
}
