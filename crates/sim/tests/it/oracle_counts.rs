//! Miss counts against programs and papers that nobody here wrote, to the last request.

use crate::fixtures::{Accesses, shared};
use rayon::prelude::*;

/// Rows of `peers/oracle_cpio.txt` (libCacheSim 0.3.5), and the policy that must equal them.
const ROWS: &[(&str, &str)] = &[
    ("FIFO", "fifo"),
    ("Clock", "clock"),
    ("LRU", "lru"),
    ("TwoQ", "2q"),
    ("ARC", "arc"),
    ("CAR", "car"),
    ("Sieve", "sieve"),
    ("LIRS", "lirs"),
    ("S3FIFO-0.1000-2", "s3-fifo"),
];

/// One line of the table: `FILE POLICY cache size N, R req, miss ratio M`.
fn parse_row(row: &str) -> Option<(&str, u32, u64)> {
    let mut words = row.split_ascii_whitespace();
    let policy = words.nth(1)?;
    let size = words.nth(2)?.trim_end_matches(',').parse().ok()?;
    let requests: f64 = words.next()?.parse().ok()?;
    let ratio: f64 = words.nth(3)?.parse().ok()?;
    Some((policy, size, (ratio * requests).round() as u64))
}

#[test]
fn miss_counts_equal_libcachesims_to_the_last_request() {
    let (Some(trace), Some(table)) = (Accesses::cloudphysics(), shared("peers/oracle_cpio.txt"))
    else {
        return;
    };
    let table = String::from_utf8(table).expect("the table is text");
    let cases: Vec<_> = table
        .lines()
        .filter_map(parse_row)
        .filter_map(|(name, size, misses)| {
            let (_, spec) = ROWS.iter().find(|(oracle, _)| *oracle == name)?;
            Some((*spec, size, misses))
        })
        .collect();
    assert_eq!(cases.len(), ROWS.len() * 6, "every policy at six sizes");
    let wrong: Vec<_> = cases
        .par_iter()
        .map(|(spec, size, expected)| (spec, size, expected, trace.misses(spec, *size)))
        .filter(|(_, _, expected, counted)| **expected != *counted)
        .collect();
    assert!(wrong.is_empty(), "(policy, size, libCacheSim, ours): {wrong:#?}");
}
