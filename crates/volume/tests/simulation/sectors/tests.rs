//! The model on its own: it must neither cry wolf nor sleep.

use super::*;

const OLD: Seen = Seen::Write(1);
const NEW: Seen = Seen::Write(2);

/// A volume of eight sectors whose durable contents are write 1, after event 4.
fn durable() -> Sectors {
    let mut sectors = Sectors::new(8);
    write(&mut sectors, 1, 1, 2, Ending::Forced);
    sectors
}

fn write(sectors: &mut Sectors, number: u64, submitted: u64, answered: u64, ending: Ending) {
    sectors.begin(0..8, number, Seen::Write(number));
    let issue = Issue { write: number, submitted };
    sectors.end(0..8, issue, ending, answered, u64::MAX);
}

fn may_hold(sectors: &Sectors, seen: Seen, submitted: u64) -> bool {
    sectors.clone().observe(3, &[seen], submitted, submitted + 1).is_ok()
}

#[test]
fn an_answered_write_replaces_the_old_contents_until_a_crash() {
    let mut sectors = durable();
    write(&mut sectors, 2, 10, 11, Ending::Written);
    assert!(may_hold(&sectors, NEW, 12) && !may_hold(&sectors, OLD, 12));
    sectors.crash(20);
    assert!(may_hold(&sectors, NEW, 21) && may_hold(&sectors, OLD, 21));
    assert!(!may_hold(&sectors, Seen::Zeroes, 21));
}

#[test]
fn a_flush_covers_what_was_answered_before_it_and_nothing_else() {
    let mut sectors = durable();
    write(&mut sectors, 2, 10, 11, Ending::Written);
    write(&mut sectors, 3, 13, 14, Ending::Written);
    sectors.flushed(12, u64::MAX);
    sectors.crash(20);
    assert!(!may_hold(&sectors, OLD, 21));
    assert!(may_hold(&sectors, NEW, 21) && may_hold(&sectors, Seen::Write(3), 21));
}

#[test]
fn what_was_read_after_a_crash_stays_through_the_next_one() {
    let mut sectors = durable();
    write(&mut sectors, 2, 10, 11, Ending::Written);
    sectors.crash(20);
    sectors.observe(0, &[OLD, NEW, OLD], 21, 22).unwrap();
    sectors.crash(30);
    assert!(sectors.clone().observe(0, &[OLD, NEW, OLD, NEW], 31, 32).is_ok());
    let error = sectors.observe(0, &[OLD, OLD, OLD], 31, 32).unwrap_err();
    assert_eq!(error, Mismatch { sectors: 1..2, seen: OLD, allowed: vec![NEW] });
}

#[test]
fn either_of_two_writes_in_flight_together_may_be_the_last_until_a_read_settles_it() {
    let mut sectors = durable();
    sectors.begin(0..8, 2, NEW);
    sectors.begin(0..8, 3, Seen::Write(3));
    let end = |sectors: &mut Sectors, write, submitted, now| {
        sectors.end(0..8, Issue { write, submitted }, Ending::Written, now, u64::MAX);
    };
    assert!(may_hold(&sectors, OLD, 12) && may_hold(&sectors, NEW, 12));
    end(&mut sectors, 3, 11, 13);
    assert!(!may_hold(&sectors, OLD, 14), "write 3 replaced it");
    end(&mut sectors, 2, 10, 15);
    assert!(may_hold(&sectors, NEW, 16) && may_hold(&sectors, Seen::Write(3), 16));
    sectors.observe(0, &[NEW; 8], 16, 17).unwrap();
    assert!(!may_hold(&sectors, Seen::Write(3), 18));
}

#[test]
fn a_failed_write_leaves_old_or_new() {
    let mut sectors = durable();
    write(&mut sectors, 2, 10, 11, Ending::Either);
    assert!(may_hold(&sectors, NEW, 12) && may_hold(&sectors, OLD, 12));
    sectors.flushed(12, u64::MAX);
    sectors.crash(20);
    assert!(may_hold(&sectors, NEW, 21) && may_hold(&sectors, OLD, 21));
}

#[test]
fn a_read_in_flight_may_still_return_what_a_write_replaced_meanwhile() {
    let mut sectors = durable();
    sectors.begin(0..8, 2, NEW);
    sectors.end(0..8, Issue { write: 2, submitted: 10 }, Ending::Forced, 12, 11);
    assert!(may_hold(&sectors, OLD, 11), "submitted before the answer");
    assert!(!may_hold(&sectors, OLD, 13), "submitted after it");
    sectors.crash(20);
    assert!(!may_hold(&sectors, OLD, 21), "the write was forced");
}

#[test]
fn a_short_read_does_not_settle_what_a_longer_one_in_flight_may_show() {
    let mut sectors = durable();
    sectors.begin(0..8, 2, NEW);
    sectors.end(0..8, Issue { write: 2, submitted: 12 }, Ending::Forced, 13, 10);
    sectors.observe(3, &[NEW], 14, 15).unwrap();
    assert!(may_hold(&sectors, OLD, 10), "submitted before the write, answered after the read");
}

#[test]
fn a_volume_grows_with_zeroes_and_shrinks_to_what_it_was() {
    let mut sectors = durable();
    sectors.resize(16);
    assert!(sectors.clone().observe(7, &[OLD, Seen::Zeroes], 5, 6).is_ok());
    sectors.begin(8..16, 2, NEW);
    sectors.crash(10);
    sectors.resize(8);
    sectors.resize(16);
    assert!(sectors.observe(7, &[OLD, Seen::Zeroes, NEW], 11, 12).is_ok(), "old or new");
}
