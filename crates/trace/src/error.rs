//! Errors of reading a trace.
//!
//! Every message names the input, the line or byte, what was found and what was expected, and ends
//! with what to do where something can be done. The input's name is filled in by whoever opened it.

use std::fmt;

/// The place of a fault in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line of text, counted from 1.
    Line(u64),
    /// A byte of a binary format (after decompression), counted from 0.
    Byte(u64),
    /// The input as a whole.
    Whole,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, ":{line}"),
            Place::Byte(byte) => write!(f, " at byte {byte}"),
            Place::Whole => Ok(()),
        }
    }
}

/// A trace that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The content is not what the format promises.
    #[error("{input}{place}: {problem}")]
    Malformed {
        /// The input's name.
        input: String,
        /// Its place.
        place: Place,
        /// The fault: what was found, what was expected, what to do.
        problem: String,
    },
    /// The system could not read or write.
    #[error("{input}: {source}")]
    Io {
        /// The input's name.
        input: String,
        /// The system's error.
        source: std::io::Error,
    },
}
