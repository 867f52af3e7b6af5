//! A file that changes is read once it is complete.

use super::*;

fn rest(seen: Option<Mark>) -> (Rest, Instant) {
    (Rest { seen, changed: None }, Instant::now())
}

const A: Option<Mark> = Some((1, 10, 100, 0));
const HALF: Option<Mark> = Some((1, 5, 101, 0));
const B: Option<Mark> = Some((1, 10, 101, 400));

/// A file that an editor wrote in two halves, 0.4 s apart, was read in between: a backend went and
/// came back.
#[test]
fn a_file_that_is_being_written_is_waited_for() {
    let (mut rest, start) = rest(A);
    let at = |millis| start + Duration::from_millis(millis);
    assert!(!rest.look(at(0), A));
    assert!(!rest.look(at(200), HALF));
    assert!(!rest.look(at(400), HALF));
    assert!(!rest.look(at(600), B));
    assert!(!rest.look(at(1400), B), "it has been so for 0.8 s");
    assert!(rest.look(at(1600), B));
    assert!(!rest.look(at(1800), B), "it has been read");
}

#[test]
fn a_file_that_is_away_for_a_moment_is_read_when_it_is_back() {
    let (mut rest, start) = rest(A);
    let at = |millis| start + Duration::from_millis(millis);
    assert!(!rest.look(at(0), None));
    assert!(!rest.look(at(5000), None));
    assert!(!rest.look(at(5200), B));
    assert!(rest.look(at(6200), B));
}

/// The mark was taken after the file had been read: what changed in between was never followed.
#[test]
fn what_changed_since_the_mark_was_taken_is_noticed() {
    let (mut rest, start) = rest(A);
    assert!(!rest.look(start, B));
    assert!(rest.look(start + SETTLE, B));
}
