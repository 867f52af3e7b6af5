//! Scrubs that are due, and clocks that were wrong.

use super::Scrubs;
use std::time::Duration;

const DAY_MS: u64 = 86_400_000;

/// A clock that was once in the future put scrubs off by as much, without a word.
#[test]
fn a_last_scrub_in_the_future_counts_for_nothing() {
    let every = Some(Duration::from_secs(86_400));
    let due = |last_ms| {
        let scrubs = Scrubs { every, last_end_ms: Some(last_ms), ..Scrubs::default() };
        scrubs.is_due(100 * DAY_MS)
    };
    assert_eq!([99 * DAY_MS, 99 * DAY_MS + 1, 100 * DAY_MS + 1].map(due), [true, false, true]);
    assert!(due(u64::MAX));
}
