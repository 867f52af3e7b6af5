//! The settings and cut points that a chunking core is held to, as text.
//!
//! Reads requests from standard input, a line each: `CHUNKING HOW FILE [MIN EXPECTED MAX]`, with
//! HOW one of `cuts`, `at-min` (candidates below the least size cut there, as VNRE prints it) and
//! `candidates`; sizes replace the chunking's own. Answers with two lines: the settings a core is
//! given, and the positions (of the file) in order.
//!
//! A line `murmur3 SEED FILE` is answered with a line: MurmurHash3 of the file in 128 bits.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::io::{BufRead, Write};
use thermocline_chunking::{BLOCK_BYTES, BelowMin, Chunker, Chunking, Marks, Sizes, Tests};

fn main() {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("lines of text");
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["murmur3", seed, file] = words[..] {
            let bytes = std::fs::read(file).expect("a file that can be read");
            let [low, high] = murmur3(seed.parse().expect("a seed of 32 bits"), &bytes);
            writeln!(out, "{low:016x}{high:016x}").expect("somebody listens");
            out.flush().expect("somebody listens");
            continue;
        }
        let [chunking, how, file, sizes @ ..] = &words[..] else {
            panic!("`{line}`: write CHUNKING HOW FILE [MIN EXPECTED MAX]")
        };
        let chunking: Chunking = chunking.parse().expect("a chunking");
        let bytes = std::fs::read(file).expect("a file that can be read");
        let sizes = own_sizes(sizes).unwrap_or(chunking.sizes());
        writeln!(out, "{}", settings(chunking, how, sizes)).expect("somebody listens");
        let positions = match *how {
            "cuts" => cuts(chunking, sizes, BelowMin::Ignore, &bytes),
            "at-min" => cuts(chunking, sizes, BelowMin::CutAtMin, &bytes),
            "candidates" => candidates(chunking, &bytes),
            other => panic!("`{other}`: write cuts, at-min or candidates"),
        };
        writeln!(out, "{}", positions.join(" ")).expect("somebody listens");
        out.flush().expect("somebody listens");
    }
}

/// MurmurHash3_x64_128 (A. Appleby, 2011), the fingerprint of chunks in VNRE.
fn murmur3(seed: u32, bytes: &[u8]) -> [u64; 2] {
    const C: [u64; 2] = [0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f];
    let mut h = [u64::from(seed); 2];
    let (blocks, rest) = bytes.as_chunks::<16>();
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let words = |block: &[u8; 16]| {
        let both = u128::from_le_bytes(*block);
        let [low, high] = [both as u64, (both >> 64) as u64];
        let low = low.wrapping_mul(C[0]).rotate_left(31).wrapping_mul(C[1]);
        [low, high.wrapping_mul(C[1]).rotate_left(33).wrapping_mul(C[0])]
    };
    for block in blocks {
        let [low, high] = words(block);
        h[0] = (h[0] ^ low).rotate_left(27).wrapping_add(h[1]);
        h[0] = h[0].wrapping_mul(5).wrapping_add(0x52dc_e729);
        h[1] = (h[1] ^ high).rotate_left(31).wrapping_add(h[0]);
        h[1] = h[1].wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let [low, high] = words(&last);
    let length = bytes.len() as u64;
    h = [h[0] ^ low ^ length, h[1] ^ high ^ length];
    h[0] = h[0].wrapping_add(h[1]);
    h[1] = h[1].wrapping_add(h[0]);
    h = h.map(|mut half| {
        for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
            half = (half ^ half >> 33).wrapping_mul(factor);
        }
        half ^ half >> 33
    });
    h[0] = h[0].wrapping_add(h[1]);
    h[1] = h[1].wrapping_add(h[0]);
    h
}

fn own_sizes(words: &[&str]) -> Option<Sizes> {
    let number = |text: &str| text.parse().expect("a number of bytes");
    let [min, expected, max] = words else { return None };
    Some(Sizes { min: number(min), expected: number(expected), max: number(max) })
}

/// `engine=… loose=… strict=… magic=… off=… min=… expected=… max=… at_min=… pass=…`.
fn settings(chunking: Chunking, how: &str, sizes: Sizes) -> String {
    let Some(Tests { engine, loose, strict, equals }) = chunking.tests() else {
        // A core of its own has no settings.
        return format!("engine={chunking}");
    };
    let engine = engine.map_or("none".to_string(), |engine| engine.to_string());
    let Sizes { min, expected, max } = sizes;
    let pass = how == "candidates" || min == u32::MAX;
    let [min, expected, max] = [min, expected, max].map(|size| if pass { 0 } else { size });
    format!(
        "engine={engine} loose={loose} strict={strict} magic={equals} off={} min={min} \
         expected={expected} max={max} at_min={} pass={}",
        u8::from(engine == "none"),
        u8::from(how == "at-min"),
        u8::from(pass),
    )
}

fn cuts(chunking: Chunking, sizes: Sizes, below_min: BelowMin, bytes: &[u8]) -> Vec<String> {
    let mut chunker = Chunker::new(chunking.candidates(), sizes, below_min);
    let mut cuts = Vec::new();
    chunker.push(bytes, &mut cuts);
    cuts.iter().map(u64::to_string).collect()
}

fn candidates(chunking: Chunking, bytes: &[u8]) -> Vec<String> {
    let candidates = chunking.candidates();
    let before = candidates.window() - 1;
    let mut marks = Marks::none();
    let mut found = Vec::new();
    let mut from = 0;
    while from + before < bytes.len() {
        let block = &bytes[from..bytes.len().min(from + BLOCK_BYTES)];
        candidates.mark(block, &mut marks);
        for at in before..block.len() {
            if marks.loose[at / 64] >> (at % 64) & 1 == 1 {
                found.push((from + at + 1).to_string());
            }
        }
        from += block.len() - before;
    }
    found
}
