//! Filters on hand-written requests: windows, volumes, operations, alignment.

use super::{Filter, Selection};
use crate::fixture::{Recorded, read_at};
use crate::{ContentHash, Op, Request, TraceReader};
use thermocline_units::{Bytes, Nanos, VolumeId};

fn trace() -> Recorded {
    let request = |time, volume, op, offset, length| Request {
        volume: VolumeId(volume),
        op,
        length: Bytes(length),
        ..read_at(time, offset)
    };
    let mut trace = Recorded::new(
        &[
            request(0, 0, Op::Read, 0, 4096),
            request(10, 1, Op::Write, 5000, 100),
            request(20, 2, Op::Read, 8191, 2),
            request(30, 1, Op::Flush, 0, 0),
            request(40, 1, Op::Read, 4096, 4096),
            request(50, 0, Op::Trim, 1 << 40, 1),
        ],
        &["a", "b", "c"],
    );
    for (_, hashes) in &mut trace.requests {
        hashes.push(ContentHash([7; 16]));
    }
    trace
}

fn selected(selection: Selection) -> Recorded {
    Recorded::of(&mut Filter::new(Box::new(trace()), selection)).unwrap()
}

#[test]
fn the_default_selection_changes_nothing() {
    let all = selected(Selection::default());
    assert_eq!(all.requests, trace().requests);
    assert_eq!(all.volumes, ["a", "b", "c"]);
}

#[test]
fn a_window_includes_its_start_and_not_its_end_and_starts_at_zero() {
    let window = Selection { from: Nanos(10), until: Some(Nanos(40)), ..Default::default() };
    assert_eq!(selected(window).times(), [0, 10, 20]);
}

#[test]
fn chosen_volumes_are_numbered_anew() {
    let volumes = vec!["c".to_string(), "b".to_string()];
    let some = selected(Selection { volumes, ..Default::default() });
    assert_eq!(some.volumes, ["b", "c"]);
    let numbers: Vec<u32> = some.requests.iter().map(|(request, _)| request.volume.0).collect();
    assert_eq!(numbers, [0, 1, 0, 0]);
}

#[test]
fn volumes_that_do_not_exist_are_named() {
    let volumes = vec!["b".to_string(), "d".to_string()];
    let mut filter = Filter::new(Box::new(trace()), Selection { volumes, ..Default::default() });
    Recorded::of(&mut filter).unwrap();
    assert_eq!(filter.missing_volumes(), ["d"]);
}

#[test]
fn operations_are_chosen() {
    let ops = vec![Op::Write, Op::Flush];
    assert_eq!(selected(Selection { ops, ..Default::default() }).times(), [10, 30]);
}

#[test]
fn alignment_rounds_outwards_and_drops_hashes_of_changed_ranges() {
    let align = Some(Bytes::from_kib(4));
    let mut filter = Filter::new(Box::new(trace()), Selection { align, ..Default::default() });
    let all = Recorded::of(&mut filter).unwrap();
    let ranges: Vec<(u64, u64, usize)> =
        all.requests.iter().map(|(r, h)| (r.offset.0, r.length.0, h.len())).collect();
    let far = 1 << 40;
    assert_eq!(
        ranges,
        [
            (0, 4096, 1),
            (4096, 4096, 0),
            (4096, 8192, 0),
            (0, 0, 1),
            (4096, 4096, 1),
            (far, 4096, 0)
        ]
    );
    assert_eq!(filter.repairs(), ["3 requests lost their content hashes to the alignment"]);
}

#[test]
fn the_first_requests_are_counted_after_the_other_choices() {
    let ops = vec![Op::Read];
    assert_eq!(selected(Selection { ops, first: Some(2), ..Default::default() }).times(), [0, 20]);
    assert!(selected(Selection { first: Some(0), ..Default::default() }).times().is_empty());
}
