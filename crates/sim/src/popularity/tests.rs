//! Surveys of hand-written traces, and pictures that need nothing else.

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
