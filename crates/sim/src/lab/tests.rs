//! Runs of the laboratory: streams against whole workloads, sizes, curves, flat results.

use super::{
    Adjustment, CacheSize, Curve, CurveMethod, Curves, LabError, LabOptions, Needs, Row,
    exact_curve, read_totals, run, run_stream, sampled_curves, write_csv, write_curves_csv,
};
use crate::replay::cost::Profile;
use crate::replay::{ReplayOptions, Warmup};
use crate::workload::tests::{listed, request, workload_of};
use crate::workload::{Cut, Sample, SampleSize, Stream, Unit};
use thermocline_policy::registry::{PolicySpec, entries};
use thermocline_trace::{Op, Request};
use thermocline_units::{Bytes, Nanos, Rng};

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
    let fixed = rows.into_iter().map(|row| Row { replay_s: 0.0, processor_s: 0.0, ..row });
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
    assert_eq!(Needs::of(&specs, &sizes, &options().replay), Needs::Nothing);
    let streamed = run_stream(&mut stream, CUT, &specs, &sizes, &options(), None, &|_| ());
    let (rows, seen) = streamed.unwrap();
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
fn two_passes_give_the_rows_of_a_whole_workload() {
    let names: Vec<&str> = entries().filter(|e| e.name != "belady").map(|e| e.name).collect();
    let specs = specs(&names);
    let sizes = [CacheSize::Share(0.07), CacheSize::Lines(3000)];
    let replay = ReplayOptions { warmup: Warmup::Fraction(0.25), ..ReplayOptions::default() };
    let options = LabOptions { replay, ..options() };
    let requests = load(60_000);
    let whole = workload_of(requests.clone(), CUT).unwrap();
    let expected = run(&whole, &specs, &sizes, &options, &|_| ()).unwrap();
    assert_eq!(Needs::of(&specs, &sizes, &options.replay), Needs::Totals);
    let mut first = listed(requests.clone());
    let known = read_totals(&mut Stream::new(&mut first, CUT), CUT, &|_| ()).unwrap();
    let mut second = listed(requests);
    let mut stream = Stream::new(&mut second, CUT);
    let streamed = run_stream(&mut stream, CUT, &specs, &sizes, &options, Some(&known), &|_| ());
    assert_eq!(without_time(streamed.unwrap().0), without_time(expected));
}

#[test]
fn what_must_be_known_beforehand_is_asked_for() {
    let absolute = [CacheSize::Lines(10)];
    let needs = |text: &str, sizes: &[CacheSize], replay: &ReplayOptions| {
        Needs::of(&specs(&[text]), sizes, replay)
    };
    let plain = ReplayOptions::default();
    let warm = ReplayOptions { warmup: Warmup::Fraction(0.1), ..plain };
    assert_eq!(needs("lru", &absolute, &plain), Needs::Nothing);
    assert_eq!(needs("lru", &[CacheSize::Share(0.1)], &plain), Needs::Totals);
    assert_eq!(needs("lru", &absolute, &warm), Needs::Totals);
    assert_eq!(needs("belady", &absolute, &plain), Needs::Whole);
    assert_eq!(needs("ucp", &absolute, &plain), Needs::Totals);
}

#[test]
fn a_warm_up_as_long_as_the_trace_is_refused_and_one_request_less_is_not() {
    // Such a warm-up used to count everything, without a word.
    let requests = load(1000);
    let last = requests.last().unwrap().time;
    let after = Nanos(last.0 + 1);
    let (lines, specs) = ([CacheSize::Lines(10)], specs(&["lru", "baseline"]));
    for (warmup, counts) in [
        (Warmup::Requests(999), true),
        (Warmup::Requests(1000), false),
        (Warmup::Requests(u64::MAX), false),
        (Warmup::Time(last), true),
        (Warmup::Time(after), false),
    ] {
        let replay = ReplayOptions { warmup, ..ReplayOptions::default() };
        let options = LabOptions { replay, ..options() };
        let whole = workload_of(requests.clone(), CUT).unwrap();
        let sizes = [CacheSize::Bytes(Bytes::from_mib(4))];
        let held = run(&whole, &specs, &sizes, &options, &|_| ());
        let mut reader = listed(requests.clone());
        let mut stream = Stream::new(&mut reader, CUT);
        let streamed = run_stream(&mut stream, CUT, &specs, &sizes, &options, None, &|_| ());
        let exact = exact_of(requests.clone(), Some(&lines), &options);
        let refused = |error: LabError| matches!(error, LabError::Warmup { .. });
        assert_eq!(held.map_err(refused).is_ok(), counts, "{warmup:?}");
        assert_eq!(streamed.map_err(refused).is_ok(), counts, "{warmup:?}");
        assert_eq!(exact.map_err(refused).is_ok(), counts, "{warmup:?}");
    }
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

fn exact_of(
    requests: Vec<Request>,
    sizes: Option<&[CacheSize]>,
    options: &LabOptions,
) -> Result<Curves, LabError> {
    exact_curve(&mut listed(requests), CUT, sizes, options, &|_| ())
}

#[test]
fn the_exact_curve_is_what_replays_of_its_sizes_miss() {
    let requests = load(20_000);
    let workload = workload_of(requests.clone(), CUT).unwrap();
    for warmup in [Warmup::Requests(0), Warmup::Requests(7000)] {
        let replay = ReplayOptions { warmup, ..ReplayOptions::default() };
        let options = LabOptions { replay, ..options() };
        let curves = exact_of(requests.clone(), None, &options).unwrap();
        for point in curves.curves[0].points.iter().step_by(5) {
            let size = [CacheSize::Bytes(Bytes(point.bytes))];
            let rows = run(&workload, &specs(&["lru"]), &size, &options, &|_| ()).unwrap();
            assert!((1.0 - rows[0].line_hit_ratio - point.miss_ratio).abs() < 1e-12, "{point:?}");
            assert_eq!(point.error, 0.0);
        }
    }
}

fn sampled(requests: &[Request], size: SampleSize, seed: u64, sizes: &[CacheSize]) -> Curves {
    let mut reader = listed(requests.to_vec());
    let sample = Sample::read(&mut reader, CUT.unit, size, seed, &|_| ()).unwrap();
    let specs = specs(&["lru", "s3-fifo"]);
    let how = (CurveMethod::Rate(size.rate), Adjustment::WhereItHelps);
    sampled_curves(&sample, CUT.unit, &specs, Some(sizes), how, &options()).unwrap()
}

fn ratios(curve: &Curve) -> Vec<f64> {
    curve.points.iter().map(|point| point.miss_ratio).collect()
}

#[test]
fn a_sample_of_everything_gives_the_exact_curve_without_errors() {
    let requests = load(30_000);
    let sizes = [CacheSize::Lines(50), CacheSize::Lines(500), CacheSize::Share(0.5)];
    let all = SampleSize { rate: 1e-9, lines_min: 1 << 20 };
    let curves = sampled(&requests, all, 1, &sizes);
    assert_eq!(curves.rate, 1.0, "fewer lines than the minimum are all taken");
    let exact = exact_of(requests, Some(&sizes), &options()).unwrap();
    assert_eq!(ratios(&curves.curves[0]), ratios(&exact.curves[0]));
    assert!(curves.curves[1].points.iter().all(|point| point.error == 0.0));
}

#[test]
fn a_sample_of_everything_counts_from_where_the_warm_up_ends() {
    // Requests of many lines behind a warm-up that is no multiple of anything.
    let requests = load(3000);
    let sizes = [CacheSize::Lines(500), CacheSize::Share(0.5)];
    for warmup in [Warmup::Requests(1), Warmup::Requests(2100), Warmup::Fraction(0.9)] {
        let replay = ReplayOptions { warmup, ..ReplayOptions::default() };
        let options = LabOptions { replay, ..options() };
        let size = SampleSize { rate: 1e-9, lines_min: 1 << 20 };
        let mut reader = listed(requests.clone());
        let sample = Sample::read(&mut reader, CUT.unit, size, 1, &|_| ()).unwrap();
        let how = (CurveMethod::Rate(1e-9), Adjustment::WhereItHelps);
        let curves =
            sampled_curves(&sample, CUT.unit, &specs(&["lru"]), Some(&sizes), how, &options);
        let replay = ReplayOptions { warmup: warmup.of(3000), ..replay };
        let options = LabOptions { replay, ..options };
        let exact = exact_of(requests.clone(), Some(&sizes), &options).unwrap();
        let (ours, exact) = (&curves.unwrap().curves[0], &exact.curves[0]);
        for (ours, exact) in ratios(ours).iter().zip(ratios(exact)) {
            assert!((ours - exact).abs() < 1e-12, "{warmup:?}: {ours} for {exact}");
        }
    }
}

/// A block that the sample does not have was asked for in all of the warm-up: its requests counted
/// for those that should have come after it, and half of the misses were told.
#[test]
fn a_warm_up_that_the_sample_has_nothing_of_is_left_out_all_the_same() {
    let mut requests = load(60_000);
    for (second, request) in requests.iter_mut().enumerate().take(30_000) {
        let time = Nanos(request.time.0.min(second as u64));
        *request =
            Request { time, ..crate::workload::tests::request(0, 0, Op::Read, 1 << 40, 4096) };
    }
    let sizes = [CacheSize::Lines(2000)];
    let after = requests[30_000].time;
    for warmup in [Warmup::Requests(30_000), Warmup::Time(after)] {
        let replay = ReplayOptions { warmup, ..ReplayOptions::default() };
        let options = LabOptions { replay, ..options() };
        let exact = exact_of(requests.clone(), Some(&sizes), &options).unwrap().curves[0].points[0];
        let mut without = 0;
        for seed in 1..=6 {
            let size = SampleSize { rate: 0.1, lines_min: 1 };
            let mut reader = listed(requests.clone());
            let sample = Sample::read(&mut reader, CUT.unit, size, seed, &|_| ()).unwrap();
            without += u32::from(sample.touches[0].time >= after);
            let how = (CurveMethod::Rate(0.1), Adjustment::WhereItHelps);
            let curves =
                sampled_curves(&sample, CUT.unit, &specs(&["lru"]), Some(&sizes), how, &options);
            let ours = curves.unwrap().curves[0].points[0];
            let off = (ours.miss_ratio - exact.miss_ratio).abs();
            assert!(off <= 2.0 * ours.error, "{warmup:?}, {seed}: {ours:?} for {exact:?}");
        }
        assert!(without > 0, "some sample has nothing of the warm-up");
    }
}

#[test]
fn errors_of_a_sample_hold_the_truth_about_as_often_as_they_promise() {
    let requests = load(200_000);
    let sizes = ["2%", "5%", "10%", "30%", "60%"].map(|text| text.parse().unwrap());
    let exact = exact_of(requests.clone(), Some(&sizes), &options()).unwrap();
    let (mut held, mut points) = (0, 0);
    for seed in 1..=12 {
        let curves = sampled(&requests, SampleSize { rate: 0.1, lines_min: 1 }, seed, &sizes);
        for (point, truth) in curves.curves[0].points.iter().zip(&exact.curves[0].points) {
            let off = (point.miss_ratio - truth.miss_ratio).abs();
            held += u32::from(off <= point.error);
            points += 1;
        }
    }
    assert!(held * 100 >= points * 85, "{held} of {points} inside their errors");
}

#[test]
fn a_size_too_small_for_the_sample_is_refused_with_the_rate_that_would_do() {
    let mut reader = listed(load(50_000));
    let size = SampleSize { rate: 0.05, lines_min: 1 };
    let sample = Sample::read(&mut reader, CUT.unit, size, 1, &|_| ()).unwrap();
    let (specs, sizes) = (specs(&["lru"]), [CacheSize::Lines(100)]);
    let how = (CurveMethod::Rate(0.05), Adjustment::WhereItHelps);
    let refused = sampled_curves(&sample, CUT.unit, &specs, Some(&sizes), how, &options());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("100 lines") && message.contains("shards:0.16"), "{message}");
}

#[test]
fn curve_methods_are_exact_or_a_sample() {
    assert_eq!("exact".parse(), Ok(CurveMethod::Exact));
    assert_eq!("shards:0.01".parse(), Ok(CurveMethod::Rate(0.01)));
    assert_eq!("shards:20000lines".parse(), Ok(CurveMethod::Lines(20_000)));
    for text in ["", "shards", "shards:0", "shards:1.5", "shards:x", "Exact", "shards:100lines"] {
        assert!(text.parse::<CurveMethod>().unwrap_err().contains("shards:0.01"), "{text}");
    }
}

#[test]
fn curves_are_rows_of_csv_with_their_errors() {
    let sizes = [CacheSize::Lines(500)];
    let curves = sampled(&load(30_000), SampleSize { rate: 0.1, lines_min: 1 }, 1, &sizes);
    let mut out = Vec::new();
    write_curves_csv(&curves, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "policy,bytes,miss_ratio,error,adjusted,rate"));
    assert!(lines[1].starts_with("lru,2048000,0."), "{text}");
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
