//! Writers: where requests go.
//!
//! A writer takes batches in time order and says at the end what its format could not hold. The
//! native format's writer is in [`crate::native`].

mod csv;
mod fio;
mod msr;

pub(crate) use csv::{COLUMNS, HEADER};
pub use csv::{CsvWriter, HashColumn};
pub use fio::FioWriter;
pub use msr::MsrWriter;

use crate::{Batch, TraceError};
use std::io::Write;

/// A trace being written.
pub trait TraceWriter: Send {
    /// Appends the batch's requests; `volumes` are the names known so far, index is the `VolumeId`.
    /// The caller guarantees that every request's volume has a name.
    ///
    /// # Errors
    /// When the output cannot be written, or the format cannot hold a request.
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError>;

    /// Writes what is still held back and the format's end. Nothing may be written afterwards.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn finish(&mut self) -> Result<(), TraceError>;

    /// Parts of the trace that the format could not hold, in words, with counts; empty when all was
    /// kept.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }
}

impl<W: TraceWriter + ?Sized> TraceWriter for Box<W> {
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError> {
        (**self).write_batch(batch, volumes)
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        (**self).finish()
    }

    fn losses(&self) -> Vec<String> {
        (**self).losses()
    }
}

/// Lines of text on their way out, a batch at a time.
struct TextOutput<W> {
    output: W,
    name: String,
    lines: Vec<u8>,
}

impl<W: Write> TextOutput<W> {
    fn new(output: W, name: &str) -> TextOutput<W> {
        TextOutput { output, name: name.to_string(), lines: Vec::new() }
    }

    /// Adds text, which is kept until `send`.
    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        self.lines.write_fmt(text).expect("memory takes what is written to it");
    }

    fn send(&mut self) -> Result<(), TraceError> {
        let sent = self.output.write_all(&self.lines);
        self.lines.clear();
        sent.map_err(|source| TraceError::Io { input: self.name.clone(), source })
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        self.send()?;
        self.output.flush().map_err(|source| TraceError::Io { input: self.name.clone(), source })
    }
}

/// "`count` noun" with a plural s, or nothing for none.
fn loss(count: u64, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    }
}

#[cfg(test)]
mod tests;
