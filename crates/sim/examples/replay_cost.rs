//! Cost of a replay for each request, part by part: `replay_cost TRACE POLICY OBJECTS…`.
//!
//! Nanoseconds a request of processor time, of one replay: of reading and parsing alone, with
//! cutting and numbering, and of the whole replay of one cache of each size. Each is the least of
//! seven passes, which keeps most noise out; where the kernel does not tell it, it is wall time.
//! Run it with `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`, so that large tables have large pages, as
//! they have in the program.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a program that measures and reports, not part of the crate"
)]

use std::time::Instant;
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::lab::{CacheSize, LabOptions, run_stream, use_threads};
use thermocline_sim::replay::ReplayOptions;
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::source::{Source, open_all};
use thermocline_sim::workload::{Block, Cut, Stream, Unit};
use thermocline_trace::{Batch, ReadOptions, TraceReader};

type Failure = Box<dyn std::error::Error>;

/// Passes of which the fastest counts.
const PASSES: usize = 7;
const CUT: Cut = Cut { unit: Unit::Objects, chunk: None };

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [trace, policy, sizes @ ..] = arguments.as_slice() else {
        return Err("usage: replay_cost TRACE POLICY OBJECTS…".into());
    };
    use_threads(1)?;
    let source: Source = trace.parse()?;
    let open = || open_all(std::slice::from_ref(&source), &ReadOptions::default());
    report("reading", || read(&mut *open()?))?;
    report("and numbering", || number(&mut *open()?))?;
    let spec = [PolicySpec::parse(policy)?];
    for size in sizes {
        let lines = [CacheSize::Lines(size.parse()?)];
        let options =
            LabOptions { replay: ReplayOptions::default(), profile: Profile::source(), seed: 1 };
        report(&format!("{policy} of {size} objects, all of it"), || {
            let mut reader = open()?;
            let mut stream = Stream::new(&mut *reader, CUT);
            let (_, seen) = run_stream(&mut stream, CUT, &spec, &lines, &options, None, &|_| ())?;
            Ok(seen.requests)
        })?;
    }
    Ok(())
}

fn report(part: &str, pass: impl Fn() -> Result<u64, Failure>) -> Result<(), Failure> {
    let mut least = f64::INFINITY;
    for _ in 0..PASSES {
        let (wall, own) = (Instant::now(), processor_ns());
        let requests = pass()?;
        let spent = match own.zip(processor_ns()) {
            Some((before, after)) => after - before,
            None => wall.elapsed().as_nanos() as f64,
        };
        least = least.min(spent / requests as f64);
    }
    println!("{part:<32} {least:>6.1} ns a request");
    Ok(())
}

/// Nanoseconds that all threads have run so far; none of them has ended.
fn processor_ns() -> Option<f64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let own = |thread: std::io::Result<std::fs::DirEntry>| {
        let told = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        told.split_whitespace().next()?.parse::<f64>().ok()
    };
    threads.map(own).sum()
}

fn read(reader: &mut dyn TraceReader) -> Result<u64, Failure> {
    let (mut batch, mut requests) = (Batch::default(), 0);
    loop {
        reader.read_batch(&mut batch)?;
        if batch.requests.is_empty() {
            return Ok(requests);
        }
        requests += batch.requests.len() as u64;
    }
}

fn number(reader: &mut dyn TraceReader) -> Result<u64, Failure> {
    let mut stream = Stream::new(reader, CUT);
    let (mut block, mut requests) = (Block::new(CUT), 0);
    while stream.fill(&mut block)? {
        requests += block.requests();
    }
    Ok(requests)
}
