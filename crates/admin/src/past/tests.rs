//! The past is bounded, and keeps its numbers.

use super::{EVENTS_MAX, Events, Growth, Seconds, Totals};
use crate::api::Severity;
use thermocline_units::Nanos;

#[test]
fn the_oldest_are_forgotten_and_numbers_stay() {
    let mut events = Events::default();
    assert!(events.from(0).is_empty());
    for number in 1..=EVENTS_MAX as u64 + 5 {
        let event = events.note(Severity::Info, "test", format!("{number}"));
        assert_eq!((event.id, event.text.as_str()), (number, number.to_string().as_str()));
    }
    let ids = |from| events.from(from).iter().map(|event| event.id).collect::<Vec<_>>();
    assert_eq!(ids(0), (6..=1005).collect::<Vec<u64>>());
    assert_eq!(ids(0), ids(6));
    assert_eq!(ids(1004), [1004, 1005]);
    assert!(ids(1006).is_empty() && ids(u64::MAX).is_empty());
}

#[test]
fn seconds_are_numbered_from_nought() {
    let mut seconds = Seconds::default();
    for number in 0..310 {
        assert_eq!(seconds.number(), number);
        seconds.end(number);
    }
    assert_eq!(seconds.from(0), (10..310).collect::<Vec<u64>>());
    assert_eq!(seconds.from(308), [308, 309]);
    assert!(seconds.from(310).is_empty());
}

#[derive(Debug)]
struct Count(u64);

impl Totals for Count {
    type Second = (u64, u64);

    fn since(&self, before: &Count, number: u64) -> (u64, u64) {
        (number, self.0.saturating_sub(before.0))
    }
}

#[test]
fn seconds_are_what_was_added_and_the_first_look_begins_the_first() {
    let mut growth = Growth::default();
    for (ms, total) in [(0, 5), (500, 6), (1_010, 9), (1_500, 20), (2_100, 21), (3_200, 1)] {
        let now = Nanos(ms * 1_000_000);
        if growth.is_over(now) {
            growth.note(now, Count(total));
        }
    }
    assert_eq!(growth.from(0), [(0, 4), (1, 12), (2, 0)]);
    assert_eq!(growth.from(2), [(2, 0)]);
}
