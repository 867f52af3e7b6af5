//! The share that is admitted.

use crate::cache::Tag;
use crate::cache::admission::tests::build;
use thermocline_units::LineId;

#[test]
fn the_admitted_share_is_the_probability() {
    for p in [0.05, 0.5] {
        let mut cache = build(&format!("random:p={p}+fifo"));
        let mut admitted = |i: u32| cache.access(LineId(i % 1999), Tag::default()).is_resident();
        let misses = 20_000;
        // Lines come back after 1999 others: hits are rare, and counted out.
        let resident = (0..misses).filter(|i| admitted(*i)).count() as f64;
        let share = resident / f64::from(misses);
        let deviation = (p * (1.0 - p) / f64::from(misses)).sqrt();
        assert!((share - p).abs() < 5.0 * deviation, "{p}: {share}");
    }
}

#[test]
fn certainty_and_impossibility_are_exact() {
    let mut always = build("random:p=1+lru");
    let mut never = build("random:p=0+lru");
    (0..1000).for_each(|i| {
        assert!(always.access(LineId(i), Tag::default()).is_resident());
        assert!(!never.access(LineId(i), Tag::default()).is_resident());
    });
}
