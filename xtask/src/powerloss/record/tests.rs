//! Contents that a volume may have follow from the record, mark by mark.

use super::*;

/// Writes 1 and 2 to sector 3: 1 is flushed before mark 1, 2 is sent behind it.
const RECORD: &str = "mark 0\nsent 3 4 w\nanswered 3 4 1 w 0\nflushed 1\nmark 1\nsent 3 4 w\nmark 2\n\
                      ended 0\nread 0 3 0\nread 3 4 2\nread 4 16 0\nmark 3";

/// True, for each mark, if sector 3 may hold this write; 0: zeroes.
fn may(write: u32) -> [bool; 4] {
    let mut witness = Witness::new(5, 16 * SECTOR as u64, RECORD).unwrap();
    let may = [0, 1, 2, 3].map(|mark| {
        let mut ledger = witness.at(mark).unwrap();
        let bytes = match write {
            0 => vec![0; SECTOR],
            write => ledger.contents(&(3..4), write),
        };
        ledger.settle(&(3..4), &bytes).is_empty()
    });
    assert_eq!(witness.flaws, []);
    may
}

#[test]
fn a_mark_demands_what_was_flushed_and_forgives_what_was_sent() {
    assert_eq!(may(0), [true, false, false, false]);
    assert_eq!(may(1), [true, true, true, false]);
    // Sent between marks 1 and 2; read back after the kill.
    assert_eq!(may(2), [false, true, true, true]);
    assert!(Witness::new(5, 8192, RECORD).unwrap().at(4).is_none());
}

#[test]
fn every_event_is_read_as_it_was_written() {
    for line in RECORD.lines().chain(["sent 1 9 z", "sent 1 9 d", "answered 1 9 3 z 1", "ended 1"])
    {
        assert_eq!(Event::parse(line).unwrap().line(), line);
    }
    for wrong in ["", "sent 1", "sent 1 2 x", "mark", "mark x", "answered 1 2 3 w", "else 1"] {
        assert_eq!(Event::parse(wrong), None, "{wrong}");
    }
}
