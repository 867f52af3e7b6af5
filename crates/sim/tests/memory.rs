//! A reader's memory does not grow with its trace: every format, from a pipe, eight times as long.
//!
//! A program of its own, without the test harness: for each format it starts itself twice, as a
//! reader of what it writes into the reader's standard input. The reader says what memory it had at
//! most (`VmHWM`). Nothing is allocated by anybody else in it.

#![allow(clippy::print_stdout, clippy::print_stderr)] // It is a program.

use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};
use thermocline_sim::source::Source;
use thermocline_trace::native::{ParquetSettings, ParquetWriter};
use thermocline_trace::recording::{Ask, Asked, Encoder, Packer};
use thermocline_trace::{Batch, Format, Op, ReadOptions, Request, TraceWriter};
use thermocline_units::{Bytes, Nanos, VolumeId};

/// Tells the reader which format it reads.
const FORMAT: &str = "THERMOCLINE_TEST_FORMAT";
/// Requests of the short trace: more than a reader holds to put late ones in order.
const SHORT: u64 = 100_000;
/// Requests of the long trace.
const LONG: u64 = 8 * SHORT;
/// Memory that the long trace may take more, in KiB: allocators and the kernel round up.
const MORE_MAX_KIB: u64 = 1024;

fn main() {
    if let Ok(format) = std::env::var(FORMAT) {
        return read(&format);
    }
    if most_memory().is_none() {
        println!("SKIPPED: this system does not say what memory a process had at most");
        return;
    }
    let mut grown = Vec::new();
    for format in Format::all() {
        let [short, long] = [SHORT, LONG].map(|requests| memory_of(format, requests));
        println!("{format}: {short} KiB for {SHORT} requests, {long} KiB for {LONG}");
        if long > short + MORE_MAX_KIB {
            grown.push(format.to_string());
        }
    }
    assert!(grown.is_empty(), "memory grows with the trace: {grown:?}");
}

/// The reader: says how many requests it read, and what memory it had at most.
fn read(format: &str) {
    let options = ReadOptions {
        format: Some(format.parse().expect("a name of a format")),
        columns: (format == "csv").then(|| "time=0,op=1,offset=2,size=3".parse().expect("a map")),
        ..ReadOptions::default()
    };
    let mut reader = Source::Stdin.open(&options).expect("the trace is sound");
    let (mut batch, mut requests) = (Batch::default(), 0);
    loop {
        reader.read_batch(&mut batch).expect("the trace is sound");
        if batch.requests.is_empty() {
            break;
        }
        requests += batch.requests.len() as u64;
    }
    println!("{requests} {}", most_memory().expect("it was there before"));
}

/// Memory that this process had at most, in KiB.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Memory that a reader of so many requests has at most, in KiB.
fn memory_of(format: Format, requests: u64) -> u64 {
    let program = std::env::current_exe().expect("this program is a file");
    let mut command = Command::new(program);
    command.env(FORMAT, format.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("this program runs");
    let mut pipe = BufWriter::new(child.stdin.take().expect("a pipe"));
    write_trace(format, requests, &mut pipe);
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(output.stdout).expect("two numbers");
    let numbers: Vec<u64> = said.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    let [read, memory] = numbers[..] else { panic!("{format}: the reader failed") };
    assert_eq!(read, requests, "{format}: every request is read");
    memory
}

/// Writes a trace of so many requests of 4 KiB, 10 ms apart.
fn write_trace(format: Format, requests: u64, out: &mut impl Write) {
    match format {
        Format::Parquet => return write_parquet(requests, out),
        Format::Recording => return write_recording(requests, out),
        _ => {}
    }
    let head: &[u8] = match format {
        Format::Systor17 => b"Timestamp,Response,IOType,LUN,Offset,Size\n",
        Format::FioIolog => b"fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n",
        _ => b"",
    };
    out.write_all(head).expect("the reader reads");
    for number in 0..requests {
        let line = request_line(format, number);
        out.write_all(&line).expect("the reader reads");
    }
}

/// Request `number`, as a text format or a binary one has it.
fn request_line(format: Format, number: u64) -> Vec<u8> {
    let block = number * 7919 % 1_000_000;
    let (sector, byte) = (block * 8, block * 4096);
    let (ms, us) = (number * 10, number * 10_000);
    let text = match format {
        Format::Msr => format!("{},hm,0,Read,{byte},4096,88\n", 128_166_372_003_061_629 + us * 10),
        Format::Spc => format!("0,{sector},4096,W,{}.{:03}\n", ms / 1000, ms % 1000),
        Format::Systor17 => {
            format!("{}.{:03},0.0001,W,4,{byte},4096\n", 1_455_592_201 + ms / 1000, ms % 1000)
        }
        Format::Alibaba => format!("419,W,{byte},4096,{}\n", 1_577_808_144_360_767 + us),
        Format::Tencent => format!("{},{sector},8,1,1058\n", 1_538_323_201 + ms / 1000),
        Format::Fiu => format!(
            "{} 4270 rpc.mountd {sector} 8 W 6 0 {:032x}\n",
            89_966_522_969_723 + us * 1000,
            u128::from(block) << 64 | 7
        ),
        Format::Blkparse => format!(
            "8,0 1 {} {}.{:03}000000 1234 Q WS {sector} + 8 [proc]\n",
            number + 1,
            ms / 1000,
            ms % 1000
        ),
        Format::FioIolog => format!("{us} /dev/sdb write {byte} 4096\n"),
        Format::Arc => format!("{sector} 8 0 {number}\n"),
        Format::Capture => format!("{},W,{byte},4096,{block:016x}\n", us * 1000),
        Format::Csv => format!("{ms},R,{byte},4096\n"),
        Format::Vscsi => return vscsi(us, sector),
        Format::OracleGeneral => return oracle_general(ms / 1000, block),
        Format::Parquet | Format::Recording => unreachable!("written by their own writers"),
    };
    text.into_bytes()
}

/// A record of version 1: serial, length, segments, opcode and version, block, time in µs.
fn vscsi(us: u64, sector: u64) -> Vec<u8> {
    let mut record = Vec::with_capacity(32);
    for field in [0_u32, 4096, 1, 0x0100_0028] {
        record.extend(field.to_le_bytes());
    }
    record.extend(sector.to_le_bytes());
    record.extend((us + 1).to_le_bytes());
    record
}

/// Time in seconds, object, size, next access.
fn oracle_general(seconds: u64, object: u64) -> Vec<u8> {
    let mut record = (seconds as u32).to_le_bytes().to_vec();
    record.extend(object.to_le_bytes());
    record.extend(4096_u32.to_le_bytes());
    record.extend((-1_i64).to_le_bytes());
    record
}

fn write_parquet(requests: u64, out: &mut impl Write) {
    let mut file = Vec::new();
    let mut writer = ParquetWriter::new(&mut file, "t", ParquetSettings::default());
    let mut batch = Batch::default();
    for number in 0..requests {
        batch.requests.push(Request {
            time: Nanos(number * 10_000_000),
            volume: VolumeId(0),
            op: Op::Read,
            offset: Bytes(number * 7919 % 1_000_000 * 4096),
            length: Bytes(4096),
            response: None,
            hashes: Default::default(),
        });
        if batch.requests.len() == Batch::CAPACITY || number + 1 == requests {
            writer.write_batch(&batch, &["v0".to_string()]).expect("memory takes it");
            batch.requests.clear();
        }
    }
    writer.finish().expect("memory takes it");
    drop(writer);
    out.write_all(&file).expect("the reader reads");
}

fn write_recording(requests: u64, out: &mut impl Write) {
    let (mut encoder, mut packer) = (Encoder::new(Bytes::from_mib(1), &[]), Packer::default());
    out.write_all(&packer.head()).expect("the reader reads");
    let mut hand_over = |encoder: &mut Encoder| {
        while let Some(block) = encoder.take_block() {
            out.write_all(&packer.pack(&block)).expect("the reader reads");
        }
    };
    for number in 0..requests {
        let asked = encoder.asked(&Asked {
            at: Nanos(number * 10_000_000),
            volume: VolumeId(0),
            ask: Ask::Read,
            offset: Bytes(number * 7919 % 100_000 * 4096),
            length: Bytes(4096),
            forced: false,
        });
        encoder.answered(asked, Nanos(1000), true);
        hand_over(&mut encoder);
    }
    encoder.end();
    hand_over(&mut encoder);
}
