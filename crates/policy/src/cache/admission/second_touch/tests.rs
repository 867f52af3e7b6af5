//! Number of misses that admit a line, and the time for which they are remembered.

use crate::cache::admission::tests::build;
use crate::cache::{Outcome, Tag};
use thermocline_units::LineId;

#[test]
fn the_nth_miss_admits() {
    for touches in 1..=8 {
        let mut cache = build(&format!("second-touch:touches={touches}+lru"));
        let mut access = || cache.access(LineId(5), Tag::default());
        (1..touches).for_each(|_| assert_eq!(access(), Outcome::BYPASSED));
        assert_eq!(access(), Outcome::ADMITTED, "{touches} touches");
        assert_eq!(access(), Outcome::HIT);
    }
}

#[test]
fn the_shadow_remembers_its_window_and_no_more() {
    // 64 lines and a window of half of them: 32 lines are remembered.
    for (others, outcome) in [(31, Outcome::ADMITTED), (32, Outcome::BYPASSED)] {
        let mut cache = build("second-touch:window=0.5+lru");
        cache.access(LineId(0), Tag::default());
        (1..=others).for_each(|line| {
            cache.access(LineId(line), Tag::default());
        });
        assert_eq!(cache.access(LineId(0), Tag::default()), outcome, "after {others} others");
    }
}
