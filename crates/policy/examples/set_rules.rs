//! Share of the read bytes that a block cache of 16 slots a set would serve, by the rules there
//! are: `thermocline trace convert TRACE -o t.csv; set_rules PERCENT… < t.csv`.
//!
//! Sizes are percents of the distinct lines of 4 KiB, 256 lines at least. As the block cache does
//! it: requests of 64 KiB and more go around where their lines are not cached, a line is kept when
//! it is read or written whole, a discard drops it. Nothing is dirty here, so no line is kept
//! because the slow device lacks it. Volumes lie one behind the other.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::BufRead;
use std::ops::Range;
use thermocline_policy::cache::{SetRule, Sets};

const LINE: u64 = 4096;
const AROUND_FROM: u64 = 64 << 10;
const WAYS: u32 = 16;
const SLOTS_MIN: u32 = 256;

#[derive(PartialEq)]
enum Op {
    Read,
    Write,
    Discard,
}

struct Request {
    op: Op,
    volume: u64,
    bytes: Range<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let percents: Vec<f64> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let requests = read()?;
    let ends = requests.iter().map(|request| request.bytes.end.div_ceil(LINE));
    let span = ends.max().ok_or("there is no request on standard input")?;
    let last = requests.iter().map(|request| request.volume).max().unwrap_or(0);
    if (last + 1).checked_mul(span).is_none_or(|lines| lines >= u64::from(u32::MAX)) {
        return Err("more than 2^32 lines; choose one volume with `trace convert --volume`".into());
    }
    let accessed = requests.iter().filter(|request| request.op != Op::Discard);
    let distinct: BTreeSet<u64> = accessed.flat_map(|request| lines(request, span)).collect();
    println!("{} requests, {} distinct lines", requests.len(), distinct.len());
    for percent in percents {
        let slots = ((distinct.len() as f64 * percent / 100.0) as u32).max(SLOTS_MIN);
        print!("{percent} % ({slots} lines):");
        for rule in SetRule::ALL {
            let served = replay(&requests, span, &mut Sets::new(slots, WAYS, rule));
            print!("  {} {:.2} %", rule.name(), served * 100.0);
        }
        println!();
    }
    Ok(())
}

/// Reads and writes and discards of our CSV.
fn read() -> Result<Vec<Request>, Box<dyn Error>> {
    let mut rows = std::io::stdin().lock().lines();
    let head = rows.next().ok_or("standard input is empty")??;
    let column = |name: &str| {
        let found = head.split(',').position(|column| column == name);
        found.ok_or_else(|| format!("no column `{name}`; make the CSV with `trace convert`"))
    };
    let places = ["op", "volume", "offset_bytes", "length_bytes"].map(column);
    let [op, volume, offset, length] = places;
    let (op, volume, offset, length) = (op?, volume?, offset?, length?);
    let (mut volumes, mut requests) = (BTreeMap::new(), Vec::new());
    for row in rows {
        let row = row?;
        let cells: Vec<&str> = row.split(',').collect();
        let cell = |at: usize| cells.get(at).copied().ok_or("a row is too short");
        let op = match cell(op)? {
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Discard,
            _ => continue,
        };
        let next = volumes.len() as u64;
        let volume = *volumes.entry(cell(volume)?.to_string()).or_insert(next);
        let (start, length): (u64, u64) = (cell(offset)?.parse()?, cell(length)?.parse()?);
        let end = start.checked_add(length).ok_or("a request ends beyond 2^64")?;
        requests.push(Request { op, volume, bytes: start..end });
    }
    Ok(requests)
}

/// The lines that a request touches, numbered through all volumes.
fn lines(request: &Request, span: u64) -> Range<u64> {
    let first = request.volume * span;
    let Range { start, end } = request.bytes;
    first + start / LINE..first + end.div_ceil(LINE).max(start / LINE)
}

/// Share of the bytes read that the cache serves, of those that do not go around it.
fn replay(requests: &[Request], span: u64, sets: &mut Sets) -> f64 {
    let (mut served, mut asked) = (0, 0);
    for request in requests {
        let around = request.bytes.end - request.bytes.start >= AROUND_FROM;
        let mut missed = Vec::new();
        for line in lines(request, span) {
            let start = (line - request.volume * span) * LINE;
            let part = start.max(request.bytes.start)..(start + LINE).min(request.bytes.end);
            let (part, line) = (part.end - part.start, line as u32);
            let slot = sets.find(line);
            match (&request.op, slot) {
                (Op::Discard, Some(slot)) if part == LINE => sets.remove(slot),
                (Op::Discard, _) => {}
                (op, Some(slot)) => {
                    sets.hit(slot);
                    served += if *op == Op::Read { part } else { 0 };
                    asked += if *op == Op::Read { part } else { 0 };
                }
                (Op::Read, None) if !around => {
                    asked += part;
                    missed.push(line);
                }
                (Op::Write, None) if !around && part == LINE => {
                    _ = sets.place(line, |_, _| true);
                }
                _ => {}
            }
        }
        for line in missed {
            _ = sets.place(line, |_, _| true);
        }
    }
    served as f64 / f64::max(asked as f64, 1.0)
}
