//! The native format gives back what it was given, and survives every damage without a panic.

use super::{ParquetReader, ParquetSettings, ParquetWriter, open_parquet};
use crate::{Batch, ContentHash, Op, Request, TraceError, TraceReader, TraceWriter};
use parquet::basic::{ConvertedType as Converted, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::sync::Arc;
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};

/// Contents of a trace, apart from how it is cut into batches.
#[derive(Debug, PartialEq, Eq, Default)]
struct Held {
    requests: Vec<Request>,
    hashes: Vec<Vec<ContentHash>>,
    volumes: Vec<String>,
}

fn written(held: &Held, settings: ParquetSettings) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ParquetWriter::new(&mut file, "t", settings);
    for at in (0..held.requests.len()).step_by(Batch::CAPACITY) {
        let end = (at + Batch::CAPACITY).min(held.requests.len());
        let mut batch = Batch::default();
        for index in at..end {
            let hashes = batch.push_hashes(&held.hashes[index]);
            batch.requests.push(Request { hashes, ..held.requests[index] });
        }
        writer.write_batch(&batch, &held.volumes).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    file
}

fn read(file: &[u8]) -> Result<Held, TraceError> {
    let mut reader = open_parquet(bytes::Bytes::copy_from_slice(file), "t.parquet")?;
    let mut held = Held::default();
    let mut batch = Batch::default();
    loop {
        reader.read_batch(&mut batch)?;
        if batch.requests.is_empty() {
            held.volumes = reader.volumes().to_vec();
            return Ok(held);
        }
        for request in &batch.requests {
            held.hashes.push(batch.hashes_of(request).to_vec());
            held.requests.push(Request { hashes: Default::default(), ..*request });
        }
    }
}

/// `count` requests of every kind, with responses and hashes here and there.
fn mixture(count: u64, with_hashes: bool) -> Held {
    let mut rng = Rng::seeded(count);
    let mut held =
        Held { volumes: vec!["web".into(), "db 2".into(), "ü".into()], ..Held::default() };
    let mut time = 0;
    for index in 0..count {
        time += rng.below(1_000_000) * rng.below(3);
        let op = [Op::Read, Op::Write, Op::Flush, Op::Trim][rng.below(4) as usize];
        // The first requests name the volumes in order, as every reader does.
        let volume = if index < 3 { index } else { rng.below(3) } as u32;
        let flush = op == Op::Flush;
        held.requests.push(Request {
            time: Nanos(time),
            volume: VolumeId(volume),
            op,
            offset: Bytes(if flush { 0 } else { rng.below(1 << 50) }),
            length: Bytes(if flush { 0 } else { 1 + rng.below(1 << 20) }),
            response: (rng.below(2) == 0).then(|| Nanos(rng.below(1 << 30))),
            hashes: Default::default(),
        });
        let hashes = if with_hashes && op == Op::Write { rng.below(4) } else { 0 };
        held.hashes.push((0..hashes).map(|_| ContentHash([rng.below(256) as u8; 16])).collect());
    }
    held
}

fn problem_of(file: &[u8]) -> String {
    read(file).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read() {
    for (count, with_hashes) in [(0, false), (1, false), (1000, true), (5000, false), (9000, true)]
    {
        let held = mixture(count, with_hashes);
        let again = read(&written(&held, ParquetSettings::default())).unwrap();
        assert_eq!(again.requests, held.requests, "{count}");
        assert_eq!(again.hashes, held.hashes, "{count}");
        assert!(held.volumes.starts_with(&again.volumes));
    }
}

#[test]
fn traces_of_several_row_groups_are_read_whole() {
    let held = mixture(super::writer::ROW_GROUP_ROWS as u64 + 4097, true);
    assert!(read(&written(&held, ParquetSettings::default())).unwrap() == held);
}

#[test]
fn the_extremes_of_every_number_survive() {
    let top = i64::MAX as u64;
    let request = |time, offset, length, response| Request {
        time: Nanos(time),
        volume: VolumeId(0),
        op: Op::Write,
        offset: Bytes(offset),
        length: Bytes(length),
        response,
        hashes: Default::default(),
    };
    let requests = vec![
        request(0, 0, 1, Some(Nanos(0))),
        request(0, top - 1, 1, None),
        request(top, 0, top, Some(Nanos(top))),
    ];
    let held = Held { requests, hashes: vec![vec![]; 3], volumes: vec!["v".into()] };
    assert_eq!(read(&written(&held, ParquetSettings::default())).unwrap(), held);
}

#[test]
fn requests_the_format_cannot_hold_are_refused_by_the_writer() {
    let mut held = mixture(3, false);
    let refused = |held: &Held| {
        let mut writer = ParquetWriter::new(Vec::new(), "out", ParquetSettings::default());
        let batch = Batch { requests: held.requests.clone(), hashes: Vec::new() };
        writer.write_batch(&batch, &held.volumes).unwrap_err().to_string()
    };
    held.requests[1].offset = Bytes(u64::MAX - 5);
    assert!(refused(&held).contains("request 2 cannot be written: it ends beyond 8 EiB"));
    held.requests[1].offset = Bytes(0);
    held.requests[0].time = Nanos(1 << 40);
    assert!(refused(&held).contains("time runs backwards"), "{}", refused(&held));
}

#[test]
fn the_file_says_how_it_was_made() {
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    let about = vec![pair("thermocline.source", "web.csv"), pair("pandas", "{}")];
    let file = written(&mixture(10, false), ParquetSettings { about, hashes: None });
    let reader = ParquetReader::new(bytes::Bytes::from(file), "t").unwrap();
    assert_eq!(reader.request_count(), 10);
    assert_eq!(reader.about(), [pair("thermocline.source", "web.csv")]);
}

#[test]
fn hashes_are_kept_or_left_out_as_asked() {
    let held = mixture(100, true);
    let file = written(&held, ParquetSettings { hashes: Some(false), ..Default::default() });
    assert!(read(&file).unwrap().hashes.iter().all(Vec::is_empty));
    let none = mixture(100, false);
    let file = written(&none, ParquetSettings { hashes: Some(true), ..Default::default() });
    assert_eq!(read(&file).unwrap().hashes, none.hashes);
}

/// A batch took the hashes of 256 rows, however many each had: a run of one level in a page makes
/// millions of a few bytes.
#[test]
fn rows_with_many_hashes_make_smaller_batches_and_one_with_too_many_is_refused() {
    let most = Batch::HASHES_MAX;
    let mut held = mixture(20, false);
    for (index, hashes) in held.hashes.iter_mut().enumerate() {
        *hashes = vec![ContentHash([index as u8; 16]); most / 4 + index];
    }
    let file = bytes::Bytes::from(written(&held, ParquetSettings::default()));
    let (mut reader, mut batch) = (open_parquet(file.clone(), "t").unwrap(), Batch::default());
    reader.read_batch(&mut batch).unwrap();
    assert_eq!(batch.requests.len(), 4, "the fourth row fills it");
    assert!(read(&file).unwrap() == held);

    held.hashes[7] = vec![ContentHash([1; 16]); most + 1];
    let problem = problem_of(&written(&held, ParquetSettings::default()));
    assert!(problem.contains("a row of more than 262144 elements"), "{problem}");
}

#[test]
fn a_later_layout_is_refused_by_its_number() {
    let file = written(&mixture(5, false), ParquetSettings::default());
    let key = super::schema::VERSION_KEY.as_bytes();
    let at = file.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    let mut later = file.clone();
    let digit = (at..at + 8).find(|i| later[*i] == b'1').unwrap();
    later[digit] = b'9';
    assert!(problem_of(&later).contains("layout version 9"), "{}", problem_of(&later));
}

#[test]
fn a_damaged_byte_is_an_error_or_another_value_but_never_a_panic() {
    let file = written(&mixture(200, true), ParquetSettings::default());
    let mut refused = 0;
    for at in 0..file.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[at] ^= flip;
            match read(&damaged) {
                Err(error) => {
                    assert!(error.to_string().starts_with("t.parquet"), "{error}");
                    refused += 1;
                }
                Ok(held) => assert!(held.requests.len() <= 200, "byte {at}"),
            }
        }
    }
    // Statistics, names and values can change without contradiction; most of the file cannot.
    assert!(refused > file.len(), "{refused} of {} refused", 3 * file.len());
}

#[test]
fn a_file_cut_off_anywhere_is_an_error() {
    let file = written(&mixture(200, true), ParquetSettings::default());
    for length in 0..file.len() {
        let problem = problem_of(&file[..length]);
        assert!(problem.starts_with("t.parquet"), "{problem}");
    }
}

#[test]
fn requests_of_zero_bytes_are_left_out_and_counted() {
    let mut held = mixture(10, true);
    for index in [2, 7] {
        (held.requests[index].op, held.requests[index].length) = (Op::Read, Bytes(0));
    }
    let file = bytes::Bytes::from(written(&held, ParquetSettings::default()));
    let (mut reader, mut batch) = (open_parquet(file, "t").unwrap(), Batch::default());
    reader.read_batch(&mut batch).unwrap();
    assert_eq!(batch.requests.len(), 8);
    assert_eq!(batch.hashes_of(&batch.requests[6]), held.hashes[8]);
    let repairs = reader.repairs();
    assert!(repairs[0].contains("2 requests were of zero bytes"), "{repairs:?}");
    assert!(repairs[0].contains("row 3"), "{repairs:?}");
}

/// A trace of two requests, 7 of whatever unit apart, written as a program does that gives a
/// column's type the older way only.
fn with_converted(time: Converted, length: Converted) -> Vec<u8> {
    let integer = |name, converted| {
        let physical = match converted {
            Converted::UINT_32 | Converted::INT_32 => Physical::INT32,
            _ => Physical::INT64,
        };
        let column = Type::primitive_type_builder(name, physical);
        let column = column.with_repetition(Repetition::REQUIRED).with_converted_type(converted);
        Arc::new(column.with_precision(9).with_scale(2).build().unwrap())
    };
    let op = Type::primitive_type_builder("op", Physical::BYTE_ARRAY);
    let op = op.with_repetition(Repetition::REQUIRED).with_converted_type(Converted::UTF8);
    let fields = vec![
        integer("time_ns", time),
        Arc::new(op.build().unwrap()),
        integer("offset_bytes", Converted::NONE),
        integer("length_bytes", length),
    ];
    let schema = Type::group_type_builder("schema").with_fields(fields).build().unwrap();
    let mut file = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut file, Arc::new(schema), Default::default()).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let mut at = 0;
    while let Some(mut column) = rows.next_column().unwrap() {
        let wrote = match column.untyped() {
            ColumnWriter::Int64ColumnWriter(column) => {
                column.write_batch(&[[1, 8], [0, 0], [4096, 0], [512; 2]][at], None, None)
            }
            ColumnWriter::Int32ColumnWriter(column) => {
                column.write_batch(&[u32::MAX as i32; 2], None, None)
            }
            ColumnWriter::ByteArrayColumnWriter(column) => {
                column.write_batch(&["read".into(), "read".into()], None, None)
            }
            _ => panic!("no such column"),
        };
        wrote.unwrap();
        column.close().unwrap();
        at += 1;
    }
    rows.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn the_older_kind_of_type_gives_the_unit_of_a_time() {
    use Converted::{DECIMAL, INT_64, NONE, TIMESTAMP_MICROS, TIMESTAMP_MILLIS, UINT_32};
    for (converted, scale) in
        [(NONE, 1), (INT_64, 1), (TIMESTAMP_MICROS, 1000), (TIMESTAMP_MILLIS, 1_000_000)]
    {
        let held = read(&with_converted(converted, NONE)).unwrap();
        assert_eq!(held.requests[1].time, Nanos(7 * scale), "{converted}");
    }
    let held = read(&with_converted(NONE, UINT_32)).unwrap();
    assert_eq!(held.requests[0].length, Bytes(u64::from(u32::MAX)), "not -1");
    let problem = problem_of(&with_converted(DECIMAL, NONE));
    assert!(problem.contains("`time_ns` is DECIMAL") && problem.contains("BIGINT"), "{problem}");
}
