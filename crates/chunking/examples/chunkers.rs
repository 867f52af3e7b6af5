//! Chunkers side by side over the same bytes: speed, mean size, share found again.
//!  `cargo run --release -p thermocline-chunking --example chunkers -- FILE… [--size 8192]
//! [--repeat 5]` reads the files one after the other as one stream; `random` and `zeroes` are 256
//! MiB of those. `fastcdc` is the crate of that name (v2020, normalization 1) with the same sizes.
//! Repeats go round robin over the chunkers; speed is the median with the least and the greatest.
//! What is found again is judged by SipHash of whole chunks, for every chunker alike.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;
use thermocline_chunking::{Chunker, Chunking, Engine, Rabin16};
use thermocline_units::Rng;

fn main() {
    let (mut bytes, mut size, mut repeats) = (Vec::new(), 8192_u32, 5);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--size" => size = number(arguments.next()),
            "--repeat" => repeats = number(arguments.next()),
            "zeroes" => bytes.resize(bytes.len() + (256 << 20), 0),
            "random" => {
                let mut rng = Rng::seeded(1);
                bytes.extend((0..32 << 20).flat_map(|_| rng.next_u64().to_le_bytes()));
            }
            path => bytes.extend(std::fs::read(path).expect("a file that can be read")),
        }
    }
    let gib = bytes.len() as f64 / f64::from(1 << 30);
    println!("{gib:.2} GiB, chunks of about {size} bytes, {repeats} repeats");
    println!("{:<16} {:>7} {:>16} {:>8} {:>8}", "", "GB/s", "least–greatest", "mean", "saved %");
    let chunkers = chunkers(size);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); chunkers.len()];
    for _ in 0..repeats {
        for (at, (_, cut)) in chunkers.iter().enumerate() {
            let started = Instant::now();
            std::hint::black_box(cut(&bytes));
            times[at].push(bytes.len() as f64 / started.elapsed().as_secs_f64() / 1e9);
        }
    }
    for ((name, cut), times) in chunkers.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let cuts = cut(&bytes);
        let mean = bytes.len() as f64 / cuts.len().max(1) as f64;
        let spread = format!("{:.2}–{:.2}", times[0], times[times.len() - 1]);
        let saved = 100.0 * saved(&bytes, &cuts);
        let median = times[times.len() / 2];
        println!("{name:<16} {median:>7.2} {spread:>16} {mean:>8.0} {saved:>8.1}");
    }
}

fn number<T: std::str::FromStr>(argument: Option<String>) -> T {
    argument.and_then(|text| text.parse().ok()).expect("a number behind the option")
}

type Cut = Box<dyn Fn(&[u8]) -> Vec<u64>>;

fn chunkers(size: u32) -> Vec<(String, Cut)> {
    let mut all: Vec<(String, Cut)> = Vec::new();
    all.push((
        "fastcdc".to_string(),
        Box::new(move |bytes| {
            let (min, max) = (size as usize / 4, size as usize * 4);
            let chunks = fastcdc::v2020::FastCDC::new(bytes, min, size as usize, max);
            chunks.map(|chunk| (chunk.offset + chunk.length) as u64).collect()
        }),
    ));
    for method in ["gear", "rabin-source"] {
        let chunking: Chunking = format!("{method}:{size}B").parse().expect("a power of two");
        all.push((method.to_string(), Box::new(move |bytes| run(chunking.chunker(), bytes))));
    }
    let sizes = format!("rabin16:{size}B").parse::<Chunking>().expect("a power of two").sizes();
    for engine in [Engine::Scalar, Engine::Avx2, Engine::Avx512] {
        if engine.is_available() {
            let name = format!("rabin16 {engine:?}").to_lowercase();
            all.push((
                name,
                Box::new(move |bytes| {
                    let candidates = Box::new(Rabin16::with(size, engine));
                    run(Chunker::new(candidates, sizes, Default::default()), bytes)
                }),
            ));
        }
    }
    all
}

fn run(mut chunker: Chunker, bytes: &[u8]) -> Vec<u64> {
    let mut cuts = Vec::new();
    chunker.push(bytes, &mut cuts);
    if cuts.last() != Some(&(bytes.len() as u64)) {
        cuts.push(bytes.len() as u64);
    }
    cuts
}

/// The share of the bytes that lie in chunks seen before.
fn saved(bytes: &[u8], cuts: &[u64]) -> f64 {
    let (mut seen, mut at, mut again) = (BTreeSet::new(), 0, 0);
    for &cut in cuts {
        let chunk = &bytes[at..cut as usize];
        let mut hasher = DefaultHasher::new();
        chunk.hash(&mut hasher);
        if !seen.insert((hasher.finish(), chunk.len())) {
            again += chunk.len();
        }
        at = cut as usize;
    }
    again as f64 / bytes.len() as f64
}
