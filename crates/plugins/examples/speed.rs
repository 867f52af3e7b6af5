//! Processor time of a policy in a shared library beside a built-in one, over the same accesses.
//!
//! ```text
//! cargo run --release -p thermocline-plugins --example speed -- ./lru.so:lru lru
//! ```
//!
//! 20 million accesses to 2 million lines, skewed; the cache holds 5 % and 20 % of the lines. The
//! two run in turn, five times. Prints nanoseconds of the processor an access, the least and the
//! greatest, and the ratio of the least ones. Answers of the library are checked, as always.

#![allow(clippy::print_stdout)] // A program for a terminal.

use thermocline_policy::cache::{Outcome, Tag};
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_units::{Bytes, LineId, Rng};

const LINES: u64 = 2_000_000;
const ACCESSES: usize = 20_000_000;
const BATCH: usize = 4096;
const REPEATS: usize = 5;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let spec = |text: &str| match thermocline_plugins::policy(text) {
        Some(policy) => policy.expect("the library has the policy"),
        None => PolicySpec::parse(text).expect("a policy of the registry"),
    };
    let specs: Vec<PolicySpec> = words.iter().map(|word| spec(word)).collect();
    let mut rng = Rng::seeded(1);
    // The product of three uniform numbers: most accesses go to few lines.
    let mut skewed = || (0..3).fold(LINES, |bound, _| rng.below(bound.max(1)) + 1) - 1;
    let lines: Vec<LineId> = (0..ACCESSES).map(|_| LineId(skewed() as u32)).collect();
    for share in [20, 5] {
        let geometry = Geometry {
            lines: (LINES / share) as u32,
            line_bytes: Bytes(4096),
            volumes: 1,
            seed: 1,
        };
        let mut times = vec![Vec::new(); specs.len()];
        let mut hits = vec![0; specs.len()];
        for _ in 0..REPEATS {
            for (index, spec) in specs.iter().enumerate() {
                let (time, hit) = run(spec, &geometry, &lines);
                times[index].push(time);
                hits[index] = hit;
            }
        }
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        let reference = times.last().map_or(1.0, |times| least(times));
        for ((spec, times), hits) in specs.iter().zip(&times).zip(hits) {
            let (fastest, most) = (least(times), times.iter().copied().fold(0.0, f64::max));
            let (label, ratio) = (&spec.label, fastest / reference);
            println!(
                "1/{share} of the lines, {label}: {fastest:.2} to {most:.2} ns an access, {hits} \
                 hits, x {ratio:.2}"
            );
        }
    }
}

/// Nanoseconds of the processor an access, and hits.
fn run(spec: &PolicySpec, geometry: &Geometry, lines: &[LineId]) -> (f64, u64) {
    let Ok(Built::Cache(mut cache)) = spec.build(geometry, None) else { panic!("no cache") };
    cache.reserve(LINES as u32);
    let tags = vec![Tag::default(); BATCH];
    let mut out = vec![Outcome::HIT; BATCH];
    let mut hits = 0;
    let started = processor_ns();
    for batch in lines.chunks(BATCH) {
        let out = &mut out[..batch.len()];
        cache.access_batch(batch, &tags[..batch.len()], out);
        hits += out.iter().filter(|outcome| outcome.is_hit()).count() as u64;
    }
    let spent = processor_ns() - started;
    assert_eq!(cache.failure(), None);
    (spent as f64 / lines.len() as f64, hits)
}

/// Nanoseconds that this process has had the processor.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells it");
    text.split(' ').next().and_then(|field| field.parse().ok()).expect("a number comes first")
}
