//! Steps of every fuzz target: open the bytes, read to the end, check what holds for any trace.
//!
//! A finding is a panic, a hang, or memory beyond the engine's limit. An error is none: it is
//! what a reader is to say. `ARCHITECTURE.md` and `docs/testing/fuzzing.md` tell how to run it.

pub mod forged;
pub mod images;

use bytes::Bytes;
use std::io::{Cursor, Read};
use thermocline_trace::{
    Batch, Format, Op, Opened, ReadOptions, native::open_parquet, open_stream,
};

/// Requests after which an input is believed to be sound; packed inputs can hold very many.
const REQUESTS_MAX: usize = 1 << 20;

/// Bytes of Parquet that an input may unpack to.
const UNPACKED_MAX: u64 = 64 << 20;

/// Reads `data` in `format`, or in whatever format it seems to have.
pub fn read(format: Option<Format>, data: &[u8]) {
    read_with(&ReadOptions { format, ..ReadOptions::default() }, data);
}

/// Reads `data` as text in columns; the first line is the column map.
pub fn read_columns(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (map, text) = data.split_at(end);
    let Ok(map) = std::str::from_utf8(map) else { return };
    let Ok(columns) = map.parse() else { return };
    let text = text.get(1..).unwrap_or_default();
    read_with(&ReadOptions { columns: Some(columns), ..ReadOptions::default() }, text);
}

fn read_with(options: &ReadOptions, data: &[u8]) {
    let mut reader = match open_stream(Box::new(Cursor::new(data.to_vec())), "input", options) {
        Ok(Opened::Reader(reader)) => reader,
        Ok(Opened::Parquet(mut stream)) => {
            let mut whole = Vec::new();
            let unpacked = stream.by_ref().take(UNPACKED_MAX).read_to_end(&mut whole);
            let opened = unpacked.ok().and_then(|_| open_parquet(Bytes::from(whole), "input").ok());
            let Some(reader) = opened else { return };
            reader
        }
        Err(_) => return,
    };
    let mut batch = Batch::default();
    let (mut count, mut last) = (0, 0);
    while reader.read_batch(&mut batch).is_ok() {
        if batch.requests.is_empty() || count > REQUESTS_MAX {
            assert!(reader.repairs().iter().all(|repair| !repair.is_empty()));
            return;
        }
        assert!(batch.requests.len() <= Batch::CAPACITY);
        for request in &batch.requests {
            assert!(count > 0 || request.time.0 == 0, "time zero is the first request");
            assert!(request.time.0 >= last, "times never decrease");
            assert!(request.end().0 <= i64::MAX as u64, "no request ends beyond 2^63 − 1");
            assert!(request.length.0 > 0 || request.op == Op::Flush);
            assert!((request.volume.0 as usize) < reader.volumes().len(), "a volume has a name");
            assert_eq!(batch.hashes_of(request).len(), request.hashes.count as usize);
            last = request.time.0;
            count += 1;
        }
    }
    assert!(batch.requests.is_empty(), "nothing is given together with an error");
}
