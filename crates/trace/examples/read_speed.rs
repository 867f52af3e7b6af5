//! Speed of reading traces: megabytes of text or records per second on one core, median of five.
//!
//! `cargo run --release -p thermocline-trace --example read_speed` makes traces in memory (MSR of
//! one volume and of many, Alibaba, vscsi, oracleGeneral, CSV with a header, the native format)
//! from a fixed seed and reads each; with files as arguments it loads and reads those instead.
//! Loading is not measured, decompression is; MB are 10⁶ bytes as they lie in memory before
//! decompression, seconds are processor time where Linux tells it. The checksum shows that requests
//! were looked at.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a program that measures and reports, not part of the crate"
)]

use std::io::{Cursor, Write};
use std::time::Instant;
use thermocline_trace::native::{ParquetSettings, ParquetWriter, open_parquet};
use thermocline_trace::{
    Batch, CsvWriter, HashColumn, ReadOptions, TraceError, TraceReader, TraceWriter, open,
};
use thermocline_units::Rng;

/// Requests in a made trace.
const REQUESTS: u64 = 4_000_000;

/// The trace that is read from its end.
const NATIVE: &str = "native";

/// Runs of which the median is told.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<28} {:>10} {:>9} {:>9} {:>22}", "trace", "requests", "MB/s", "ns/req", "of runs");
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        report(file, std::fs::read(file)?)?;
    }
    if files.is_empty() {
        report("msr, one volume", msr(1))?;
        report("msr, 1,000 volumes", msr(1000))?;
        report("alibaba, 1,000 volumes", alibaba(1000))?;
        report("vscsi v1", vscsi())?;
        report("oracle-general", oracle_general())?;
        report("csv", csv()?)?;
        report(NATIVE, native()?)?;
    }
    Ok(())
}

fn report(name: &str, bytes: Vec<u8>) -> Result<(), TraceError> {
    let size = bytes.len();
    let bytes: &'static [u8] = bytes.leak();
    let mut speeds = Vec::new();
    let mut requests = 0;
    for _ in 0..RUNS {
        let clock = Clock::start();
        let (count, checksum) = read(name, bytes)?;
        let seconds = clock.seconds();
        std::hint::black_box(checksum);
        requests = count;
        speeds.push(size as f64 / 1e6 / seconds);
    }
    speeds.sort_by(f64::total_cmp);
    let median = speeds[RUNS / 2];
    println!(
        "{name:<28} {requests:>10} {median:>9.0} {:>9.1} {:>22}",
        size as f64 * 1e3 / median / requests as f64,
        format!("[{:.0}–{:.0}]", speeds[0], speeds[RUNS - 1]),
    );
    Ok(())
}

/// Processor time of this thread where the system tells it, so that other work on the machine
/// does not count; wall time elsewhere.
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

fn reader(name: &str, bytes: &'static [u8]) -> Result<Box<dyn TraceReader>, TraceError> {
    match name {
        NATIVE => open_parquet(bytes::Bytes::from_static(bytes), name),
        _ => open(Box::new(Cursor::new(bytes)), name, &ReadOptions::default()),
    }
}

fn read(name: &str, bytes: &'static [u8]) -> Result<(u64, u64), TraceError> {
    let mut reader = reader(name, bytes)?;
    let mut batch = Batch::default();
    let (mut count, mut checksum) = (0, 0u64);
    loop {
        reader.read_batch(&mut batch)?;
        if batch.requests.is_empty() {
            return Ok((count, checksum));
        }
        count += batch.requests.len() as u64;
        for request in &batch.requests {
            checksum = checksum.wrapping_add(request.offset.0 ^ request.length.0 ^ request.time.0);
        }
    }
}

/// A request as made up: tick of 100 ns, volume, whether it writes, offset and length in bytes.
struct Made {
    tick: u64,
    volume: u64,
    writes: bool,
    offset: u64,
    length: u64,
}

fn made(volumes: u64) -> impl Iterator<Item = Made> {
    let mut rng = Rng::seeded(7);
    let mut tick = 128_166_372_003_061_629;
    (0..REQUESTS).map(move |_| {
        tick += rng.below(100_000);
        Made {
            tick,
            volume: rng.below(volumes),
            writes: rng.below(3) > 0,
            offset: rng.below(1 << 27) * 512,
            length: 4096 << rng.below(5),
        }
    })
}

fn msr(volumes: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for Made { tick, volume, writes, offset, length } in made(volumes) {
        let kind = if writes { "Write" } else { "Read" };
        let response = 1000 + offset % 90_000;
        writeln!(text, "{tick},usr,{volume},{kind},{offset},{length},{response}")
            .expect("memory takes all");
    }
    text
}

fn alibaba(volumes: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for Made { tick, volume, writes, offset, length } in made(volumes) {
        let kind = if writes { 'W' } else { 'R' };
        writeln!(text, "{volume},{kind},{offset},{length},{}", tick / 10)
            .expect("memory takes all");
    }
    text
}

fn vscsi() -> Vec<u8> {
    let mut records = Vec::new();
    for (serial, Made { tick, writes, offset, length, .. }) in made(1).enumerate() {
        let opcode: u16 = if writes { 0x2a } else { 0x28 };
        records.extend((serial as u32).to_le_bytes());
        records.extend((length as u32).to_le_bytes());
        records.extend(1u32.to_le_bytes());
        records.extend(opcode.to_le_bytes());
        records.extend(0x0100u16.to_le_bytes());
        records.extend((offset / 512).to_le_bytes());
        records.extend((tick / 10).to_le_bytes());
    }
    records
}

fn oracle_general() -> Vec<u8> {
    let mut records = Vec::new();
    for Made { tick, offset, length, .. } in made(1) {
        let seconds = (tick - 128_166_372_000_000_000) / 10_000_000;
        records.extend((seconds as u32).to_le_bytes());
        records.extend((offset / 512).to_le_bytes());
        records.extend((length as u32).to_le_bytes());
        records.extend((-1i64).to_le_bytes());
    }
    records
}

/// The requests of the MSR trace of many volumes, as `writer` spells them.
fn rewrite(mut writer: impl TraceWriter) -> Result<(), TraceError> {
    let mut reader = open(Box::new(Cursor::new(msr(1000))), "msr", &ReadOptions::default())?;
    let mut batch = Batch::default();
    loop {
        reader.read_batch(&mut batch)?;
        if batch.requests.is_empty() {
            return writer.finish();
        }
        writer.write_batch(&batch, reader.volumes())?;
    }
}

fn csv() -> Result<Vec<u8>, TraceError> {
    let mut text = Vec::new();
    rewrite(CsvWriter::new(&mut text, "csv", HashColumn::Without))?;
    Ok(text)
}

fn native() -> Result<Vec<u8>, TraceError> {
    let mut file = Vec::new();
    rewrite(ParquetWriter::new(&mut file, NATIVE, ParquetSettings::default()))?;
    Ok(file)
}
