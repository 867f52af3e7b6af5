//! The settings and cut points that a chunking core is held to, as text.
//!
//! Reads requests from standard input, a line each: `CHUNKING HOW FILE [MIN EXPECTED MAX]`, with
//! HOW one of `cuts`, `at-min` (candidates below the least size cut there, as VNRE prints it) and
//! `candidates`; sizes replace the chunking's own. Answers with two lines: the settings a core is
//! given, and the positions (of the file) in order.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::io::{BufRead, Write};
use thermocline_chunking::{BLOCK_BYTES, BelowMin, Chunker, Chunking, Marks, Sizes, Tests};

fn main() {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("lines of text");
        let words: Vec<&str> = line.split_whitespace().collect();
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

fn own_sizes(words: &[&str]) -> Option<Sizes> {
    let number = |text: &str| text.parse().expect("a number of bytes");
    let [min, expected, max] = words else { return None };
    Some(Sizes { min: number(min), expected: number(expected), max: number(max) })
}

/// `engine=… loose=… strict=… magic=… off=… min=… expected=… max=… at_min=… pass=…`.
fn settings(chunking: Chunking, how: &str, sizes: Sizes) -> String {
    let Tests { engine, loose, strict, equals } = chunking.tests().expect("a core's function");
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
