//! Lines of text out of a stream of bytes, in one bounded buffer.
//!
//! A line ends with `\n` or `\r\n`, neither of which is part of it; the last may have no end, which
//! is remembered. A byte-order mark before the first line is dropped. Bytes are not checked to be
//! UTF-8: fields are compared and parsed as bytes.

use super::Source;
use crate::error::{Place, TraceError};

/// Bytes a line may have. The longest real lines carry one 16-digit hash per 4 KiB of a request:
/// this is room for a request of 60 MiB.
pub(crate) const LINE_BYTES_MAX: usize = 256 << 10;

/// Bytes asked for at once; small enough to stay in the second-level cache.
const READ_BYTES: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An empty slice. A call, so that the processor guesses which way it goes: the next line would
/// wait for a choice between two slices.
#[cold]
#[inline(never)]
fn nothing<'a>() -> &'a [u8] {
    &[]
}

/// The lines of one input.
pub(crate) struct Lines {
    source: Source,
    /// Grows with the longest line, up to [`LINE_BYTES_MAX`] and one read.
    buffer: Vec<u8>,
    /// Bounds of what is not given out yet: `start` up to `end`, within the buffer.
    start: usize,
    end: usize,
    number: u64,
    at_end: bool,
    unended: bool,
}

impl Lines {
    pub(crate) fn new(source: Source) -> Lines {
        Lines {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            number: 0,
            at_end: false,
            unended: false,
        }
    }

    /// The next line, or `None` at the end.
    ///
    /// # Errors
    /// When a line is longer than [`LINE_BYTES_MAX`], and as [`Source::read_at`].
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let end = match memchr::memchr(b'\n', self.buffered()) {
            Some(length) => self.start + length,
            None => match self.fetch()? {
                Some(end) => end,
                None => return Ok(None),
            },
        };
        self.number += 1;
        let start = self.start;
        self.start = (end + 1).min(self.end);
        if end - start > LINE_BYTES_MAX {
            return Err(self.too_long());
        }
        let mut line = self.buffer.get(start..end).unwrap_or_default();
        if let [rest @ .., b'\r'] = line {
            line = rest;
        }
        if self.number == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        Ok(Some(line))
    }

    /// Contents of the buffer of the next lines; may end inside one.
    #[inline(always)]
    pub(crate) fn buffered(&self) -> &[u8] {
        match self.buffer.get(self.start..self.end) {
            Some(bytes) => bytes,
            None => nothing(),
        }
    }

    /// Steps over the next line, `bytes` long with its end, which was read from
    /// [`Lines::buffered`].
    #[inline(always)]
    pub(crate) fn step_over(&mut self, bytes: usize) {
        self.start += bytes;
        self.number += 1;
    }

    /// Brings a line end into the buffer; its index, the buffer's end for a last line without one,
    /// `None` when nothing is left.
    #[cold]
    fn fetch(&mut self) -> Result<Option<usize>, TraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            if self.at_end {
                self.unended |= self.end > 0;
                return Ok((self.end > 0).then_some(self.end));
            }
            if self.end > LINE_BYTES_MAX {
                self.number += 1;
                return Err(self.too_long());
            }
            let searched = self.end;
            let place = Place::Line(self.number + 1);
            if self.buffer.len() < searched + READ_BYTES {
                self.buffer.resize(searched + READ_BYTES, 0);
            }
            let room = self.buffer.get_mut(searched..searched + READ_BYTES);
            let count = self.source.read_at(room.unwrap_or_default(), place)?;
            self.at_end = count == 0;
            self.end += count;
            let arrived = self.buffer.get(searched..self.end).unwrap_or_default();
            if let Some(found) = memchr::memchr(b'\n', arrived) {
                return Ok(Some(searched + found));
            }
        }
    }

    #[cold]
    fn too_long(&self) -> TraceError {
        self.malformed(format!(
            "the line has more than {} bytes; is this a text trace with one request a line?",
            LINE_BYTES_MAX
        ))
    }

    /// The number of the line last given out, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// True if the last line had no line end.
    pub(crate) fn is_unended(&self) -> bool {
        self.unended
    }

    /// Name of the input.
    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    /// Bytes taken from the input as it lies there.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.source.raw_bytes()
    }

    /// An error about the line last given out.
    #[cold]
    pub(crate) fn malformed(&self, problem: String) -> TraceError {
        self.source.malformed(Place::Line(self.number), problem)
    }

    /// An error about the input as a whole.
    #[cold]
    pub(crate) fn malformed_whole(&self, problem: String) -> TraceError {
        self.source.malformed(Place::Whole, problem)
    }
}
