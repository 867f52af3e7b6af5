//! HintStor's baseline at several migration intervals and chunk sizes: the table and the pictures
//! of docs/results/volume-baseline.md.
//!
//! ```text
//! cargo run --release -p thermocline-sim --example hintstor_baseline [-- FOLDER]
//! ```
//!
//! 1. Two loads: the CloudPhysics trace at its own times (from `traces` under THERMOCLINE_SHARED,
//!    `../shared` when it is not set) on `experiments/hintstor/flash.toml`, and the made file
//!    server for two hours on `experiments/hintstor/pools.toml`.
//! 2. Pools have the same bytes at every chunk size: shares are of what is touched in chunks of 1
//!    MiB. Only the slowest pool grows with what larger chunks take in beside it.
//! 3. For each chunk size: no migration (`static`), then the baseline at each interval.
//!
//! Prints the tables; with a folder, also writes `volume-baseline-LOAD.svg` into it.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::format::{Quantity, bytes, count, seconds, share};
use thermocline_sim::machine::{
    Arrivals, Load, MachineOptions, PoolPlan, PoolSize, Run, parse_pools, run,
};
use thermocline_sim::picture::{Axis, BarChart, BarSeries, Chart, Stacking};
use thermocline_sim::source::{Source, open_all};
use thermocline_sim::synth::from_words;
use thermocline_trace::ReadOptions;
use thermocline_units::{Bytes, Nanos};

const CHUNKS_MIB: [u64; 3] = [1, 4, 16];
const INTERVALS_S: [u64; 3] = [60, 300, 600];

/// A load and what it runs on.
struct Scene {
    name: &'static str,
    title: &'static str,
    source: Source,
    pools: &'static str,
    speed: f64,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scenes() -> Vec<Scene> {
    let shared = std::env::var_os("THERMOCLINE_SHARED").map(PathBuf::from);
    let trace = shared.unwrap_or_else(|| root().join("../shared")).join("traces");
    // Two hours at 100 requests a second: twice the rate at which it is made.
    let server = from_words("fileserver,requests=720k,vms=1").expect("the preset is there");
    vec![
        Scene {
            name: "cloudphysics",
            title: "CloudPhysics VM, SCM over SATA SSD",
            source: Source::File(trace.join("cloudphysics_2h.csv.gz")),
            pools: "flash.toml",
            speed: 1.0,
        },
        Scene {
            name: "fileserver",
            title: "File server, SCM over SATA SSD over disk",
            source: Source::Synth(Box::new(server)),
            pools: "pools.toml",
            speed: 2.0,
        },
    ]
}

/// The scene's pools, all but the slowest in bytes.
fn pools(scene: &Scene, load: &Load) -> Vec<PoolPlan> {
    let path = root().join("experiments/hintstor").join(scene.pools);
    let text = std::fs::read_to_string(&path).expect("the pools stand beside the experiment");
    let mut pools = parse_pools(&text, &path).expect("they are written right");
    let chunk = Bytes::from_mib(1);
    let touched = load.touched(chunk).len() as u64;
    let faster = pools.len() - 1;
    for pool in &mut pools[..faster] {
        pool.size = PoolSize::Bytes(Bytes(pool.size.chunks(chunk, touched) * chunk.0));
    }
    pools
}

/// Static, then the baseline at each interval.
fn runs(scene: &Scene, load: &Load, chunk: Bytes) -> Vec<Run> {
    let pools = pools(scene, load);
    let spec = |name| [PolicySpec::parse(name).expect("it is registered")];
    let go = |name, interval| {
        let arrivals = Arrivals::Open { speed: scene.speed };
        let epoch = Nanos::from_secs(interval);
        let options = MachineOptions { chunk, epoch, arrivals, ..MachineOptions::default() };
        run(load, &pools, &spec(name), &options, &|_| ()).expect("the machine runs").remove(0)
    };
    let baseline = INTERVALS_S.map(|interval| go("baseline", interval));
    std::iter::once(go("static", INTERVALS_S[1])).chain(baseline).collect()
}

fn label(column: usize) -> String {
    match column.checked_sub(1) {
        None => "no migration".to_string(),
        Some(interval) => format!("every {}", Nanos::from_secs(INTERVALS_S[interval])),
    }
}

fn table(all: &[(Bytes, Vec<Run>)]) {
    println!(
        "| chunk | migration | mean | p50 | p99 | p99.9 | reads | writes | on the fastest pool | moves | \
         migrated | SSD written, programmed |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for (chunk, runs) in all {
        for (column, run) in runs.iter().enumerate() {
            let ssd = run.pools.iter().find(|pool| pool.flash_host_bytes > 0);
            let written = ssd.map_or("–".to_string(), |pool| {
                let (host, all) = (pool.flash_host_bytes, pool.flash_programmed_bytes);
                format!("{}, {}", bytes(host as f64), bytes(all as f64))
            });
            println!(
                "| {chunk} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {written} |",
                label(column),
                seconds(run.all.mean_s),
                seconds(run.all.p50_s),
                seconds(run.all.p99_s),
                seconds(run.all.p999_s),
                seconds(run.reads.mean_s),
                seconds(run.writes.mean_s),
                share(run.fast_share),
                count(run.moves_done),
                bytes(run.migrated_bytes as f64),
            );
        }
    }
}

fn picture(scene: &Scene, all: &[(Bytes, Vec<Run>)]) -> BarChart {
    let series = |(chunk, runs): &(Bytes, Vec<Run>)| BarSeries {
        name: format!("chunks of {chunk}"),
        values: runs.iter().map(|run| run.all.mean_s).collect(),
    };
    BarChart {
        title: format!("Mean latency: {}", scene.title),
        note: "HintStor's baseline, top 1,000 chunks each interval".to_string(),
        y: Axis::linear("mean latency", Quantity::Seconds),
        group_label: "migration".to_string(),
        groups: (0..=INTERVALS_S.len()).map(label).collect(),
        series: all.iter().map(series).collect(),
        stacking: Stacking::Beside,
    }
}

fn main() {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    for scene in scenes() {
        let mut reader =
            match open_all(std::slice::from_ref(&scene.source), &ReadOptions::default()) {
                Ok(reader) => reader,
                Err(error) => {
                    eprintln!("SKIPPED: {}: {error}", scene.title);
                    continue;
                }
            };
        let load = Load::read(&mut *reader, &|_| ()).expect("the load can be read");
        let run_at = |mib| (Bytes::from_mib(mib), runs(&scene, &load, Bytes::from_mib(mib)));
        let all: Vec<(Bytes, Vec<Run>)> = CHUNKS_MIB.map(run_at).into();
        println!("\n## {}\n", scene.title);
        for plan in pools(&scene, &load) {
            println!("- {}: {} of {}", plan.name, plan.size, plan.profile_name);
        }
        println!();
        table(&all);
        if let Some(folder) = &folder {
            let path = folder.join(format!("volume-baseline-{}.svg", scene.name));
            std::fs::write(&path, picture(&scene, &all).to_svg()).expect("the folder is there");
        }
    }
}
