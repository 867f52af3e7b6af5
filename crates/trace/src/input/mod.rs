//! From raw bytes to lines and records: decompression, bounded line splitting, fixed-size records.
//!
//! Everything here holds a bounded buffer, counts where it is, and turns whatever can go wrong
//! below into a [`TraceError`](crate::TraceError) with that place. Nothing here knows a trace
//! format.

mod compression;
mod lines;
mod records;

pub(crate) use compression::{Compression, Source};
pub(crate) use lines::Lines;
pub(crate) use records::Records;

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
