//! Runs of the laboratory: streams against whole workloads, sizes, curves, flat results.

use super::{
    CacheSize, CurveMethod, LabOptions, Row, exact_curve, needs_whole, run, run_stream,
    sampled_curves, write_csv,
};
use crate::replay::cost::Profile;
use crate::replay::{ReplayOptions, Warmup};
use crate::workload::tests::{listed, request, workload_of};
use crate::workload::{Cut, Stream, Unit, Workload};
use thermocline_policy::registry::{PolicySpec, entries};
use thermocline_trace::{Op, Request};
use thermocline_units::{Bytes, Rng};

const CUT: Cut = Cut { unit: Unit::Lines(Bytes::from_kib(4)), chunk: Some(Bytes::from_mib(1)) };

fn options() -> LabOptions {
    LabOptions { replay: ReplayOptions::default(), profile: Profile::source(), seed: 1 }
}

/// A skewed load with scans over two volumes, 40 minutes long.
fn load(count: u64) -> Vec<Request> {
    let mut rng = Rng::seeded(11);
    let mut one = |i: u64| {
        let line = if i % 50 < 10 { i % 9000 } else { (rng.unit_f64().powi(4) * 9000.0) as u64 };
        let op = if rng.below(3) == 0 { Op::Write } else { Op::Read };
        request(i * 2400 / count, rng.below(2) as u32, op, line * 4096, 4096 << rng.below(3))
    };
    (0..count).map(&mut one).collect()
}

fn specs(texts: &[&str]) -> Vec<PolicySpec> {
    texts.iter().map(|text| PolicySpec::parse(text).unwrap()).collect()
}

fn without_time(rows: Vec<Row>) -> Vec<String> {
    let fixed = rows.into_iter().map(|row| Row { replay_s: 0.0, ..row });
    fixed.map(|row| serde_json::to_string(&row).unwrap()).collect()
}

#[test]
fn a_stream_and_a_whole_workload_give_the_same_rows() {
    let names: Vec<&str> = entries()
        .filter(|e| !matches!(e.name, "belady" | "equal" | "ucp" | "eci"))
        .map(|e| e.name)
        .collect();
    let specs = specs(&names);
    let sizes = [CacheSize::Bytes(Bytes::from_mib(4)), CacheSize::Lines(3000)];
    let requests = load(150_000);
    let whole = workload_of(requests.clone(), CUT).unwrap();
    let expected = run(&whole, &specs, &sizes, &options(), &|_| ()).unwrap();
    let mut reader = listed(requests);
    let mut stream = Stream::new(&mut reader, CUT);
    assert_eq!(needs_whole(&specs, &sizes, &options().replay), None);
    let (rows, seen) = run_stream(&mut stream, CUT, &specs, &sizes, &options(), &|_| ()).unwrap();
    assert_eq!(seen.requests, 150_000);
    assert_eq!(without_time(rows), without_time(expected));
}

#[test]
fn every_policy_runs_and_none_beats_the_clairvoyant_bound() {
    let every: Vec<&str> = entries().map(|entry| entry.name).collect();
    let workload = workload_of(load(30_000), CUT).unwrap();
    let sizes = ["5%".parse().unwrap(), "20%".parse().unwrap()];
    let rows = run(&workload, &specs(&every), &sizes, &options(), &|_| ()).unwrap();
    assert_eq!(rows.len(), every.len() * 2);
    for size in ["5%", "20%"] {
        let at = || rows.iter().filter(|row| row.size == size);
        let bound = at().find(|row| row.clairvoyant).unwrap().line_hit_ratio;
        for row in at().filter(|row| row.unit_bytes == 4096) {
            assert!(row.line_hit_ratio <= bound, "{} at {size}", row.policy);
        }
    }
}

#[test]
fn lru_at_several_sizes_says_what_each_would_take_alone() {
    let workload = workload_of(load(20_000), CUT).unwrap();
    let memory = |sizes: &[CacheSize]| -> Vec<(u64, u64)> {
        let rows = run(&workload, &specs(&["lru"]), sizes, &options(), &|_| ()).unwrap();
        rows.iter().map(|row| (row.memory_resident_bytes, row.memory_index_bytes)).collect()
    };
    let (small, large) = (CacheSize::Lines(200), CacheSize::Lines(4000));
    assert_eq!(memory(&[small, large]), [memory(&[small])[0], memory(&[large])[0]]);
}

#[test]
fn what_must_be_known_beforehand_is_not_streamed() {
    let absolute = [CacheSize::Lines(10)];
    let reason = |text: &str, sizes: &[CacheSize], replay: &ReplayOptions| {
        needs_whole(&specs(&[text]), sizes, replay).is_some()
    };
    let plain = ReplayOptions::default();
    let warm = ReplayOptions { warmup: Warmup::Fraction(0.1), ..plain };
    assert!(!reason("lru", &absolute, &plain));
    assert!(reason("lru", &[CacheSize::Share(0.1)], &plain));
    assert!(reason("lru", &absolute, &warm));
    assert!(reason("belady", &absolute, &plain));
    assert!(reason("ucp", &absolute, &plain));
}

#[test]
fn sizes_are_bytes_shares_or_lines() {
    let lines =
        |text: &str| text.parse::<CacheSize>().unwrap().lines(Bytes::from_kib(4), 5000.0).unwrap();
    assert_eq!((lines("1MiB"), lines("10%"), lines("77lines"), lines("3 obj")), (256, 500, 77, 3));
    for text in ["", "0", "0%", "-1%", "5lines7", "lots", "0lines", "nan%"] {
        let error = text.parse::<CacheSize>().unwrap_err().to_string();
        assert!(error.contains("4GiB, 10%"), "{text}: {error}");
    }
    let small: CacheSize = "1KiB".parse().unwrap();
    assert!(small.lines(Bytes::from_kib(4), 1.0).unwrap_err().to_string().contains("not one line"));
}

#[test]
fn the_exact_curve_is_what_replays_of_its_sizes_miss() {
    let workload = workload_of(load(20_000), CUT).unwrap();
    let curve = exact_curve(&workload);
    for point in curve.points.iter().step_by(5) {
        let size = [CacheSize::Bytes(Bytes(point.bytes))];
        let rows = run(&workload, &specs(&["lru"]), &size, &options(), &|_| ()).unwrap();
        assert!((1.0 - rows[0].line_hit_ratio - point.miss_ratio).abs() < 1e-12, "{point:?}");
    }
}

/// Mean absolute error of a sampled LRU curve against the exact one.
fn error_of_sampling(workload: &Workload, rate: f64) -> f64 {
    let exact = exact_curve(workload);
    let sampled =
        sampled_curves(workload, &specs(&["lru"]), rate, &options(), &|_| ()).unwrap().remove(0);
    let at = |bytes: u64| {
        let nearest = exact.points.iter().min_by_key(|point| point.bytes.abs_diff(bytes));
        nearest.expect("a curve has points").miss_ratio
    };
    let errors = sampled.points.iter().map(|point| (point.miss_ratio - at(point.bytes)).abs());
    errors.sum::<f64>() / sampled.points.len() as f64
}

#[test]
fn a_sampled_curve_lies_near_the_exact_one() {
    let workload = workload_of(load(200_000), CUT).unwrap();
    let error = error_of_sampling(&workload, 0.2);
    assert!(error < 0.03, "{error}");
}

#[test]
fn curve_methods_are_exact_or_a_rate() {
    assert_eq!("exact".parse(), Ok(CurveMethod::Exact));
    assert_eq!("shards:0.01".parse(), Ok(CurveMethod::Shards(0.01)));
    for text in ["", "shards", "shards:0", "shards:1.5", "shards:x", "Exact"] {
        assert!(text.parse::<CurveMethod>().unwrap_err().contains("shards:0.01"), "{text}");
    }
}

#[test]
fn csv_has_a_header_and_quotes_what_needs_it() {
    let workload = workload_of(load(100), CUT).unwrap();
    let size = [CacheSize::Lines(5)];
    let mut rows = run(&workload, &specs(&["lru"]), &size, &options(), &|_| ()).unwrap();
    rows[0].policy = "a,\"b\"".to_string();
    let mut out = Vec::new();
    write_csv(&rows, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("policy,size,capacity_bytes,"));
    assert!(lines[1].starts_with("\"a,\"\"b\"\"\",5 lines,20480,"), "{}", lines[1]);
}
