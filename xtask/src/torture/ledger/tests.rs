//! The ledger forgives what a crash may do, and nothing else.

use super::*;

const ONE: Range<u64> = 3..4;

fn ledger() -> Ledger {
    Ledger::new(77, 16 * SECTOR as u64)
}

/// Writes and answers: the write's number.
fn write(ledger: &mut Ledger, forced: bool) -> u32 {
    assert!(ledger.take(&ONE));
    let write = ledger.sent(&ONE, Change::Written);
    ledger.done(&ONE, write, Change::Written, forced);
    write
}

#[test]
fn what_a_flush_covered_may_not_be_older_after_a_crash() {
    let mut ledger = ledger();
    let old = write(&mut ledger, true);
    let flushed = write(&mut ledger, false);
    let mark = ledger.mark();
    let later = write(&mut ledger, false);
    ledger.flushed(mark);
    ledger.ended(false);
    for (found, fine) in [(later, true), (flushed, true), (old, false)] {
        let mut world =
            Ledger { sectors: ledger.sectors.clone(), writes: 3, ..super::tests::ledger() };
        let bytes = world.contents(&ONE, found);
        let flaws = world.settle(&ONE, &bytes);
        let expected = if fine { vec![] } else { vec![Flaw::Lost(3, flushed, old)] };
        assert_eq!(flaws, expected, "write {found}");
    }
}

#[test]
fn what_was_read_after_a_crash_stays_through_the_next() {
    let mut ledger = ledger();
    let old = write(&mut ledger, true);
    let new = write(&mut ledger, false);
    ledger.ended(false);
    let [old, new] = [old, new].map(|write| ledger.contents(&ONE, write));
    assert_eq!(ledger.settle(&ONE, &new), []);
    ledger.ended(false);
    assert_eq!(ledger.settle(&ONE, &old), [Flaw::Lost(3, 2, 1)]);
}

#[test]
fn zeroes_are_only_forgiven_after_zeroing_or_discarding() {
    let mut ledger = ledger();
    let written = write(&mut ledger, true);
    let zeroes = vec![0; SECTOR];
    assert_eq!(ledger.compare(&ONE, &zeroes), [Flaw::Lost(3, written, 0)]);
    let discard = ledger.sent(&ONE, Change::Discarded);
    ledger.done(&ONE, discard, Change::Discarded, false);
    assert_eq!(ledger.compare(&ONE, &zeroes), []);
    let again = write(&mut ledger, true);
    assert_eq!(ledger.compare(&ONE, &zeroes), [Flaw::Lost(3, again, 0)]);
    ledger.ended(false);
    assert_eq!(ledger.settle(&ONE, &zeroes), [Flaw::Lost(3, again, 0)]);
}

#[test]
fn a_foreign_and_a_torn_sector_are_wrong() {
    let mut ledger = ledger();
    let written = write(&mut ledger, true);
    let foreign = ledger.contents(&(9..10), written);
    assert!(matches!(&ledger.compare(&ONE, &foreign)[..], [Flaw::Wrong(3, _)]));
    let mut torn = ledger.contents(&ONE, written);
    torn[511] ^= 1;
    assert!(matches!(&ledger.settle(&ONE, &torn)[..], [Flaw::Wrong(3, _)]));
}

#[test]
fn two_requests_never_meet_in_a_sector() {
    let mut ledger = ledger();
    assert!(ledger.take(&(2..5)));
    assert!(!ledger.take(&(4..6)));
    assert!(ledger.take(&(5..6)));
    ledger.give_back(&(2..5));
    assert!(ledger.take(&(4..5)));
}
