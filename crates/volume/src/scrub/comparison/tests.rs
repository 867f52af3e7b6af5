//! Verdicts on copies, block by block.

use super::{Verdict, most_common};

fn judged(blocks: &[(Option<u32>, &[Option<u32>])]) -> Verdict {
    let copies = blocks[0].1.len();
    let mut verdict = Verdict { errors: vec![0; copies], ..Verdict::default() };
    for (block, (expected, hashes)) in blocks.iter().enumerate() {
        verdict.add(block as u32, *expected, hashes);
    }
    verdict
}

#[test]
fn a_majority_decides_and_a_tie_does_not() {
    assert_eq!(most_common(&[Some(1), Some(2), Some(1)]), Some(1));
    assert_eq!(most_common(&[Some(1), Some(2)]), None);
    assert_eq!(most_common(&[Some(1), Some(2), Some(3)]), None);
    assert_eq!(most_common(&[None, Some(2)]), Some(2));
    assert_eq!(most_common(&[None, None]), None);
}

#[test]
fn with_a_checksum_one_copy_is_enough_to_repair_two() {
    let verdict = judged(&[
        (Some(5), &[Some(1), Some(5), Some(1)]),
        (Some(6), &[Some(2), Some(6), Some(6)]),
        (Some(7), &[Some(7), Some(7), None]),
    ]);
    assert_eq!(verdict.wrong, [(0, 0..8192, 1), (2, 0..4096, 1), (2, 8192..12_288, 0)]);
    assert_eq!((verdict.errors, verdict.sums), (vec![2, 0, 1], vec![Some(5), Some(6), Some(7)]));
    assert!(verdict.unrepairable.is_empty() && verdict.undecided.is_empty());
}

#[test]
fn copies_that_differ_without_a_checksum_are_left_as_they_are() {
    let verdict = judged(&[
        (None, &[Some(1), Some(2)]),
        (None, &[Some(3), Some(4)]),
        (None, &[Some(9), Some(9)]),
    ]);
    assert!(verdict.wrong.is_empty());
    assert!(matches!(verdict.undecided[..], [std::ops::Range { start: 0, end: 8192 }]));
    assert_eq!(verdict.sums, [None, None, Some(9)]);
}

#[test]
fn what_no_copy_has_right_keeps_its_checksum() {
    let verdict = judged(&[(Some(5), &[Some(1), None]), (None, &[None, None])]);
    assert!(verdict.wrong.is_empty());
    let only = |runs: &[std::ops::Range<u32>]| (runs.len(), runs[0].start);
    assert_eq!((only(&verdict.unrepairable), only(&verdict.unreadable)), ((1, 0), (1, 4096)));
    assert_eq!(verdict.sums, [Some(5), None], "it stays an error, and never becomes data");
}
