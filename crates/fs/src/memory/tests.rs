//! State that a survey keeps is found again, and forgotten when it should be.

use super::*;

#[test]
fn a_fingerprint_is_kept_until_it_is_forgotten_zero_too() {
    let mut known = Fingerprints::default();
    for (inode, mark) in [(5, 7), (64, 0), (u64::MAX, 9)] {
        known.set(inode, mark);
    }
    assert_eq!(
        [5, 64, u64::MAX, 6].map(|inode| known.get(inode)),
        [Some(7), Some(1), Some(9), None]
    );
    assert_eq!(known.known, 3);
    assert_eq!((known.first_in(6..65), known.first_in(6..64)), (Some(64), None));
    assert!(known.forget(64) && !known.forget(64) && !known.forget(1 << 40));
    assert_eq!((known.known, known.runs.len()), (2, 2));
}

#[test]
fn metadata_stands_until_a_run_does_not_see_it() {
    let mut standing = Standing::default();
    let at = |offset, length| Stretch { offset: Bytes(offset), length: Bytes(length) };
    assert_eq!(standing.see(at(0, 8), What::Journal, 1), Seen::New);
    assert_eq!(standing.see(at(8, 8), What::Quota, 1), Seen::New);
    assert_eq!(standing.see(at(0, 8), What::Journal, 2), Seen::Before);
    assert_eq!(standing.see(at(0, 4), What::Journal, 2), Seen::Changed(at(0, 8)));
    assert_eq!(standing.sweep(2), [(at(8, 8), What::Quota)]);
    assert_eq!(standing.len(), 1);
}
