//! Block request records: readers of every known trace format, writers, statistics, synthetic
//! workloads.
//!
//! Everything here works over `Read`/`BufRead`/`Write` handed in by the caller; this crate opens no
//! file, holds no clock and no thread. Readers stream: their memory does not grow with the trace.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

mod error;
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Its requests come from our readers.
mod filter;
#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Its requests are its own.
mod fixture;
mod formats;
mod input;
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Its requests come from our readers.
mod merge;
pub mod native;
mod numbers;
mod open;
mod order;
pub mod recording;
mod request;
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Its requests come from our readers.
pub mod stat;
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Its requests are its own.
pub mod synth;
mod volumes;
#[allow(clippy::indexing_slicing, clippy::expect_used)] // It reads nothing.
mod write;

pub use error::{Place, TraceError};
pub use filter::{Filter, Selection};
pub use formats::{ColumnMap, Format, ParseColumnMapError, ParseFormatError};
pub use merge::Merge;
pub use open::{Opened, ReadOptions, open, open_stream};
pub use request::{Batch, ContentHash, HashRange, Op, Request};
pub use write::{CsvWriter, FioWriter, HashColumn, MsrWriter, TraceWriter};

/// A stream of requests.
///
/// ```
/// use std::io::Cursor;
/// use thermocline_trace::{Batch, ReadOptions, open};
///
/// let text = "0,R,0,4096,\n1000000,W,8192,4096,\n";
/// let format = Some("capture".parse().unwrap());
/// let options = ReadOptions { format, ..ReadOptions::default() };
/// let mut reader = open(Box::new(Cursor::new(text)), "an example", &options).unwrap();
/// let (mut batch, mut bytes) = (Batch::default(), 0);
/// loop {
///     reader.read_batch(&mut batch).unwrap();
///     if batch.requests.is_empty() {
///         break;
///     }
///     bytes += batch.requests.iter().map(|request| request.length.0).sum::<u64>();
/// }
/// assert_eq!(bytes, 8192);
/// ```
pub trait TraceReader: Send {
    /// Clears `batch` and fills it with the next requests, at most [`Batch::CAPACITY`]. An empty
    /// batch afterwards means the end. Times never decrease, from batch to batch too.
    ///
    /// # Errors
    /// When the input is not what its format promises, with the file and the line or byte.
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError>;

    /// Names of the volumes seen so far; index is the `VolumeId`.
    fn volumes(&self) -> &[String];

    /// Repairs made on the way, in words, with counts; empty when there were none.
    fn repairs(&self) -> Vec<String> {
        Vec::new()
    }

    /// Facts that the trace tells about how it was made, as pairs of key and value; empty where the
    /// format has no room for that. All keys begin with `thermocline.`.
    fn about(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// True if requests name objects: neighbouring offsets then have nothing to do with each other.
    fn names_objects(&self) -> bool {
        false
    }

    /// The input and the line or byte up to which it was read, for messages about a request of the
    /// last batch; empty where that means nothing.
    fn position(&self) -> String {
        String::new()
    }

    /// Bytes of the input consumed so far, for progress; 0 where it is not known.
    fn bytes_read(&self) -> u64 {
        0
    }
}

impl<R: TraceReader + ?Sized> TraceReader for Box<R> {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        (**self).read_batch(batch)
    }

    fn volumes(&self) -> &[String] {
        (**self).volumes()
    }

    fn repairs(&self) -> Vec<String> {
        (**self).repairs()
    }

    fn about(&self) -> Vec<(String, String)> {
        (**self).about()
    }

    fn names_objects(&self) -> bool {
        (**self).names_objects()
    }

    fn position(&self) -> String {
        (**self).position()
    }

    fn bytes_read(&self) -> u64 {
        (**self).bytes_read()
    }
}
