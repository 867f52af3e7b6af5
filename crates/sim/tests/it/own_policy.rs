//! `s3-shadow` on real traces, beside FIFO and S3-FIFO. One is a trace that it was tuned on
//! (OLTP); the other, CloudPhysics taken as objects, was replayed only afterwards, and what it
//! loses there stands in docs/results/own-cache-policy.md.

use crate::fixtures::Accesses;

const SHARES: [f64; 5] = [0.01, 0.05, 0.1, 0.2, 0.4];

/// For each share, the part of FIFO's misses that the policy called `name` saves.
fn saved(trace: &Accesses, name: &str) -> Vec<f64> {
    let misses = |name: &str, share: f64| {
        let lines = ((f64::from(trace.distinct) * share) as u32).max(1);
        trace.misses(name, lines) as f64
    };
    SHARES.map(|share| 1.0 - misses(name, share) / misses("fifo", share)).to_vec()
}

fn mean(cells: &[f64]) -> f64 {
    cells.iter().sum::<f64>() / cells.len() as f64
}

#[test]
fn the_own_policy_keeps_up_with_s3_fifo_on_oltp_and_is_never_behind_fifo_there() {
    let Some(trace) = Accesses::arc_paper("OLTP") else { return };
    let (own, rival) = (saved(&trace, "s3-shadow"), saved(&trace, "s3-fifo"));
    assert!(own.iter().all(|cell| *cell > 0.0), "{own:?}");
    assert!(mean(&own) > 0.95 * mean(&rival), "{own:?} against {rival:?}");
}

#[test]
fn on_a_short_unseen_trace_the_own_policy_loses_no_more_than_is_written_down() {
    let Some(trace) = Accesses::cloudphysics() else { return };
    let own = saved(&trace, "s3-shadow");
    assert!(own.iter().all(|cell| *cell > -0.04), "{own:?}");
    assert!(mean(&own) > 0.0, "{own:?}");
}
