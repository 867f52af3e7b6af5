#![allow(clippy::print_stdout)]
//! Replays a stream of line numbers (little-endian u32, dense from 0) through policies and prints the
//! misses, one line each: `POLICY LINES REQUESTS MISSES SECONDS`.
//!
//! `replay_ids IDS.u32 POLICY[,POLICY…] LINES[,LINES…]`. The raw joint of `cargo xtask oracle`: no
//! formats, no costs, every request one line.

use std::time::Instant;
use thermocline_policy::cache::{CachePolicy, Outcome, Tag};
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_units::{Bytes, LineId};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ids, policies, sizes] = arguments.as_slice() else {
        return Err("usage: replay_ids IDS.u32 POLICY[,POLICY…] LINES[,LINES…]".into());
    };
    let lines = read(ids)?;
    for policy in policies.split(',') {
        for size in sizes.split(',') {
            let capacity: u32 = size.parse()?;
            let mut cache = build(policy, capacity)?;
            let start = Instant::now();
            let misses = replay(cache.as_mut(), &lines);
            let seconds = start.elapsed().as_secs_f64();
            println!("{policy} {capacity} {} {misses} {seconds:.6}", lines.len());
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<Vec<LineId>, Failure> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(format!("{path}: {} bytes are no whole number of u32", bytes.len()).into());
    }
    Ok(words.iter().map(|word| LineId(u32::from_le_bytes(*word))).collect())
}

fn build(policy: &str, lines: u32) -> Result<Box<dyn CachePolicy>, Failure> {
    let spec = PolicySpec::parse(policy)?;
    let geometry = Geometry { lines, line_bytes: Bytes::from_kib(4), volumes: 1, seed: 1 };
    if spec.is_clairvoyant() {
        return Err(format!("{policy} needs the future, which this program does not tell").into());
    }
    match spec.build(&geometry, None)? {
        Built::Cache(cache) => Ok(cache),
        Built::Placement(_) => Err(format!("{policy} is not a per-access cache").into()),
    }
}

fn replay(cache: &mut dyn CachePolicy, lines: &[LineId]) -> u64 {
    const BATCH: usize = 1 << 14;
    let universe = lines.iter().map(|line| line.0 + 1).max().unwrap_or(0);
    cache.reserve(universe);
    let tags = vec![Tag::default(); BATCH];
    let mut out = vec![Outcome::HIT; BATCH];
    let mut misses = 0;
    for batch in lines.chunks(BATCH) {
        let out = &mut out[..batch.len()];
        cache.access_batch(batch, &tags[..batch.len()], out);
        misses += out.iter().filter(|outcome| !outcome.is_hit()).count() as u64;
    }
    misses
}
