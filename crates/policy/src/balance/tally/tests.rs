//! Counts at past moments, beside a plain list of times.

use super::{MARKS_MAX, Tally};
use thermocline_units::Nanos;

#[test]
fn few_events_are_counted_exactly_at_every_moment() {
    let times = [3, 3, 5, 9, 9, 9, 12, 20];
    let mut tally = Tally::default();
    times.iter().for_each(|&time| tally.add(Nanos(time)));
    for moment in 0..25 {
        let plain = times.iter().filter(|time| **time <= moment).count() as u64;
        assert_eq!(tally.at(Nanos(moment)), plain, "at {moment}");
    }
    assert_eq!(tally.total(), times.len() as u64);
}

#[test]
fn many_events_are_late_by_a_32nd_at_most() {
    for events in [100_u64, 1_000, 10_000] {
        for part in 1..10 {
            let mut tally = Tally::default();
            (1..=events).for_each(|time| tally.add(Nanos(time)));
            let moment = events * part / 10;
            let counted = tally.at(Nanos(moment));
            assert!(counted <= moment && moment - counted <= events / 32, "{counted}");
            assert!(tally.marks.len() <= MARKS_MAX);
        }
    }
}
