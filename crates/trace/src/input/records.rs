//! Records of one fixed size out of a stream of bytes, in one bounded buffer.

use super::Source;
use crate::error::{Place, TraceError};

/// Bytes asked for at once.
const READ_BYTES: usize = 64 << 10;

/// The records of one input, a block at a time.
pub(crate) struct Records {
    source: Source,
    buffer: Vec<u8>,
    record_bytes: usize,
    /// Bounds of what is not given out yet: `start` up to `end`, within the buffer.
    start: usize,
    end: usize,
    /// The stream's position of the buffer's first byte.
    position: u64,
}

impl Records {
    pub(crate) fn new(source: Source, record_bytes: usize) -> Records {
        let buffer = vec![0; READ_BYTES.next_multiple_of(record_bytes)];
        Records { source, buffer, record_bytes, start: 0, end: 0, position: 0 }
    }

    /// Whole records that are at hand, at least one unless the input is at its end; say with
    /// [`Records::consume`] how many were used.
    ///
    /// # Errors
    /// When the input ends inside a record, and as [`Source::read_at`].
    pub(crate) fn available(&mut self) -> Result<&[u8], TraceError> {
        while self.end - self.start < self.record_bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            self.position += self.start as u64;
            self.end -= self.start;
            self.start = 0;
            let place = Place::Byte(self.position + self.end as u64);
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            let count = self.source.read_at(room, place)?;
            if count == 0 {
                if self.end == 0 {
                    return Ok(&[]);
                }
                return Err(self.source.malformed(
                    Place::Byte(self.position),
                    format!(
                        "the last record has {} of {} bytes; the file is cut off, or is not of \
                         this format",
                        self.end, self.record_bytes
                    ),
                ));
            }
            self.end += count;
        }
        let whole = (self.end - self.start) / self.record_bytes * self.record_bytes;
        Ok(self.buffer.get(self.start..self.start + whole).unwrap_or_default())
    }

    /// Steps over `count` records.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count * self.record_bytes;
        assert!(self.start <= self.end, "only records at hand are consumed");
    }

    /// The stream's position of the record `ahead` records after the next.
    pub(crate) fn position(&self, ahead: usize) -> u64 {
        self.position + (self.start + ahead * self.record_bytes) as u64
    }

    /// Name of the input.
    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    /// Bytes taken from the input as it lies there.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.source.raw_bytes()
    }

    /// An error at a byte.
    #[cold]
    pub(crate) fn malformed(&self, byte: u64, problem: String) -> TraceError {
        self.source.malformed(Place::Byte(byte), problem)
    }

    /// An error about the input as a whole.
    #[cold]
    pub(crate) fn malformed_whole(&self, problem: String) -> TraceError {
        self.source.malformed(Place::Whole, problem)
    }
}
