//! Opens a trace from a stream of bytes: finds out the format, or is told, and gives a reader.

use crate::{Place, TraceError, TraceReader};
use std::io::Read;

/// A trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Parquet, the native format.
    Parquet,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "parquet" => Ok(Format::Parquet),
            other => Err(format!("`{other}` is not a trace format; known: parquet")),
        }
    }
}

/// Which column of a table holds what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMap(String);

impl std::str::FromStr for ColumnMap {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnMap, String> {
        Ok(ColumnMap(text.to_string()))
    }
}

/// How to read a trace.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format; found from the content when `None`.
    pub format: Option<Format>,
    /// The columns of a generic table.
    pub columns: Option<ColumnMap>,
}

/// Opens the trace in `input`, called `name` in messages.
///
/// # Errors
/// When the input cannot be read or its format is not recognised.
pub fn open(
    mut input: Box<dyn Read + Send>,
    name: &str,
    options: &ReadOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    let _ = options;
    let mut whole = Vec::new();
    input
        .read_to_end(&mut whole)
        .map_err(|source| TraceError::Io { input: name.to_string(), source })?;
    if whole.starts_with(b"PAR1") {
        return crate::native::open_parquet(bytes::Bytes::from(whole), name);
    }
    Err(TraceError::Malformed {
        input: name.to_string(),
        place: Place::Whole,
        problem: "not a Parquet file".to_string(),
    })
}
