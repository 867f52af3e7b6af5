//! The past is bounded, and keeps its numbers.

use super::{EVENTS_MAX, Events, Seconds};
use crate::api::Severity;

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
