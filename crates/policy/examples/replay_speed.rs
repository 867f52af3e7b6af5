//! Nanoseconds an access of every cache policy, of sixteen LRU sizes in one pass, and of exact
//! stack distances, on ids made beforehand.
//!
//! `cargo run --release -p thermocline-policy --example replay_speed [ACCESSES [NAME…]]`
//!
//! Independent draws from a Zipf law with exponent 1, seeded, over two fifths as many ranks as
//! accesses; caches of 1 % and 10 % of the distinct ids seen. The sweep has 16 sizes in equal
//! ratios from 0.1 % to 50 %. Processor time, median and fastest of five runs, each from an empty
//! cache, batches of 4,096. Making the ids is not timed.
// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

mod timing;

use std::hint::black_box;
use std::time::Instant;
use thermocline_policy::cache::{CachePolicy, LruSweep, Outcome, Tag};
use thermocline_policy::mrc::{StackDistances, StackHistogram};
use thermocline_policy::registry::{self, Build, Geometry, PolicySpec};
use thermocline_units::{Bytes, LineId, Rng};
use timing::cpu_nanos;

const BATCH: usize = 4096;
const RUNS: usize = 5;
const SWEEP: &str = "lru-sweep";
const DISTANCES: &str = "distances";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(20_000_000, |n| n.parse().expect("a number of accesses"));
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names = registry::entries()
            .filter(|e| matches!(e.build, Build::Cache(_)))
            .map(|e| e.name.to_string())
            .chain([SWEEP.to_string(), DISTANCES.to_string()])
            .collect();
    }
    let (lines, distinct) = zipf(count, count * 2 / 5, 1);
    println!("{count} accesses, {distinct} distinct lines");
    println!("{:<12} {:>9} {:>7}  ns/access  fastest", "policy", "lines", "hit %");
    for name in &names {
        match name.as_str() {
            SWEEP => report_sweep(&lines, distinct),
            DISTANCES => report_distances(&lines, distinct),
            _ => [100, 10]
                .into_iter()
                .for_each(|part| report(name, distinct / part, &lines, distinct)),
        }
    }
}

/// Draws with P(rank) ∝ 1/rank by inverting the continuous law, numbered in order of appearance.
fn zipf(count: usize, ids: usize, seed: u64) -> (Vec<LineId>, u32) {
    let mut rng = Rng::seeded(seed);
    let log = (ids as f64 + 1.0).ln();
    let mut number = vec![u32::MAX; ids + 1];
    let mut distinct = 0;
    let lines = (0..count)
        .map(|_| {
            let rank = ((rng.unit_f64() * log).exp() as usize - 1).min(ids);
            if number[rank] == u32::MAX {
                number[rank] = distinct;
                distinct += 1;
            }
            LineId(number[rank])
        })
        .collect();
    (lines, distinct)
}

fn report(name: &str, size: u32, lines: &[LineId], distinct: u32) {
    let spec = PolicySpec::parse(name).expect("a policy of the registry");
    let Build::Cache(build) = spec.entry.build else { panic!("{name} is not a plain cache") };
    let geometry = Geometry { lines: size, line_bytes: Bytes::from_kib(4), volumes: 1, seed: 1 };
    timed(name, size, lines.len(), || {
        let mut cache = build(&geometry, &spec.settings).expect("valid settings");
        cache.reserve(distinct);
        move || replay(cache.as_mut(), lines)
    });
}

fn report_sweep(lines: &[LineId], distinct: u32) {
    let size = |k: i32| (f64::from(distinct) * 0.001 * 500f64.powf(f64::from(k) / 15.0)) as u32;
    let sizes: Vec<u32> = (0..16).map(size).collect();
    timed(SWEEP, sizes[15], lines.len(), || {
        let mut sweep = LruSweep::new(&sizes).expect("they fit");
        sweep.reserve(distinct);
        move || {
            let (mut missed, mut hits, mut victims) = ([0; BATCH], 0, 0u64);
            for batch in lines.chunks(BATCH) {
                let missed = &mut missed[..batch.len()];
                sweep.access_batch(batch, missed, |_, _, line| victims += u64::from(line.0));
                hits += missed.iter().filter(|sizes| **sizes < 16).count();
            }
            black_box(victims);
            hits
        }
    });
}

fn report_distances(lines: &[LineId], distinct: u32) {
    timed(DISTANCES, distinct, lines.len(), || {
        let mut distances = StackDistances::new();
        distances.reserve(distinct);
        move || {
            let mut histogram = StackHistogram::default();
            distances.access_batch(lines, &mut histogram);
            lines.len() - histogram.cold() as usize
        }
    });
}

/// Prints the processor time an access of what `fresh` makes, which returns its hits.
fn timed<Run: FnOnce() -> usize>(name: &str, size: u32, count: usize, fresh: impl Fn() -> Run) {
    let mut times = [0.0; RUNS];
    let mut hits = 0;
    for time in &mut times {
        let run = fresh();
        let (wall, cpu) = (Instant::now(), cpu_nanos());
        hits = run();
        let wall = wall.elapsed().as_nanos() as f64;
        let spent = cpu_nanos().zip(cpu).map_or(wall, |(end, start)| (end - start) as f64);
        *time = spent / count as f64;
    }
    times.sort_by(f64::total_cmp);
    let percent = 100.0 * hits as f64 / count as f64;
    println!("{name:<12} {size:>9} {percent:>7.2} {:>10.2} {:>8.2}", times[RUNS / 2], times[0]);
}

fn replay(cache: &mut dyn CachePolicy, lines: &[LineId]) -> usize {
    let tags = [Tag::default(); BATCH];
    let mut out = [Outcome::HIT; BATCH];
    let mut hits = 0;
    for batch in lines.chunks(BATCH) {
        let out = &mut out[..batch.len()];
        cache.access_batch(batch, &tags[..batch.len()], out);
        hits += black_box(out).iter().filter(|o| o.is_hit()).count();
    }
    hits
}
