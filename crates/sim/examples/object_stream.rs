//! Writes the requests of a trace as an oracleGeneral file of unit-size objects, the stream that
//! this laboratory and libCacheSim both read: `object_stream TRACE OUT`.
//!
//! An object is named by volume and offset, as `lab cache --objects` does, and numbered from 1 in
//! order of first sight. A record is 24 bytes, little-endian: time in seconds (u32), object (u64),
//! size 1 (u32), position of the next request for the object counted from 1, or −1 (i64). Prints
//! one line of JSON: requests, distinct objects, and discards, which the file leaves out.

#![allow(clippy::print_stdout)] // A program for a terminal.

use std::fs::File;
use std::io::{BufWriter, Write};
use thermocline_sim::source::{Source, open_all};
use thermocline_sim::workload::{Cut, Unit, Workload};
use thermocline_trace::ReadOptions;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [trace, out] = arguments.as_slice() else {
        return Err("usage: object_stream TRACE OUT".into());
    };
    let source: Source = trace.parse()?;
    let mut reader = open_all(&[source], &ReadOptions::default())?;
    let cut = Cut { unit: Unit::Objects, chunk: None };
    let workload = Workload::read(&mut *reader, cut, &|_| {})?;
    let accesses = accesses(&workload);
    let distinct = workload.names.distinct_lines();
    write(&accesses, distinct, out)?;
    println!(
        "{{\"requests\": {}, \"distinct\": {}, \"discards\": {}}}",
        accesses.len(),
        distinct,
        workload.heads() - accesses.len() as u64
    );
    Ok(())
}

/// Time in seconds and object of every read and write.
fn accesses(workload: &Workload) -> Vec<(u32, u32)> {
    let mut accesses = Vec::with_capacity(workload.heads() as usize);
    for block in &workload.blocks {
        for (i, head) in block.heads.iter().enumerate().filter(|(_, head)| !head.discard) {
            let object = block.lines.ids[block.lines.of(i).start];
            accesses.push((head.time.as_secs_f64() as u32, object.0));
        }
    }
    accesses
}

fn write(accesses: &[(u32, u32)], distinct: u32, path: &str) -> Result<(), Failure> {
    let mut next_of = vec![-1_i64; distinct as usize];
    let mut next = vec![-1_i64; accesses.len()];
    for (i, (_, object)) in accesses.iter().enumerate().rev() {
        next[i] = std::mem::replace(&mut next_of[*object as usize], i as i64 + 1);
    }
    let file = File::create(path).map_err(|error| format!("{path}: {error}"))?;
    let mut out = BufWriter::new(file);
    for ((seconds, object), next) in accesses.iter().zip(next) {
        out.write_all(&seconds.to_le_bytes())?;
        out.write_all(&(u64::from(*object) + 1).to_le_bytes())?;
        out.write_all(&1_u32.to_le_bytes())?;
        out.write_all(&next.to_le_bytes())?;
    }
    out.flush()?;
    Ok(())
}
