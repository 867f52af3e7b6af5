//! Several traces as one workload: order, time zero, names.

use super::Merge;
use crate::fixture::{Recorded, read_at};
use crate::{ContentHash, Request, TraceReader};
use proptest::prelude::*;
use thermocline_units::{Nanos, VolumeId};

fn merged(inputs: Vec<(&str, Recorded)>) -> Recorded {
    let boxed = |(label, reader): (&str, Recorded)| {
        (label.to_string(), Box::new(reader) as Box<dyn TraceReader>)
    };
    Recorded::of(&mut Merge::new(inputs.into_iter().map(boxed).collect())).unwrap()
}

#[test]
fn every_input_starts_at_its_own_time_zero() {
    let early = Recorded::new(&[read_at(100, 1), read_at(130, 2)], &["a"]);
    let late = Recorded::new(&[read_at(9_000, 3), read_at(9_010, 4), read_at(9_030, 5)], &["b"]);
    let all = merged(vec![("x", early), ("y", late)]);
    assert_eq!(all.times(), [0, 0, 10, 30, 30]);
    let offsets: Vec<u64> = all.requests.iter().map(|(request, _)| request.offset.0).collect();
    assert_eq!(offsets, [1, 3, 4, 2, 5], "of equal times the first input's comes first");
    assert_eq!(all.volumes, ["a", "b"]);
}

#[test]
fn volumes_of_one_name_are_told_apart_by_their_inputs() {
    let input = || {
        let second = Request { volume: VolumeId(1), ..read_at(1, 0) };
        Recorded::new(&[read_at(0, 0), second], &["0", "1"])
    };
    let all = merged(vec![("web", input()), ("db", input()), ("db", input())]);
    assert_eq!(all.volumes, ["0", "db/0", "db-2/0", "1", "db/1", "db-2/1"]);
}

#[test]
fn hashes_stay_with_their_requests() {
    let mut inputs = [Recorded::new(&[read_at(0, 0), read_at(5, 1)], &["a"]), Recorded::default()];
    inputs[1] = Recorded::new(&[read_at(0, 2), read_at(3, 3)], &["b"]);
    for (input, base) in inputs.iter_mut().zip([10, 20]) {
        for (index, (_, hashes)) in input.requests.iter_mut().enumerate() {
            *hashes = vec![ContentHash([base + index as u8; 16]); index + 1];
        }
    }
    let [one, two] = inputs;
    let all = merged(vec![("x", one), ("y", two)]);
    let firsts: Vec<(usize, u8)> =
        all.requests.iter().map(|(_, hashes)| (hashes.len(), hashes[0].0[0])).collect();
    assert_eq!(firsts, [(1, 10), (1, 20), (2, 21), (2, 11)]);
}

#[test]
fn empty_inputs_are_no_hindrance() {
    let all = merged(vec![
        ("x", Recorded::new(&[], &[])),
        ("y", Recorded::new(&[read_at(7, 0)], &["v"])),
        ("z", Recorded::new(&[], &[])),
    ]);
    assert_eq!(all.times(), [0]);
    assert!(merged(vec![]).requests.is_empty());
}

proptest! {
    #[test]
    fn a_merge_is_the_stable_sort_by_time(
        gaps in prop::collection::vec(prop::collection::vec(0u64..5, 0..40), 1..6)
    ) {
        let mut expected = Vec::new();
        let mut inputs = Vec::new();
        for (number, gaps) in gaps.iter().enumerate() {
            let mut time = 0;
            let requests: Vec<Request> = gaps
                .iter()
                .enumerate()
                .map(|(index, gap)| {
                    time += if index == 0 { 0 } else { *gap };
                    read_at(1000 * number as u64 + time, (number * 1000 + index) as u64)
                })
                .collect();
            let base = requests.first().map_or(Nanos(0), |first| first.time);
            expected.extend(requests.iter().map(|r| (r.time.0 - base.0, r.offset.0)));
            inputs.push(("in", Recorded::new(&requests, &[["a", "b", "c", "d", "e"][number]])));
        }
        expected.sort_by_key(|(time, _)| *time);
        let all = merged(inputs);
        let seen: Vec<(u64, u64)> =
            all.requests.iter().map(|(request, _)| (request.time.0, request.offset.0)).collect();
        prop_assert_eq!(seen, expected);
    }
}
