//! Cost of continuous migration to the foreground, on a modelled NVMe SSD over a 7,200 rpm disk.
//!
//! ```text
//! cargo run --release -p thermocline-sim --example migration_latency [-- SEED]
//! ```
//!
//! 1. Load: random 4 KiB requests, 70 % reads, uniform over 10 GiB, so that where a chunk is
//!    neither helps nor harms; the SSD holds a tenth of the chunks. Poisson arrivals.
//! 2. The pair's capacity is what it serves with 32 requests always under way. The load comes at
//!    half of that.
//! 3. A placement that never comes to rest exchanges chunks between the pools all the time.
//! 4. Latency without it, with the throttle, without the throttle, and with the locking copy that
//!    the sources describe: a chunk answers nobody while it is copied.
//!
//! Prints the table of docs/results/volume-speed.md.

#![allow(clippy::print_stdout)]

use thermocline_charts::format::{bytes, seconds};
use thermocline_policy::Footprint;
use thermocline_policy::placement::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use thermocline_sim::machine::{Arrivals, Load, MachineOptions, PoolPlan, PoolSize, Run, run_one};
use thermocline_sim::synth::from_toml;
use thermocline_trace::synth::Synth;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};
use thermocline_volume::Copying;

/// 1,000 requests a second as recorded; the speed makes that what is wanted.
const RECORDED_PER_S: f64 = 1000.0;
const REQUESTS: u64 = 200_000;

/// Exchanges chunks between the two pools, in turns, as many as it may.
#[derive(Default)]
struct Restless {
    turn: usize,
}

impl Placement for Restless {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        let slow = PoolId(1);
        let on = |pool| {
            let mut chunks: Vec<ChunkId> = Vec::new();
            view.visit_pool(pool, &mut |chunk| chunks.push(chunk));
            chunks
        };
        let (fast, below) = (on(FLASH), on(slow));
        self.turn += fast.len();
        for (index, &chunk) in fast.iter().enumerate() {
            moves.push(Move::to(chunk, slow));
            let next = below[(self.turn + index) % below.len()];
            moves.push(Move::to(next, FLASH));
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

/// A placement that moves nothing.
struct Still;

impl Placement for Still {
    fn observe(&mut self, _: &ChunkAccess) {}
    fn propose(&mut self, _: Nanos, _: &dyn VolumeView, _: Budget, _: &mut Vec<Move>) {}
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

fn load(seed: u64) -> Load {
    let spec = from_toml(&format!(
        "seed = {seed}\nrequests = {REQUESTS}\n[[vm]]\nname = \"uniform\"\n\
         arrivals = {{ rate_per_s = {RECORDED_PER_S} }}\n[[vm.part]]\nreads = 0.7\nsize = \"4KiB\"\n\
         length = \"10GiB\"\nzipf = {{ alpha = 0, block = \"4KiB\" }}\n"
    ));
    let mut synth = Synth::new(&spec.expect("the load is possible")).expect("the load is possible");
    Load::read(&mut synth, &|_| ()).expect("a made load can be read")
}

fn pools() -> Vec<PoolPlan> {
    let mut pools = PoolPlan::assumed();
    pools[1].size = PoolSize::Share(0.95);
    pools
}

/// A way to copy.
struct Way {
    name: &'static str,
    copying: Copying,
}

fn ways() -> [Way; 4] {
    let throttled = Copying::default();
    let free = Copying { rate_per_second: None, yield_above: Some(u32::MAX), ..throttled };
    [
        Way { name: "throttled", copying: throttled },
        Way { name: "no throttle", copying: free },
        Way { name: "locking, throttled", copying: Copying { locking: true, ..throttled } },
        Way { name: "locking, no throttle", copying: Copying { locking: true, ..free } },
    ]
}

/// A row of the table; latencies of what was asked while operations were under way, if any were.
fn row(chunk: Bytes, name: &str, run: &Run, base: &Run) -> String {
    let latency = if run.moves_done > 0 { &run.while_moving } else { &run.all };
    let p99 = |run: &Run, pool: usize| seconds(run.pools[pool].reads.p99_s);
    format!(
        "| {chunk} | {name} | {} | {} | {} | {} | {} | {:.2} | {} | {} | {}/s |",
        seconds(latency.mean_s),
        seconds(latency.p50_s),
        seconds(latency.p99_s),
        seconds(latency.p999_s),
        seconds(latency.max_s),
        latency.p99_s / base.all.p99_s,
        p99(run, 0),
        p99(run, 1),
        bytes(run.migrated_bytes as f64 / run.span_s),
    )
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let load = load(seed);
    let epoch = Nanos::from_secs(60);
    let options = MachineOptions { epoch, seed, ..MachineOptions::default() };
    let run = |options: &MachineOptions, placement: Box<dyn Placement>| {
        run_one(&load, &pools(), ("", placement), options).expect("the machine runs")
    };
    let closed = Arrivals::Closed { outstanding: 32 };
    let full = run(&MachineOptions { arrivals: closed, ..options.clone() }, Box::new(Still));
    let rate = full.iops / 2.0;
    println!("With 32 under way: {:.0} requests/s. Load: {rate:.0} requests/s.\n", full.iops);
    println!(
        "| chunk | migration | mean | p50 | p99 | p99.9 | longest | p99, times | reads on SSD, p99 | \
         reads on disk, p99 | moved |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for chunk in [1, 16, 64].map(Bytes::from_mib) {
        let arrivals = Arrivals::Open { speed: rate / RECORDED_PER_S };
        let open = MachineOptions { chunk, arrivals, ..options.clone() };
        let base = run(&open, Box::new(Still));
        println!("{}", row(chunk, "none", &base, &base));
        for Way { name, copying } in ways() {
            let open = MachineOptions { copying, ..open.clone() };
            let moving = run(&open, Box::<Restless>::default());
            println!("{}", row(chunk, name, &moving, &base));
        }
    }
}
