//! `s3-shadow` on real traces: never far behind FIFO, and ahead of S3-FIFO on the whole.

use crate::fixtures::Accesses;

/// Misses of the policy called `name` in `trace`, with room for `share` of its distinct lines.
fn misses(trace: &Accesses, name: &str, share: f64) -> f64 {
    let lines = ((f64::from(trace.distinct) * share) as u32).max(1);
    trace.misses(name, lines) as f64
}

#[test]
fn the_own_policy_is_ahead_of_s3_fifo_on_the_whole_and_nowhere_behind_fifo() {
    let traces = [Accesses::cloudphysics(), Accesses::arc_paper("OLTP")];
    let (mut own, mut rival, mut cells) = (0.0, 0.0, 0.0);
    for trace in traces {
        let Some(trace) = trace else { return };
        for share in [0.01, 0.05, 0.1, 0.2, 0.4] {
            let fifo = misses(&trace, "fifo", share);
            let saved = |name: &str| 1.0 - misses(&trace, name, share) / fifo;
            let (shadow, s3_fifo) = (saved("s3-shadow"), saved("s3-fifo"));
            assert!(shadow >= -0.001, "{shadow} at {share}");
            (own, rival, cells) = (own + shadow, rival + s3_fifo, cells + 1.0);
        }
    }
    assert!(own >= rival, "mean {} against {}", own / cells, rival / cells);
}
