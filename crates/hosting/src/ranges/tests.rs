//! Ranges: who waits for whom, and who goes on when one ends.

#![allow(clippy::unwrap_used)]

use super::Ranges;

#[test]
fn who_is_alone_waits_for_all_before_and_holds_up_all_behind() {
    let mut ranges = Ranges::default();
    assert!(ranges.ask(1, 7, 0..4, false));
    assert!(ranges.ask(2, 7, 2..6, false), "two that share");
    assert!(!ranges.ask(3, 7, 3..5, true), "one alone");
    assert!(!ranges.ask(4, 7, 4..5, false), "behind the one alone");
    assert!(ranges.ask(5, 7, 8..9, true), "elsewhere");
    assert!(ranges.ask(6, 8, 3..5, true), "of another volume");
    assert!(ranges.has(7, 4) && !ranges.has(7, 6));
    assert!(ranges.end(1).is_empty());
    assert_eq!(ranges.end(2), [3]);
    assert_eq!(ranges.end(3), [4]);
    assert!(ranges.end(4).is_empty());
    assert!(ranges.end(4).is_empty(), "it is not there any more");
}
