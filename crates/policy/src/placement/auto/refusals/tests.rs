//! Chunks that stay are asked some times, and then left alone for long.

use super::{ASKED, REST, Refusals};

#[test]
fn who_stays_though_it_was_asked_is_left_alone_for_a_while() {
    let mut refusals = Refusals::default();
    for _ in 0..ASKED {
        assert!(!refusals.rests(7));
        refusals.note(&[7], |_| true);
    }
    for epoch in 0..REST {
        assert!(refusals.rests(7), "{epoch}");
        refusals.note(&[], |_| true);
    }
    refusals.note(&[], |_| true);
    assert!(!refusals.rests(7));
    assert_eq!(refusals.bytes(), 0);
}

#[test]
fn who_was_asked_and_is_not_any_more_or_has_left_begins_anew() {
    let mut refusals = Refusals::default();
    for asked in [&[7][..], &[7], &[], &[7], &[7]] {
        refusals.note(asked, |_| true);
        assert!(!refusals.rests(7), "never three times in a row");
    }
    refusals.note(&[7], |_| true);
    assert!(refusals.rests(7));
    refusals.note(&[], |_| false);
    assert!(!refusals.rests(7), "it has left");
}
