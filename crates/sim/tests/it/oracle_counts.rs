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
    ("Sieve", "sieve"),
    ("LIRS", "lirs"),
    ("S3FIFO-0.1000-2", "s3-fifo"),
];

/// Sizes of that table.
const SIZES: [u32; 6] = [100, 489, 1000, 4897, 10_000, 20_000];

/// One line of the table: `FILE POLICY cache size N, R req, miss ratio M`.
fn parse_row(row: &str) -> Option<(&str, u32, u64)> {
    let mut words = row.split_ascii_whitespace();
    let policy = words.nth(1)?;
    let size = words.nth(2)?.trim_end_matches(',').parse().ok()?;
    let requests: f64 = words.next()?.parse().ok()?;
    let ratio: f64 = words.nth(3)?.parse().ok()?;
    Some((policy, size, (ratio * requests).round() as u64))
}

/// Rows of that table: policy, size, misses.
pub(crate) fn rows(table: &[u8]) -> impl Iterator<Item = (&str, u32, u64)> {
    str::from_utf8(table).expect("the table is text").lines().filter_map(parse_row)
}

#[test]
fn miss_counts_equal_libcachesims_to_the_last_request() {
    let (Some(trace), Some(table)) = (Accesses::cloudphysics(), shared("peers/oracle_cpio.txt"))
    else {
        return;
    };
    let cases: Vec<_> = rows(&table)
        .filter_map(|(name, size, misses)| {
            let (_, spec) = ROWS.iter().find(|(oracle, _)| *oracle == name)?;
            Some((*spec, size, misses))
        })
        .collect();
    assert_eq!(cases.len(), ROWS.len() * SIZES.len(), "every policy at every size");
    let wrong: Vec<_> = cases
        .par_iter()
        .map(|(spec, size, expected)| (spec, size, expected, trace.misses(spec, *size)))
        .filter(|(_, _, expected, counted)| **expected != *counted)
        .collect();
    assert!(wrong.is_empty(), "(policy, size, libCacheSim, ours): {wrong:#?}");
}

/// Miss ratios of MIN with forced admission, which two other programs confirm: `peers/caches.md`
/// §2; at 146 and 19,589 lines, to four digits, `ALGORITHMS.md` §4.
const BELADY: &[(u32, f64, f64)] = &[
    (489, 0.79267072, 5e-9),
    (4897, 0.62895181, 5e-9),
    (20_000, 0.45527434, 5e-9),
    (146, 0.8189, 5e-5),
    (19_589, 0.4589, 5e-5),
];

/// Miss ratios of a CAR that follows the paper and agrees with the Merlin artifact's to .0002:
/// `ALGORITHMS.md` §4. Why libCacheSim's differ: `car_model.rs`.
const CAR: &[(u32, f64, f64)] =
    &[(146, 0.8441, 5e-5), (489, 0.8278, 5e-5), (4897, 0.7735, 5e-5), (19_589, 0.5679, 5e-5)];

#[test]
fn belady_and_car_are_those_of_programs_that_follow_the_papers() {
    let Some(trace) = Accesses::cloudphysics() else { return };
    for (spec, cells) in [("belady", BELADY), ("car", CAR)] {
        for (size, expected, tolerance) in cells {
            let ratio = trace.misses(spec, *size) as f64 / trace.lines.len() as f64;
            let difference = (ratio - expected).abs();
            assert!(difference <= *tolerance, "{spec}@{size}: {ratio:.8}, not {expected}");
        }
    }
}

/// Misses of libCacheSim 0.3.5's LRUK with k = 2, which remembers no line that has left.
const LRU_K: [u64; 6] = [106_503, 96_547, 95_452, 90_040, 81_059, 64_431];

#[test]
fn lru_2_without_history_is_libcachesims_lru_k() {
    let Some(trace) = Accesses::cloudphysics() else { return };
    let counted = SIZES.map(|size| trace.misses("lru-2:history=0", size));
    assert_eq!(counted, LRU_K);
}

/// libCacheSim 0.3.5 away from its defaults: Clock with 2-bit counters that start at 0 and at 1;
/// TwoQ with .5 and .8. Misses at 489 and 4,897 lines.
const SETTINGS: &[(&str, [u64; 2])] = &[
    ("clock:bits=2", [95_181, 91_531]),
    ("clock:bits=2:first=1", [95_381, 91_602]),
    ("2q:kin=0.5:kout=0.8", [94_523, 86_742]),
];

#[test]
fn settings_mean_what_they_mean_in_libcachesim() {
    let Some(trace) = Accesses::cloudphysics() else { return };
    for (spec, expected) in SETTINGS {
        assert_eq!([489, 4897].map(|size| trace.misses(spec, size)), *expected, "{spec}");
    }
}
