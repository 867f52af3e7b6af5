//! Every format on hand-written traces: exact records, exact messages, damage of every kind.

mod damage;
mod fixtures;
mod messages;
mod quick;
mod records;

use crate::{Batch, Format, Op, ReadOptions, Request, TraceError, TraceReader, open};
use std::fmt::Write;
use std::io::Cursor;

/// Contents of a trace, as a reader gave them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) requests: Vec<Request>,
    pub(crate) hashes: Vec<Vec<[u8; 16]>>,
    pub(crate) volumes: Vec<String>,
    pub(crate) repairs: Vec<String>,
}

pub(crate) fn open_bytes(
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    open(Box::new(Cursor::new(bytes.to_vec())), "t", options)
}

/// Reads to the end and checks what holds for any reader.
pub(crate) fn read_with(bytes: &[u8], options: &ReadOptions) -> Result<Held, TraceError> {
    let mut reader = open_bytes(bytes, options)?;
    let mut held = Held::default();
    let mut batch = Batch::default();
    loop {
        if let Err(error) = reader.read_batch(&mut batch) {
            assert!(batch.requests.is_empty(), "nothing is given together with an error");
            assert!(reader.read_batch(&mut batch).is_err(), "an error is not followed by data");
            return Err(error);
        }
        assert!(batch.requests.len() <= Batch::CAPACITY);
        if batch.requests.is_empty() {
            break;
        }
        for request in &batch.requests {
            let before = held.requests.last().map_or(0, |last: &Request| last.time.0);
            assert!(request.time.0 >= before, "times never decrease");
            assert!(request.end().0 <= i64::MAX as u64);
            assert!((request.volume.0 as usize) < reader.volumes().len());
            assert!(request.length.0 > 0 || request.op == Op::Flush);
            held.requests.push(*request);
            held.hashes.push(batch.hashes_of(request).iter().map(|hash| hash.0).collect());
        }
    }
    assert_eq!(held.requests.first().map(|first| first.time.0), Some(0), "time zero is the first");
    held.volumes = reader.volumes().to_vec();
    held.repairs = reader.repairs();
    Ok(held)
}

pub(crate) fn read_as(bytes: &[u8], format: Format) -> Result<Held, TraceError> {
    read_with(bytes, &ReadOptions { format: Some(format), ..ReadOptions::default() })
}

impl Held {
    /// One request a line, then the repairs.
    pub(crate) fn shown(&self) -> String {
        let mut text = String::new();
        for (request, hashes) in self.requests.iter().zip(&self.hashes) {
            let volume = &self.volumes[request.volume.0 as usize];
            let Request { time, op, offset, length, response, .. } = request;
            write!(text, "{} ns {volume} {op:?} {} + {}", time.0, offset.0, length.0).unwrap();
            if let Some(response) = response {
                write!(text, " took {} ns", response.0).unwrap();
            }
            for hash in hashes {
                text.push_str(" #");
                hash.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            }
            text.push('\n');
        }
        self.repairs.iter().for_each(|repair| writeln!(text, "repaired: {repair}").unwrap());
        text
    }
}
