//! Popularity in hand-written traces, and pictures that need nothing else.

use super::{Popularity, chosen};
use crate::workload::tests::{request, workload_of};
use crate::workload::{Cut, Unit, Workload};
use thermocline_trace::Op::{Read, Trim, Write};
use thermocline_units::{Bytes, Nanos};

const MIB: u64 = 1 << 20;

fn small() -> Workload {
    let cut = Cut { unit: Unit::Lines(Bytes::from_kib(4)), chunk: Some(Bytes::from_mib(1)) };
    let requests = vec![
        request(0, 0, Read, 0, 4096),
        request(1, 0, Write, 4096, 8192),
        request(2, 0, Read, 4096, 4096),
        request(11, 0, Read, MIB - 4096, 8192),
        request(12, 1, Read, 3 * MIB, 512),
        request(13, 1, Trim, 0, 8 * MIB),
    ];
    workload_of(requests, cut).unwrap()
}

#[test]
fn intervals_count_directions_and_distinct_data() {
    let popularity = Popularity::of(&small(), Some(Nanos::from_secs(10))).unwrap();
    let figures: Vec<_> =
        popularity.columns.iter().map(|c| (c.reads, c.writes, c.lines, c.chunks)).collect();
    assert_eq!(figures, [(2, 1, 3, 1), (2, 0, 3, 3)]);
    assert_eq!((popularity.sizes[12], popularity.sizes[13], popularity.sizes[9]), (2, 2, 1));
}

#[test]
fn volumes_lie_end_to_end_in_the_map() {
    let popularity = Popularity::of(&small(), Some(Nanos::from_secs(10))).unwrap();
    // Volume a: chunks 0 and 1; volume b: its chunk 3 is the sixth of all.
    let rows: Vec<&[f64]> = popularity.cells.chunks(2).collect();
    assert_eq!(
        rows,
        [&[3.0, 1.0][..], &[0.0, 1.0], &[0.0, 0.0], &[0.0, 0.0], &[0.0, 0.0], &[0.0, 1.0]]
    );
}

#[test]
fn the_interval_is_one_that_people_think_in() {
    for (span, interval) in [(7200, 30), (86_400, 600), (604_800, 3600), (0, 0)] {
        let expected = if interval == 0 { Nanos(1_000_000) } else { Nanos::from_secs(interval) };
        assert_eq!(chosen(Nanos::from_secs(span)), expected, "{span}");
    }
    let error = Popularity::of(&small(), Some(Nanos(1_000_000))).unwrap_err().to_string();
    assert!(error.contains("use longer ones"), "{error}");
}

#[test]
fn the_page_loads_nothing_and_keeps_hostile_names_as_text() {
    let popularity = Popularity::of(&small(), None).unwrap();
    let page = popularity.to_html("<script>alert(1)</script>", "0", "thermocline");
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    let link = |scheme: &str| page.matches(scheme).count();
    assert_eq!(link("src=") + link("@import") + link("url("), 0, "nothing is loaded");
}

#[test]
fn panels_share_their_time_axis_and_idle_intervals_are_gaps() {
    let cut = Cut { unit: Unit::Lines(Bytes::from_kib(4)), chunk: Some(Bytes::from_mib(1)) };
    let at = |seconds| request(seconds, 0, Read, 0, 4096);
    let workload = workload_of(vec![at(0), at(1), at(5), at(8), at(9)], cut).unwrap();
    let popularity = Popularity::of(&workload, Some(Nanos::from_secs(1))).unwrap();
    let page = popularity.to_html("a trace", "0", "thermocline");
    let charts: Vec<&str> = page.split("<svg").skip(1).collect();
    assert_eq!(charts.len(), 5, "the map, three curves, the sizes");
    // Ten cells of 64 pixels right of the shared margin, in the map and below it.
    let base = |chart: &&&str| chart.contains(r#"x1="84""#) && chart.contains(r#"x2="724""#);
    assert_eq!(charts[..4].iter().filter(base).count(), 4, "{}", charts[1]);
    let curve = charts[1].split(r#"d="M"#).nth(1).unwrap().split('"').next().unwrap();
    // Busy 0 and 1, idle 2 to 4, busy 5 alone, idle 6 and 7, busy 8 and 9.
    assert_eq!(curve.matches('M').count() + 1, 3, "three runs: {curve}");
    assert_eq!(curve.matches('L').count(), 2, "two of them are lines: {curve}");
    assert_eq!(curve.matches("h0").count(), 1, "one is a dot: {curve}");
}
