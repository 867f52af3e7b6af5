//! Writers: what is written comes back, and what a format cannot hold is refused.

use super::{CsvWriter, FioWriter, HashColumn, MsrWriter};
use crate::fixture::{Recorded, read_at};
use crate::{Batch, ContentHash, Op, ReadOptions, Request, TraceReader, TraceWriter, open};
use expect_test::{Expect, expect};
use thermocline_units::{Bytes, Nanos, VolumeId};

fn trace() -> Recorded {
    let request = |time, volume, op, offset, length| Request {
        volume: VolumeId(volume),
        op,
        length: Bytes(length),
        ..read_at(time, offset)
    };
    let mut trace = Recorded::new(
        &[
            request(0, 0, Op::Read, 0, 4096),
            request(1_500, 1, Op::Write, 512, 8192),
            request(2_000_000, 1, Op::Flush, 0, 0),
            request(2_000_100, 2, Op::Trim, 1 << 40, 65536),
            request(3_000_000_000, 0, Op::Read, 4096, 1),
        ],
        &["usr.1", "web server/a,b", "usr.1"],
    );
    trace.requests[1].0.response = Some(Nanos(123_456));
    trace.requests[1].1 = vec![ContentHash([0x0f; 16]), ContentHash([0xa0; 16])];
    trace
}

/// Everything in `trace`, through the writer.
fn write(mut trace: Recorded, writer: &mut dyn TraceWriter) {
    let mut batch = Batch::default();
    loop {
        trace.read_batch(&mut batch).unwrap();
        if batch.requests.is_empty() {
            return writer.finish().unwrap();
        }
        writer.write_batch(&batch, trace.volumes()).unwrap();
    }
}

fn check(text: Vec<u8>, expected: Expect) {
    expected.assert_eq(&String::from_utf8(text).unwrap());
}

fn read_again(text: Vec<u8>) -> Recorded {
    let input = Box::new(std::io::Cursor::new(text));
    Recorded::of(&mut *open(input, "again", &ReadOptions::default()).unwrap()).unwrap()
}

#[test]
fn generic_csv_holds_every_column() {
    let mut text = Vec::new();
    write(trace(), &mut CsvWriter::new(&mut text, "t", HashColumn::With));
    check(
        text,
        expect![[r#"
        time_ns,volume,op,offset_bytes,length_bytes,response_ns,hashes
        0,usr.1,read,0,4096,,
        1500,"web server/a,b",write,512,8192,123456,0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f;a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0
        2000000,"web server/a,b",flush,0,0,,
        2000100,usr.1,trim,1099511627776,65536,,
        3000000000,usr.1,read,4096,1,,
    "#]],
    );
}

#[test]
fn msr_csv_counts_what_it_cannot_hold() {
    let mut text = Vec::new();
    let mut writer = MsrWriter::new(&mut text, "t");
    write(trace(), &mut writer);
    assert_eq!(writer.losses(), ["1 flush", "1 trim", "2 content hashes"]);
    check(
        text,
        expect![[r#"
        0,usr,1,Read,0,4096,0
        15,web server/a_b,0,Write,512,8192,1234
        30000000,usr,1,Read,4096,1,0
    "#]],
    );
}

#[test]
fn fio_logs_add_and_close_every_file() {
    let mut text = Vec::new();
    write(trace(), &mut FioWriter::new(&mut text, "t"));
    check(
        text,
        expect![[r#"
        fio version 3 iolog
        1 usr.1 add
        1 usr.1 open
        1 web_server_a_b add
        1 web_server_a_b open
        1 usr.1+ add
        1 usr.1+ open
        1 usr.1 read 0 4096
        2 web_server_a_b write 512 8192
        2001 web_server_a_b sync 0 0
        2001 usr.1+ trim 1099511627776 65536
        3000001 usr.1 read 4096 1
        3000001 usr.1 close
        3000001 web_server_a_b close
        3000001 usr.1+ close
    "#]],
    );
}

#[test]
fn generic_csv_is_recognised_and_read_as_it_was() {
    let mut plain = trace();
    plain.volumes[2] = "third".to_string();
    plain.requests[1].1.clear();
    let mut text = Vec::new();
    write(plain.clone(), &mut CsvWriter::new(&mut text, "t", HashColumn::Without));
    let again = read_again(text);
    assert_eq!(again.requests, plain.requests);
    assert_eq!(again.volumes, plain.volumes);
}

#[test]
fn msr_csv_is_read_as_it_was_to_the_tick() {
    let mut text = Vec::new();
    write(trace(), &mut MsrWriter::new(&mut text, "t"));
    let again = read_again(text);
    assert_eq!(again.times(), [0, 1_500, 3_000_000_000]);
    assert_eq!(again.requests[1].0.response, Some(Nanos(123_400)));
    assert_eq!(again.volumes, ["usr.1", "web server/a_b.0"]);
}

#[test]
fn fio_logs_are_read_as_they_were_to_the_microsecond() {
    let mut text = Vec::new();
    write(trace(), &mut FioWriter::new(&mut text, "t"));
    let again = read_again(text);
    assert_eq!(again.times(), [0, 1_000, 2_000_000, 2_000_000, 3_000_000_000]);
    let kept = |recorded: &Recorded| {
        let part = |(request, _): &(Request, _)| (request.op, request.offset, request.length);
        recorded.requests.iter().map(part).collect::<Vec<_>>()
    };
    assert_eq!(kept(&again), kept(&trace()));
    assert_eq!(again.volumes, ["usr.1", "web_server_a_b", "usr.1+"]);
}
