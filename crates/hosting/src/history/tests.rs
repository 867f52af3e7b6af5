//! Seconds of totals: their growth, and where the first one begins.

use super::*;

#[derive(Debug, Clone, Default, PartialEq)]
struct Count(u64, u64);

impl Growing for Count {
    fn since(&self, before: &Count, number: u64) -> Count {
        Count(number, self.1.saturating_sub(before.1))
    }
}

#[test]
fn seconds_are_what_was_added_and_the_first_look_begins_the_first() {
    let mut history = History::default();
    for (ms, total) in [(10, 5), (500, 6), (1_020, 9), (1_500, 20), (2_100, 21), (3_200, 1)] {
        let now = Nanos(ms * 1_000_000);
        if history.is_over(now) {
            history.note(now, Count(0, total));
        }
    }
    assert_eq!(history.from(0), [Count(0, 4), Count(1, 12), Count(2, 0)]);
    assert_eq!(history.from(2), [Count(2, 0)]);
}
