//! The hit ratios of the ARC paper (Megiddo & Modha, FAST 2003) on its own traces.

use crate::fixtures::Accesses;
use rayon::prelude::*;

/// (cache in pages, [(policy, hit ratio in percent as printed)]).
type Table = &'static [(u32, &'static [(&'static str, f64)])];

const OLTP: Table = &[
    (1000, &[("lru", 32.83)]),
    (2000, &[("lru", 42.47)]),
    (5000, &[("lru", 53.65)]),
    (10_000, &[("lru", 60.70)]),
    (15_000, &[("lru", 64.63)]),
];

fn check(trace: &str, table: Table) {
    let Some(trace) = Accesses::arc_paper(trace) else { return };
    let cells: Vec<_> = table
        .iter()
        .flat_map(|(size, row)| row.iter().map(move |(spec, printed)| (*spec, *size, *printed)))
        .collect();
    let wrong: Vec<_> = cells
        .into_par_iter()
        .map(|(spec, size, printed)| {
            let misses = trace.misses(spec, size) as f64;
            (spec, size, printed, 100.0 - 100.0 * misses / trace.lines.len() as f64)
        })
        .filter(|(_, _, printed, ours)| (printed - ours).abs() > 0.01)
        .collect();
    assert!(wrong.is_empty(), "(policy, pages, printed, ours): {wrong:#?}");
}

#[test]
fn hit_ratios_on_oltp_are_the_papers() {
    check("OLTP", OLTP);
}
