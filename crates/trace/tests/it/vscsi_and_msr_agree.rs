//! One trace in two formats, converted by others: request for request the same.

use crate::real_traces::{for_each, shared};
use thermocline_trace::{Op, Request};

fn requests(name: &str) -> Option<Vec<Request>> {
    let mut reader = shared(name)?;
    let mut all = Vec::new();
    for_each(&mut *reader, |request, _| all.push(*request));
    Some(all)
}

#[test]
fn the_cloudphysics_trace_is_the_same_in_vscsi_and_in_the_columns_of_msr() {
    let vscsi = requests("cloudPhysicsIO.vscsi.zst");
    let (Some(vscsi), Some(msr)) = (vscsi, requests("cloudphysics_2h.csv.gz")) else { return };
    assert_eq!(vscsi.len(), 113_872);
    let same = |request: &Request| -> (u64, Op, u64, u64) {
        (request.time.0, request.op, request.offset.0, request.length.0)
    };
    for (index, (left, right)) in vscsi.iter().zip(&msr).enumerate() {
        assert_eq!(same(left), same(right), "request {index}");
    }
    assert_eq!(vscsi.len(), msr.len());
}
