//! Synthetic workloads: determinism, and stated parameters against measured ones.

use super::presets::PRESETS;
use super::{
    Arrivals, Burstiness, Drift, Layout, Mmpp2, Part, Pattern, Region, SizeShare, Synth, SynthSpec,
    VmSpec,
};
use crate::{Batch, Op, Request, TraceReader};
use std::collections::{BTreeMap, BTreeSet};
use thermocline_units::{Bytes, Nanos};

fn spec(requests: u64, parts: Vec<Part>) -> SynthSpec {
    let vm = VmSpec {
        name: "vm".to_string(),
        arrivals: Arrivals::Poisson { rate_per_s: 1000.0 },
        parts,
    };
    SynthSpec { seed: 7, requests, vms: vec![vm] }
}

fn part(pattern: Pattern) -> Part {
    Part {
        weight: 1.0,
        reads: 0.7,
        sizes: vec![SizeShare { size: Bytes::from_kib(4), weight: 1.0 }],
        region: Region { start: Bytes::from_mib(64), length: Bytes::from_mib(64) },
        pattern,
    }
}

fn zipf(alpha: f64, layout: Layout) -> Pattern {
    Pattern::Zipf { alpha, block: Bytes::from_kib(4), layout, drift: None }
}

fn requests(spec: &SynthSpec) -> Vec<Request> {
    let (mut reader, mut batch) = (Synth::new(spec).unwrap(), Batch::default());
    let mut all = Vec::new();
    loop {
        reader.read_batch(&mut batch).unwrap();
        if batch.requests.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch.requests);
    }
}

/// Counts of the offsets, most frequent first.
fn popularity(requests: &[Request]) -> Vec<u64> {
    let mut counts: BTreeMap<Bytes, u64> = BTreeMap::new();
    for request in requests {
        *counts.entry(request.offset).or_default() += 1;
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// The slope of log count over log rank, least squares over the most frequent `ranks`.
fn measured_exponent(requests: &[Request], ranks: usize) -> f64 {
    let points: Vec<(f64, f64)> = popularity(requests)
        .iter()
        .take(ranks)
        .enumerate()
        .map(|(rank, count)| (((rank + 1) as f64).ln(), (*count as f64).ln()))
        .collect();
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(sx, sy), (x, y)| (sx + x / n, sy + y / n));
    let covariance: f64 = points.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mx).powi(2)).sum();
    -covariance / variance
}

#[test]
fn the_same_seed_gives_the_same_requests_and_another_gives_others() {
    for preset in &PRESETS {
        let spec = SynthSpec { seed: 1, requests: 20_000, vms: preset.vms(6) };
        let once = requests(&spec);
        assert_eq!(once.len(), 20_000, "{}", preset.name);
        assert!(once == requests(&spec), "{}", preset.name);
        assert!(once != requests(&SynthSpec { seed: 2, ..spec }), "{}", preset.name);
    }
}

#[test]
fn times_begin_at_zero_and_never_run_backwards() {
    for preset in &PRESETS {
        let all = requests(&SynthSpec { seed: 5, requests: 50_000, vms: preset.vms(5) });
        assert_eq!(all[0].time, Nanos(0));
        assert!(all.windows(2).all(|pair| pair[0].time <= pair[1].time), "{}", preset.name);
    }
}

#[test]
fn a_further_vm_does_not_change_the_others() {
    let of_first = |count: usize| {
        let spec = SynthSpec { seed: 3, requests: 40_000, vms: PRESETS[4].vms(count) };
        let all = requests(&spec).into_iter().filter(|r| r.volume.0 == 0);
        all.map(|r| (r.offset, r.length, r.op)).take(2_000).collect::<Vec<_>>()
    };
    assert!(of_first(1) == of_first(4));
}

#[test]
fn popularity_has_the_stated_exponent() {
    for (alpha, layout) in
        [(0.8, Layout::Scattered), (1.0, Layout::InOrder), (1.2, Layout::Scattered)]
    {
        let all = requests(&spec(400_000, vec![part(zipf(alpha, layout))]));
        let seen = measured_exponent(&all, 200);
        assert!((seen - alpha).abs() < 0.03, "{seen} for {alpha}");
    }
}

#[test]
fn popular_blocks_lie_first_or_everywhere_as_stated() {
    let share_in_first_half = |layout| {
        let all = requests(&spec(50_000, vec![part(zipf(1.0, layout))]));
        let half = Bytes::from_mib(64 + 32);
        all.iter().filter(|request| request.offset < half).count() as f64 / all.len() as f64
    };
    assert!(share_in_first_half(Layout::InOrder) > 0.9);
    let scattered = share_in_first_half(Layout::Scattered);
    assert!((0.3..0.7).contains(&scattered), "{scattered}");
}

#[test]
fn scattering_loses_no_block() {
    let mut uniform = part(zipf(0.0, Layout::Scattered));
    uniform.region.length = Bytes(1001 * 4096);
    let all = requests(&spec(30_000, vec![uniform]));
    let blocks: BTreeSet<Bytes> = all.iter().map(|request| request.offset).collect();
    assert_eq!(blocks.len(), 1001);
}

#[test]
fn the_hot_spot_drifts_at_the_stated_pace() {
    // A tenth of the 16384 blocks every 10 s: the hottest block is block 1638 · step.
    let drift = Some(Drift { every: Nanos::from_secs(10), by: 0.1 });
    let pattern =
        Pattern::Zipf { alpha: 1.5, block: Bytes::from_kib(4), layout: Layout::InOrder, drift };
    let all = requests(&spec(60_000, vec![part(pattern)]));
    for step in 0..5u64 {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        // The middle of each step, because time zero is the first arrival.
        let window = Nanos(step * 10_000_000_000 + 1_000_000_000)
            ..Nanos(step * 10_000_000_000 + 9_000_000_000);
        for request in all.iter().filter(|request| window.contains(&request.time)) {
            *counts.entry(request.offset.0 / 4096 - 16384).or_default() += 1;
        }
        let hottest = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        assert_eq!(*hottest.0, step * 1638, "step {step}");
    }
}

#[test]
fn sequential_runs_have_the_stated_mean_length() {
    let run = Some(Bytes::from_kib(256));
    let all = requests(&spec(100_000, vec![part(Pattern::Sequential { streams: 1, run })]));
    let follow = all.windows(2).filter(|pair| pair[1].offset == pair[0].end()).count();
    // A run of exponential length is cut up into requests of 4 KiB, the last one whole: 64.5 of
    // them.
    let share = follow as f64 / (all.len() - 1) as f64;
    assert!((share - (1.0 - 1.0 / 64.5)).abs() < 0.002, "{share}");
}

#[test]
fn endless_streams_go_round_their_region() {
    let endless = part(Pattern::Sequential { streams: 1, run: None });
    let all = requests(&spec(40_000, vec![endless]));
    let blocks = 64 * 256;
    for (index, request) in all.iter().enumerate() {
        let block = index as u64 % blocks;
        assert_eq!(request.offset, Bytes(Bytes::from_mib(64).0 + block * 4096));
    }
}

#[test]
fn scans_read_everything_once_a_period_and_are_silent_between() {
    let mut scan = part(Pattern::Scan { every: Nanos::from_secs(60) });
    scan.region.length = Bytes::from_mib(4);
    // 1024 requests at 1000/s: about one second of every minute.
    let all = requests(&spec(1024 * 5, vec![scan]));
    for (period, scan) in all.chunks(1024).enumerate() {
        let from = period as u64 * 60;
        assert!(scan[0].time.as_secs_f64() - from as f64 <= 0.1, "{}", scan[0].time);
        assert!(scan[1023].time < Nanos::from_secs(from + 3));
        let places: Vec<u64> = scan.iter().map(|request| request.offset.0 / 4096 - 16384).collect();
        assert!(places.iter().copied().eq(0..1024), "period {period}");
    }
}

#[test]
fn weights_reads_and_sizes_are_shared_as_stated() {
    let mut small = part(zipf(0.5, Layout::Scattered));
    small.weight = 3.0;
    small.sizes.push(SizeShare { size: Bytes::from_kib(8), weight: 3.0 });
    let mut log = part(Pattern::Sequential { streams: 4, run: None });
    (log.reads, log.region.start) = (0.0, Bytes(0));
    let all = requests(&spec(100_000, vec![small, log]));
    let share = |wanted: &dyn Fn(&Request) -> bool| {
        all.iter().filter(|request| wanted(request)).count() as f64 / all.len() as f64
    };
    let in_small = |request: &Request| request.offset >= Bytes::from_mib(64);
    assert!((share(&in_small) - 0.75).abs() < 0.01);
    assert!((share(&|r| r.op == Op::Read) - 0.75 * 0.7).abs() < 0.01);
    assert!((share(&|r| in_small(r) && r.length.0 == 8192) - 0.75 * 0.75).abs() < 0.01);
}

#[test]
fn arrivals_have_the_stated_rate_and_dispersion() {
    let wanted = Burstiness {
        rate_per_s: 500.0,
        dispersion: 25.0,
        burst: Nanos::from_secs(1),
        burst_share: 0.1,
    };
    let bursts = Mmpp2::from_measures(wanted).unwrap();
    let mut spec = spec(1_000_000, vec![part(zipf(0.0, Layout::InOrder))]);
    spec.vms[0].arrivals = Arrivals::Bursty(bursts);
    let all = requests(&spec);
    let mut counts = vec![0f64; (all.last().unwrap().time.0 / 10_000_000_000) as usize];
    for request in &all {
        if let Some(count) = counts.get_mut((request.time.0 / 10_000_000_000) as usize) {
            *count += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let variance =
        counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / (counts.len() - 1) as f64;
    let stated = bursts.dispersion(Some(Nanos::from_secs(10)));
    assert!((mean / 5000.0 - 1.0).abs() < 0.1, "{mean}");
    assert!((variance / mean / stated - 1.0).abs() < 0.3, "{} for {stated}", variance / mean);
}

#[test]
fn requests_stay_within_their_region() {
    let mut parts = vec![
        part(zipf(0.3, Layout::Scattered)),
        part(Pattern::Sequential { streams: 3, run: Some(Bytes(10_000)) }),
        part(Pattern::Scan { every: Nanos::from_secs(1) }),
    ];
    for part in &mut parts {
        part.region.length = Bytes(1_000_001);
        part.sizes.push(SizeShare { size: Bytes(70_000), weight: 1.0 });
    }
    for request in requests(&spec(50_000, parts)) {
        assert!(request.offset >= Bytes::from_mib(64), "{request:?}");
        assert!(request.length.0 > 0, "{request:?}");
        assert!(request.end() <= Bytes(Bytes::from_mib(64).0 + 1_000_001), "{request:?}");
    }
}

#[test]
fn broken_specifications_name_the_vm_and_the_part() {
    let refused = |change: &dyn Fn(&mut SynthSpec)| {
        let mut spec = spec(10, vec![part(zipf(1.0, Layout::InOrder))]);
        change(&mut spec);
        Synth::new(&spec).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let problem = refused(&|spec| spec.vms[0].parts[0].reads = 1.5);
    assert!(problem.contains("VM `vm`: part 1: a share of reads of 1.5"), "{problem}");
    for change in [
        (|spec| spec.vms.clear()) as fn(&mut SynthSpec),
        |spec| spec.vms.push(spec.vms[0].clone()),
        |spec| spec.vms[0].parts.clear(),
        |spec| spec.vms[0].arrivals = Arrivals::Poisson { rate_per_s: 0.0 },
        |spec| spec.vms[0].arrivals = Arrivals::Poisson { rate_per_s: f64::NAN },
        |spec| spec.vms[0].parts[0].weight = -1.0,
        |spec| spec.vms[0].parts[0].sizes[0].size = Bytes(0),
        |spec| spec.vms[0].parts[0].sizes.clear(),
        |spec| spec.vms[0].parts[0].region.length = Bytes(100),
        |spec| spec.vms[0].parts[0].region.start = Bytes(u64::MAX),
        |spec| spec.vms[0].parts[0].pattern = Pattern::Scan { every: Nanos(0) },
        |spec| {
            let file = Bytes::from_kib(6);
            spec.vms[0].parts[0].pattern = Pattern::Files { file, alpha: 1.0 };
        },
        |spec| spec.vms[0].parts[0].pattern = Pattern::Sequential { streams: 0, run: None },
        |spec| spec.vms[0].parts[0].pattern = zipf(f64::INFINITY, Layout::InOrder),
    ] {
        let problem = refused(&change);
        assert!(problem.starts_with("the workload cannot be made"), "{problem}");
    }
}

#[test]
fn a_workload_slower_than_time_lasts_ends_early() {
    let mut slow = spec(1_000_000, vec![part(zipf(1.0, Layout::InOrder))]);
    slow.vms[0].arrivals = Arrivals::Poisson { rate_per_s: 1e-6 };
    let made = requests(&slow).len();
    // 2^64 ns at one request in 10^6 s: 18,447 of them.
    assert!((17_500..19_500).contains(&made), "{made}");
}

#[test]
fn a_file_is_read_from_its_start_to_its_end_before_the_next_and_parts_agree_on_what_is_popular() {
    let files = |reads| Part {
        reads,
        sizes: vec![SizeShare { size: Bytes::from_kib(64), weight: 1.0 }],
        ..part(Pattern::Files { file: Bytes::from_mib(1), alpha: 1.2 })
    };
    let all = requests(&spec(80_000, vec![files(1.0), files(0.0)]));
    let of = |op: Op| all.iter().filter(|r| r.op == op).copied().collect::<Vec<_>>();
    let hottest = [of(Op::Read), of(Op::Write)].map(|side| {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for file in side.chunks(16).filter(|file| file.len() == 16) {
            let start = file[0].offset.0;
            assert!(start.is_multiple_of(1 << 20), "a file's start");
            let places = file.iter().map(|request| request.offset.0);
            assert!(places.eq((0..16).map(|i| start + (i << 16))), "in order, and all of it");
            *counts.entry(start).or_default() += 1;
        }
        counts.into_iter().max_by_key(|&(_, count)| count).expect("files were read")
    });
    assert_eq!(hottest[0].0, hottest[1].0);
    assert!(hottest[0].1 > 300, "of some 2,500 files in 64: {hottest:?}");
}

#[test]
fn a_file_server_writes_two_for_each_read() {
    let vms = super::presets::Preset::find("fileserver").unwrap().vms(1);
    let all = requests(&SynthSpec { seed: 1, requests: 60_000, vms });
    let reads = all.iter().filter(|request| request.op == Op::Read).count() as f64;
    assert!((reads / 60_000.0 - 1.0 / 3.0).abs() < 0.01, "{reads}");
}
