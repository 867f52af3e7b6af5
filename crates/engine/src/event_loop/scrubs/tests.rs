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

/// The first start wrote down its own time as that of a scrub's end: right after a scrub it was
/// said that the last one had ended when the group was made.
#[test]
fn the_first_interval_counts_from_the_first_start_at_which_no_scrub_ended() {
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("scrubbed");
    let start = |now_ms| {
        let every = Some(Duration::from_secs(86_400));
        let mut scrubs = Scrubs { every, ..Scrubs::default() };
        assert_eq!(scrubs.recall(&memory, now_ms), None);
        scrubs
    };
    let first = start(100 * DAY_MS);
    assert_eq!(first.last_end_ms, None);
    assert!(!first.is_due(101 * DAY_MS - 1) && first.is_due(101 * DAY_MS));

    // Neither put off by a restart, nor brought by it.
    let mut second = start(100 * DAY_MS + 5);
    assert_eq!(second.last_end_ms, None);
    assert!(!second.is_due(101 * DAY_MS - 1) && second.is_due(101 * DAY_MS));
    assert_eq!(second.note_end(102 * DAY_MS), None);
    assert!(!second.is_due(103 * DAY_MS - 1) && second.is_due(103 * DAY_MS));

    let third = start(102 * DAY_MS + 5);
    assert_eq!(third.last_end_ms, Some(102 * DAY_MS));
    assert!(!third.is_due(103 * DAY_MS - 1) && third.is_due(103 * DAY_MS));

    // By an earlier version: nothing but the time.
    std::fs::write(&memory, format!("{}\n", 99 * DAY_MS)).unwrap();
    assert_eq!(start(100 * DAY_MS).last_end_ms, Some(99 * DAY_MS));
    std::fs::remove_file(&memory).unwrap();
    std::fs::create_dir(&memory).unwrap();
    let mut scrubs = Scrubs { every: Some(Duration::from_secs(9)), ..Scrubs::default() };
    assert!(scrubs.recall(&memory, 1).unwrap().contains("scrubbed: "));
}
