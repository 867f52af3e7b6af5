//! Our output in the programs it is written for: fio replays our I/O logs; pandas, polars and
//! DuckDB open our Parquet, and we read theirs.
//!
//! fio comes from the package of that name. A Python that imports the three is named by
//! `THERMOCLINE_PARQUET_PYTHON`. What is not here is SKIPPED, loudly.

use crate::program::{folder, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use thermocline_units::Rng;

/// Names a Python that imports pandas (with pyarrow), polars and duckdb.
const PYTHON: &str = "THERMOCLINE_PARQUET_PYTHON";
/// Script that opens a trace with the three, and writes it again.
const SCRIPT: &str = include_str!("interop.py");
/// A byte that fio writes and that a new file does not hold.
const WRITTEN: u8 = 0xab;
/// Bytes of each volume.
const VOLUME_BYTES: u64 = 1 << 20;
const VOLUMES: [&str; 2] = ["web.0", "mail"];

struct Request {
    time_ns: u64,
    volume: &'static str,
    op: &'static str,
    offset: u64,
    length: u64,
    response_ns: Option<u64>,
}

/// Reads, writes and flushes at odd places, a few µs apart, a third of them with response times.
fn requests() -> Vec<Request> {
    let mut rng = Rng::seeded(5);
    let mut time_ns = 0;
    let mut request = |i: u64| {
        time_ns += if i == 0 { 0 } else { 1000 * rng.below(9) };
        let volume = VOLUMES[rng.below(2) as usize];
        let op = ["read", "write", "flush"][rng.below(21) as usize / 10];
        let length = if op == "flush" { 0 } else { 512 * (1 + rng.below(40)) };
        let offset = if op == "flush" { 0 } else { 512 * rng.below((VOLUME_BYTES - length) / 512) };
        let response_ns = (rng.below(3) == 0).then(|| 1 + rng.below(1 << 40));
        Request { time_ns, volume, op, offset, length, response_ns }
    };
    (0..1000).map(&mut request).collect()
}

/// The requests as our CSV.
fn csv(requests: &[Request]) -> String {
    let mut text = String::from("time_ns,volume,op,offset_bytes,length_bytes,response_ns\n");
    for Request { time_ns, volume, op, offset, length, response_ns } in requests {
        let response = response_ns.map(|ns| ns.to_string()).unwrap_or_default();
        text.push_str(&format!("{time_ns},{volume},{op},{offset},{length},{response}\n"));
    }
    text
}

#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn skipped(why: &str) {
    println!("SKIPPED: {why}");
}

#[test]
fn fio_does_every_request_of_our_io_log_where_it_belongs() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("no fio; install the package fio");
    }
    let folder = folder("interop-fio");
    let requests = requests();
    std::fs::write(folder.join("in.csv"), csv(&requests)).unwrap();
    run(&folder, "trace convert in.csv -o replay.fio").succeeded();
    for volume in VOLUMES {
        std::fs::write(folder.join(volume), vec![0; VOLUME_BYTES as usize]).unwrap();
    }
    let fio = Command::new("fio")
        .args(["--name=replay", "--read_iolog=replay.fio", "--ioengine=psync"])
        .args(["--replay_no_stall=1", "--output-format=json", "--output=out.json"])
        .arg(format!("--buffer_pattern=0x{WRITTEN:x}"))
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(fio.status.success(), "{}", String::from_utf8_lossy(&fio.stderr));
    let report = std::fs::read_to_string(folder.join("out.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let job = &report["jobs"][0];
    for (op, name) in [("read", "read"), ("write", "write"), ("flush", "sync")] {
        let done = || requests.iter().filter(|request| request.op == op);
        assert_eq!(job[name]["total_ios"], done().count(), "{op}");
        if op != "flush" {
            assert_eq!(job[name]["io_bytes"], done().map(|request| request.length).sum::<u64>());
        }
    }
    for volume in VOLUMES {
        let mut wanted = vec![0; VOLUME_BYTES as usize];
        for request in requests.iter().filter(|r| r.volume == volume && r.op == "write") {
            wanted[request.offset as usize..][..request.length as usize].fill(WRITTEN);
        }
        assert!(std::fs::read(folder.join(volume)).unwrap() == wanted, "what {volume} holds");
    }
}

/// The named Python, if there is one.
fn python() -> Option<PathBuf> {
    std::env::var_os(PYTHON).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// Runs [`SCRIPT`] in `folder`: what it printed.
fn open_elsewhere(python: &Path, folder: &Path) -> String {
    let done = Command::new(python).args(["-c", SCRIPT]).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{PYTHON}={}: {said}", python.display());
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn pandas_polars_and_duckdb_read_what_we_wrote_and_we_read_theirs() {
    let Some(python) = python() else {
        return skipped(
            "set THERMOCLINE_PARQUET_PYTHON to a Python with pandas, polars and duckdb",
        );
    };
    let folder = folder("interop-parquet");
    let requests = requests();
    std::fs::write(folder.join("in.csv"), csv(&requests)).unwrap();
    run(&folder, "trace convert in.csv -o trace.parquet").succeeded();
    let sum = |of: fn(&Request) -> u64| requests.iter().map(of).sum::<u64>();
    let known = requests.iter().filter(|request| request.response_ns.is_some()).count();
    let sums = [
        sum(|request| request.time_ns),
        sum(|request| request.offset),
        sum(|request| request.length),
        sum(|request| request.response_ns.unwrap_or(0)),
    ];
    let sums = sums.map(|sum| sum.to_string()).join(" ");
    let told = format!("{} {sums} {} {known}", requests.len(), VOLUMES.len());
    let libraries = ["pandas", "polars", "duckdb"];
    let wanted: String = libraries.iter().map(|name| format!("{name} {told}\n")).collect();
    assert_eq!(open_elsewhere(&python, &folder), wanted);
    for library in libraries {
        run(&folder, &format!("trace convert {library}.parquet -o {library}.csv")).succeeded();
        let again = std::fs::read_to_string(folder.join(format!("{library}.csv"))).unwrap();
        assert!(again == csv(&requests), "{library}.csv is not in.csv");
    }
}
