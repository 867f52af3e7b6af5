//! The native trace format: Parquet that pandas, polars and DuckDB open directly.
//!
//! `docs/formats/trace-parquet.md` is the layout. The `parquet` crate reads the footer and page
//! headers and decompresses pages; values are decoded here (`encoding`), because strings come as
//! dictionary codes that never need to become strings, and because no byte of a page may make us
//! panic. Does not need Arrow.

mod column;
mod encoding;
mod footer;
mod reader;
mod schema;
mod thrift;
mod values;
#[allow(clippy::indexing_slicing, clippy::expect_used)] // It reads nothing.
mod writer;

pub use reader::{ParquetReader, open_parquet};
pub use writer::{ParquetSettings, ParquetWriter};

use crate::{Op, Place, TraceError};

/// An error about a Parquet file as a whole.
fn malformed(input: &str, problem: impl Into<String>) -> TraceError {
    TraceError::Malformed { input: input.to_string(), place: Place::Whole, problem: problem.into() }
}

/// The operation's name in files: `read`, `write`, `flush`, `trim`.
pub(crate) const fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Trim => "trim",
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
