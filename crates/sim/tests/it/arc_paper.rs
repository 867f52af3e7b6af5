//! The hit ratios of the ARC paper (Megiddo & Modha, FAST 2003) on its own traces.
//!
//! LRU, ARC and MIN are held to the printed digits, but for ARC at 1,000 pages of OLTP: 38.93 is
//! printed, and this ARC, like one written independently in a few lines, has 38.945. Variants that
//! could explain it (p in whole steps: 39.06, in steps of one: 39.29) are farther off. 2Q's row is
//! not held as tightly: the paper tuned Kin and Kout at each size and does not give them; at 15,000
//! pages its 65.82 is what Kin = .3 gives here. LRU-2's row (39.30 at 1,000) was tuned likewise,
//! over periods of correlated reference, and cannot be checked; `oracle_counts.rs` has LRU-2
//! against another program.

use crate::fixtures::Accesses;
use rayon::prelude::*;

/// (cache in pages, [(policy, hit ratio in percent as printed, tolerance)]).
type Table = &'static [(u32, &'static [(&'static str, f64, f64)])];

/// Half of the last digit printed, and a little for a printed digit that was cut and not rounded.
const EXACT: f64 = 0.0101;
const TUNED: f64 = 0.05;

const OLTP: Table = &[
    (
        1000,
        &[
            ("lru", 32.83, EXACT),
            ("arc", 38.93, 0.016),
            ("2q", 40.48, TUNED),
            ("belady", 53.61, EXACT),
        ],
    ),
    (
        2000,
        &[
            ("lru", 42.47, EXACT),
            ("arc", 46.08, EXACT),
            ("2q", 46.53, TUNED),
            ("belady", 60.40, EXACT),
        ],
    ),
    (
        5000,
        &[
            ("lru", 53.65, EXACT),
            ("arc", 55.25, EXACT),
            ("2q", 55.70, TUNED),
            ("belady", 68.27, EXACT),
        ],
    ),
    (
        10_000,
        &[
            ("lru", 60.70, EXACT),
            ("arc", 61.87, EXACT),
            ("2q", 62.58, TUNED),
            ("belady", 73.02, EXACT),
        ],
    ),
    (
        15_000,
        &[
            ("lru", 64.63, EXACT),
            ("arc", 65.40, EXACT),
            ("2q:kin=0.3", 65.82, EXACT),
            ("belady", 75.13, EXACT),
        ],
    ),
];

/// 512 B pages, 16 MiB.
const P3: Table = &[(32_768, &[("lru", 3.57, EXACT), ("arc", 17.12, EXACT)])];
const P6: Table = &[(32_768, &[("lru", 4.24, EXACT), ("arc", 23.84, EXACT)])];

fn check(trace: &str, table: Table) {
    let Some(trace) = Accesses::arc_paper(trace) else { return };
    let cells: Vec<_> =
        table.iter().flat_map(|(size, row)| row.iter().map(move |cell| (*size, *cell))).collect();
    let wrong: Vec<_> = cells
        .into_par_iter()
        .map(|(size, (spec, printed, tolerance))| {
            let misses = trace.misses(spec, size) as f64;
            (spec, size, printed, tolerance, 100.0 - 100.0 * misses / trace.lines.len() as f64)
        })
        .filter(|(.., printed, tolerance, ours)| (printed - ours).abs() > *tolerance)
        .collect();
    assert!(wrong.is_empty(), "(policy, pages, printed, tolerance, ours): {wrong:#?}");
}

#[test]
fn hit_ratios_on_oltp_are_the_papers() {
    check("OLTP", OLTP);
}

#[test]
fn hit_ratios_on_p3_are_the_papers() {
    check("P3", P3);
}

#[test]
fn hit_ratios_on_p6_are_the_papers() {
    check("P6", P6);
}
