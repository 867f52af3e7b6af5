//! Speed of characterising workloads: nanoseconds of processor time a request on one core, median
//! of five.
//!
//! `cargo run --release -p thermocline-trace --example stat_speed` makes workloads in memory from a
//! fixed seed, Poisson arrivals to one volume and to many, small requests by Zipf's law over a
//! small and a large working set, and characterises each; making is not measured.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a program that measures and reports, not part of the crate"
)]

use std::time::Instant;
use thermocline_trace::stat::Characterisation;
use thermocline_trace::synth::Zipf;
use thermocline_trace::{Batch, HashRange, Op, Request};
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};

/// Requests of a workload.
const REQUESTS: u64 = 4_000_000;
/// Runs of which the median is told.
const RUNS: usize = 5;
/// Mean time between requests, in nanoseconds.
const GAP_NS: f64 = 100_000.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<44} {:>9} {:>12} {:>22}", "workload", "ns/req", "Mreq/s", "of runs");
    report("1 volume, 100,000 pages", &workload(1, 100_000))?;
    report("1 volume, 4,000,000 pages", &workload(1, 4_000_000))?;
    report("100 volumes, 40,000 pages each", &workload(100, 40_000))?;
    Ok(())
}

fn workload(volumes: u64, pages: u64) -> Vec<Batch> {
    let mut rng = Rng::seeded(1);
    let popular = Zipf::new(pages, 0.9);
    let mut now = 0.0;
    let mut request = || {
        now += rng.exponential(GAP_NS);
        // Popular pages lie all over the volume, as they do on a file system.
        let page = popular.sample(&mut rng).wrapping_mul(0x9e37_79b9) % pages;
        Request {
            time: Nanos(now as u64),
            volume: VolumeId(rng.below(volumes) as u32),
            op: if rng.below(3) == 0 { Op::Write } else { Op::Read },
            offset: Bytes(page * 4096),
            length: Bytes(4096 << rng.below(2)),
            response: None,
            hashes: HashRange::default(),
        }
    };
    let size = Batch::CAPACITY as u64;
    let batch = |count: u64| Batch {
        requests: std::iter::repeat_with(&mut request).take(count as usize).collect(),
        hashes: Vec::new(),
    };
    (0..REQUESTS).step_by(Batch::CAPACITY).map(|at| size.min(REQUESTS - at)).map(batch).collect()
}

fn report(name: &str, batches: &[Batch]) -> Result<(), Box<dyn std::error::Error>> {
    let mut costs = Vec::new();
    for _ in 0..RUNS {
        let clock = Clock::start();
        let mut characterisation = Characterisation::default();
        for batch in batches {
            characterisation.observe(batch)?;
        }
        let found = characterisation.finish()?;
        let seconds = clock.seconds();
        assert_eq!(found.whole.requests(), REQUESTS);
        costs.push(seconds * 1e9 / REQUESTS as f64);
    }
    costs.sort_by(f64::total_cmp);
    let median = costs[RUNS / 2];
    let spread = format!("{:.0} to {:.0}", costs[0], costs[RUNS - 1]);
    println!("{name:<44} {median:>9.0} {:>12.1} {spread:>22}", 1e3 / median);
    Ok(())
}

/// Processor time of this thread where Linux tells it, else the time that goes by.
struct Clock {
    wall: Instant,
    cpu_ns: Option<u64>,
}

impl Clock {
    fn start() -> Clock {
        Clock { wall: Instant::now(), cpu_ns: Clock::cpu_ns() }
    }

    fn seconds(&self) -> f64 {
        match (self.cpu_ns, Clock::cpu_ns()) {
            (Some(start), Some(end)) if end > start => (end - start) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }

    /// Linux keeps it, in nanoseconds, as the first number of this file.
    fn cpu_ns() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split_whitespace().next()?.parse().ok()
    }
}
