//! Every placement beside every other: the tables of experiments/chew/result.md.
//!
//! ```text
//! cargo run --release -p thermocline-sim --example placements [-- traces|sweep [PLACEMENT,…]]
//! ```
//!
//! 1. *Traces*: prxy_0 and proj_2 of MSR Cambridge, if they are in `traces` under
//!    THERMOCLINE_SHARED (`../shared` when it is not set), at the source's windows; otherwise two
//!    stand-ins: as they came, and slowed down until one disk can serve them, with as many windows.
//!    On `experiments/chew/pools.toml`.
//! 2. *Sweep*: random requests of 4 KiB, 70 % reads, Zipf, offered at a half to twice of what the
//!    fast pool's device can serve, on `experiments/chew/flash.toml`, where half of what is touched
//!    fits on it, and on `fits.toml`, where all does; several seeds.
//!
//! Placements are asked with their defaults, ChewAnalyzer also with thresholds for these chunks:
//! its own are for 256 MB. Latencies are of all reads and writes.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use thermocline_policy::registry::{Build, PolicySpec, entries};
use thermocline_sim::format::{bytes, seconds, share};
use thermocline_sim::machine::{Arrivals, Load, MachineOptions, PoolPlan, Run, parse_pools, run};
use thermocline_sim::source::{Source, open_all};
use thermocline_sim::synth::from_toml;
use thermocline_trace::ReadOptions;
use thermocline_trace::synth::Synth;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, traits_of};

/// What the source compares with.
const REFERENCE: &str = "iops-only";
/// Offered load, in units of what the fast pool can serve.
const INTENSITIES: [f64; 5] = [0.5, 0.9, 1.1, 1.5, 2.0];
/// Requests of one run of the sweep, and seeds.
const REQUESTS: u64 = 600_000;
const SEEDS: std::ops::Range<u64> = 1..4;
/// Settings for runs of a few seconds: what `smq` takes for one use, and how fast MOST diverts.
const BRISK: [&str; 5] = [
    "smq:period=10ms",
    "most:step=0.5",
    "most:step=0.5:balance=marginal",
    "benefit:mirrors=0.2",
    "benefit:mirrors=0.2:step=0.5",
];
/// Share of reads in the sweep.
const READS: f64 = 0.7;

/// Thresholds of the source for its chunks of 256 MB, scaled to chunks of 4 MiB.
const SCALED: &str = "chew:top=4.7:low=0.16:very-intense=7.8";

/// Settings with which placements run over traces, beside their defaults.
const TRACED: [&str; 2] = [SCALED, "benefit:mirrors=0.2"];

/// A trace, the windows at which placements decide in its own time, and how fast it is run.
struct Scene {
    name: &'static str,
    file: &'static str,
    window: Nanos,
    chunk: Bytes,
    speeds: &'static [f64],
}

const PUBLISHED: [Scene; 2] = [
    Scene {
        name: "prxy_0",
        file: "prxy_0.csv.gz",
        window: minutes(45),
        chunk: Bytes::from_mib(64),
        speeds: &[1.0],
    },
    Scene {
        name: "proj_2",
        file: "proj_2.csv.gz",
        window: minutes(60),
        chunk: Bytes::from_mib(64),
        speeds: &[1.0],
    },
];
const STAND_INS: [Scene; 2] = [
    Scene {
        name: "CloudPhysics VM, 2 h",
        file: "cloudphysics_2h.csv.gz",
        window: minutes(5),
        chunk: Bytes::from_mib(4),
        speeds: &[1.0, 0.1],
    },
    Scene {
        name: "PostgreSQL and a server's work on ext4, 13 min",
        file: "capA_srv_pg_ext4.csv.gz",
        window: minutes(1),
        chunk: Bytes::from_mib(4),
        speeds: &[1.0, 0.02],
    },
];

const fn minutes(count: u64) -> Nanos {
    Nanos::from_secs(60 * count)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn traces() -> PathBuf {
    let shared = std::env::var_os("THERMOCLINE_SHARED").map(PathBuf::from);
    shared.unwrap_or_else(|| root().join("../shared")).join("traces")
}

fn pools(file: &str) -> Vec<PoolPlan> {
    let path = root().join("experiments/chew").join(file);
    let text = std::fs::read_to_string(&path).expect("the pools stand beside the experiment");
    parse_pools(&text, &path).expect("they are written right")
}

fn placements() -> Vec<PolicySpec> {
    let names = entries().filter(|entry| matches!(entry.build, Build::Placement(_)));
    names.map(|entry| PolicySpec::parse(entry.name).expect("it is registered")).collect()
}

/// How much faster `run` is than the reference, as the source says it: negative is better.
fn beside(run: f64, reference: f64) -> String {
    format!("{:+.0} %", (run / reference - 1.0) * 100.0)
}

fn trace_table(scene: &Scene, specs: &[PolicySpec]) -> bool {
    let file = traces().join(scene.file);
    if !file.exists() {
        return false;
    }
    let source = Source::File(file);
    let mut reader = open_all(std::slice::from_ref(&source), &ReadOptions::default())
        .expect("a trace in that folder can be read");
    let load = Load::read(&mut *reader, &|_| ()).expect("the load can be read");
    for &speed in scene.speeds {
        let epoch = Nanos((scene.window.0 as f64 / speed) as u64);
        let (chunk, arrivals) = (scene.chunk, Arrivals::Open { speed });
        let options = MachineOptions { chunk, epoch, arrivals, ..MachineOptions::default() };
        let runs = run(&load, &pools("pools.toml"), specs, &options, &|_| ());
        let speed = if speed == 1.0 { String::new() } else { format!(", {speed} times as fast") };
        println!("\n### {}{speed}\n\nChunks of {chunk}, windows of {epoch}.\n", scene.name);
        compare(&runs.expect("the machine runs"));
    }
    true
}

/// Every run beside the reference.
fn compare(runs: &[Run]) {
    let reference = runs.iter().find(|run| run.policy == REFERENCE).expect("it is a placement");
    println!(
        "| placement | mean | beside {REFERENCE} | p99 | beside {REFERENCE} | migrated | \
         writes on SCM, SSD, HDD |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for run in runs {
        let written: u64 = run.pools.iter().map(|pool| pool.written_bytes).sum();
        let writes = run
            .pools
            .iter()
            .map(|pool| share(pool.written_bytes as f64 / written.max(1) as f64).to_string());
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            run.policy,
            seconds(run.all.mean_s),
            beside(run.all.mean_s, reference.all.mean_s),
            seconds(run.all.p99_s),
            beside(run.all.p99_s, reference.all.p99_s),
            bytes(run.migrated_bytes as f64),
            writes.collect::<Vec<_>>().join(", "),
        );
    }
}

/// Requests a second that the fast pool's device can serve of this mixture.
fn saturation(pool: &PoolPlan) -> f64 {
    let [reads, writes, ..] = traits_of(&pool.profile).services;
    1.0 / (READS / reads.per_second as f64 + (1.0 - READS) / writes.per_second as f64)
}

fn offered(rate: f64, seed: u64) -> Load {
    let spec = from_toml(&format!(
        "seed = {seed}\nrequests = {REQUESTS}\n[[vm]]\nname = \"a\"\n\
         arrivals = {{ rate_per_s = {rate:.0} }}\n[[vm.part]]\nreads = {READS}\nsize = \"4KiB\"\n\
         length = \"512MiB\"\nzipf = {{ alpha = 0.9, block = \"256KiB\" }}\n"
    ));
    let mut synth = Synth::new(&spec.expect("the words are right")).expect("it can be made");
    Load::read(&mut synth, &|_| ()).expect("the load can be read")
}

/// Mean, and half of what lies between the least and the most.
fn spread(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    (mean, (most - least) / 2.0)
}

/// The tables of one pair of pools.
fn sweep(file: &str, specs: &[PolicySpec]) {
    let pools = pools(file);
    let peak = saturation(&pools[0]);
    println!(
        "\n### Intensity on {file}\n\nThe fast pool can serve {peak:.0} of these requests a second.\n"
    );
    let heads: Vec<String> = INTENSITIES.iter().map(|x| format!("{x}×")).collect();
    println!("| placement | {} |\n|---|{}", heads.join(" | "), "---:|".repeat(heads.len()));
    // By placement, then by intensity.
    let mut cells: Vec<(String, Vec<Vec<Run>>)> = Vec::new();
    for intensity in INTENSITIES {
        for seed in SEEDS {
            let load = offered(peak * intensity, seed);
            let options = MachineOptions {
                chunk: Bytes::from_kib(256),
                epoch: Nanos::from_micros(50_000),
                copying: Copying { rate_per_second: None, ..Copying::default() },
                seed,
                ..MachineOptions::default()
            };
            let runs = run(&load, &pools, specs, &options, &|_| ());
            for (index, run) in runs.expect("the machine runs").into_iter().enumerate() {
                if cells.len() <= index {
                    cells.push((run.policy.clone(), Vec::new()));
                }
                let column = INTENSITIES.iter().position(|x| *x == intensity).expect("one of them");
                cells[index].1.resize_with(INTENSITIES.len(), Vec::new);
                cells[index].1[column].push(run);
            }
        }
    }
    for figure in [|run: &Run| run.all.mean_s, |run: &Run| run.all.p99_s] {
        for (policy, columns) in &cells {
            let cell = |runs: &Vec<Run>| {
                let (mean, half) = spread(&runs.iter().map(figure).collect::<Vec<_>>());
                format!("{} ± {}", seconds(mean), seconds(half))
            };
            println!("| {policy} | {} |", columns.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
        println!();
    }
}

/// The placements that were named, or every one and `others`.
fn chosen(others: &[&str]) -> Vec<PolicySpec> {
    let parse = |spec: &str| PolicySpec::parse(spec).expect("a placement with its settings");
    match std::env::args().nth(2) {
        Some(list) => list.split(',').map(parse).collect(),
        None => placements().into_iter().chain(others.iter().map(|spec| parse(spec))).collect(),
    }
}

fn main() {
    let wanted = std::env::args().nth(1);
    let wants = |part: &str| wanted.as_deref().is_none_or(|wanted| wanted == part);
    if wants("traces") {
        let specs = chosen(&TRACED);
        let published = PUBLISHED.iter().filter(|scene| trace_table(scene, &specs)).count();
        if published < PUBLISHED.len() {
            eprintln!("SKIPPED: prxy_0 and proj_2 are not in {}", traces().display());
            for scene in &STAND_INS {
                if !trace_table(scene, &specs) {
                    eprintln!("SKIPPED: {} is not there", scene.file);
                }
            }
        }
    }
    if wants("sweep") {
        // What does not fit on the fast pool, and what fits and is too much for it.
        let specs = chosen(&BRISK);
        ["flash.toml", "fits.toml"].into_iter().for_each(|file| sweep(file, &specs));
    }
}
