//! Requests that may hold the same lines together, and the order of those that wait.

use super::{Hold, Locks};

#[test]
fn reads_share_and_writes_do_not() {
    let mut locks = Locks::default();
    let first = locks.take(0..4, Hold::Read).unwrap();
    assert!(locks.take(2..6, Hold::Read).is_some());
    assert!(locks.take(3..4, Hold::Write).is_none());
    assert!(locks.take(6..7, Hold::Write).is_some());
    assert!(!locks.upgrade(first), "another one reads lines of it");
}

#[test]
fn taking_back_goes_beside_reads_and_writes_and_not_beside_drops() {
    let mut locks = Locks::default();
    locks.take(0..16, Hold::Back).unwrap();
    assert!(locks.take(0..1, Hold::Read).is_some());
    assert!(locks.take(4..5, Hold::Write).is_some());
    assert!(locks.take(8..9, Hold::Drop).is_none());
    assert!(locks.take(15..17, Hold::Back).is_none());
}

#[test]
fn who_waits_is_not_overtaken_by_who_wants_the_same() {
    let mut locks = Locks::default();
    let reader = locks.take_or_wait(1, 0..4, Hold::Read).unwrap();
    assert_eq!(locks.take_or_wait(2, 0..1, Hold::Write), None);
    // This read could go beside the other; the write came first.
    assert_eq!(locks.take_or_wait(3, 0..2, Hold::Read), None);
    assert!(locks.take_or_wait(4, 2..4, Hold::Read).is_some(), "it wants other lines");
    assert_eq!(locks.next(), None);
    locks.release(reader);
    let (request, writer) = locks.next().unwrap();
    assert_eq!(request, 2);
    assert_eq!(locks.next(), None);
    locks.release(writer);
    assert_eq!(locks.next().unwrap().0, 3);
}

#[test]
fn a_read_that_is_alone_becomes_a_write() {
    let mut locks = Locks::default();
    let reader = locks.take_or_wait(1, 0..4, Hold::Read).unwrap();
    assert!(locks.upgrade(reader));
    assert_eq!(locks.take_or_wait(2, 3..4, Hold::Read), None);
    assert!(locks.holds(3) && !locks.holds(4));
}
