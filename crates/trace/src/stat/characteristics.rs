//! Characteristics of a workload, or of one volume of it: the results, as plain numbers.
//!
//! docs/guides/traces.md defines every one in a sentence. A ratio whose denominator would be zero
//! is `None`.

use super::histogram::Histogram;
use thermocline_units::{Bytes, Nanos};

/// Requests and the bytes they address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of all together.
    pub bytes: u64,
}

/// Share of something that falls on the few most popular places.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Concentration {
    /// Share on the top 5 % of the places touched, 0 to 1.
    pub top_5: Option<f64>,
    /// Share on the top 20 % of the places touched, 0 to 1.
    pub top_20: Option<f64>,
}

/// Number of accesses that come soon after the one before to the same place: at most
/// [`REACCESS_WITHIN`](super::REACCESS_WITHIN) later.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reaccess {
    /// Share of all accesses, first ones included, 0 to 1.
    pub of_accesses: Option<f64>,
    /// Share of accesses that are not the first to their place, 0 to 1.
    pub of_returns: Option<f64>,
}

/// Order of consecutive reads and writes of the same volume. The first of each volume has no
/// predecessor and is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sequentiality {
    /// Share that begins at most [`NEAR`](super::NEAR) from the end of its predecessor, 0 to 1.
    pub near: Option<f64>,
    /// Share that begins exactly at the end of its predecessor, 0 to 1.
    pub contiguous: Option<f64>,
}

/// Figures that need times; absent where the trace has none.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// From the first request to the last.
    pub span: Nanos,
    /// Times between consecutive requests, in nanoseconds.
    pub gaps: Histogram,
    /// Index of dispersion of the times between arrivals; at most [`LAGS_MAX`](super::LAGS_MAX)
    /// lags.
    pub index_of_dispersion: Option<f64>,
    /// Variance over mean of the requests in each whole second.
    pub per_second_variance_over_mean: Option<f64>,
    /// Most requests in one second.
    pub per_second_max: u64,
    /// Re-accesses of pages.
    pub page_reaccess: Reaccess,
    /// Re-accesses of chunks.
    pub chunk_reaccess: Reaccess,
    /// Share of touched chunks with fewer than 10 accesses a day (Tai 2015 §4.2.1), 0 to 1.
    pub rare_chunks: Option<f64>,
    /// Share of touched chunks with at least 1,000 accesses a day (the same), 0 to 1.
    pub frequent_chunks: Option<f64>,
    /// Distinct chunks accessed in an interval of five minutes, on average over all of the
    /// workload.
    pub active_chunks_mean: f64,
    /// The most distinct chunks accessed in one of these intervals.
    pub active_chunks_max: u64,
}

/// A workload, or one volume of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Characteristics {
    /// Volumes that have requests.
    pub volumes: u64,
    /// Reads.
    pub reads: Amount,
    /// Writes.
    pub writes: Amount,
    /// Flushes; they have no bytes.
    pub flushes: Amount,
    /// Trims. They count as requests and arrivals, and touch nothing.
    pub trims: Amount,
    /// One past the last byte read or written; of several volumes, the sum.
    pub size: Bytes,
    /// Bytes of distinct pages read or written: the working set of the whole trace.
    pub footprint: Bytes,
    /// Bytes of distinct pages read.
    pub footprint_read: Bytes,
    /// Bytes of distinct pages written.
    pub footprint_written: Bytes,
    /// Page accesses on the pages with the most of them.
    pub page_accesses: Concentration,
    /// Chunk accesses on the chunks with the most of them.
    pub chunk_accesses: Concentration,
    /// Bytes accessed in the chunks with the most of them.
    pub chunk_bytes: Concentration,
    /// Distinct chunks touched.
    pub chunks: u64,
    /// Order of consecutive requests.
    pub sequentiality: Sequentiality,
    /// Lengths of reads, in bytes.
    pub read_sizes: Histogram,
    /// Lengths of writes, in bytes.
    pub write_sizes: Histogram,
    /// Figures that need times; `None` where all requests are numbered instead (ARC's `.lis`) or
    /// come at once.
    pub timing: Option<Timing>,
    /// Response times in nanoseconds, of the requests that have one.
    pub responses: Histogram,
}

impl Characteristics {
    /// All requests, whatever they do.
    pub fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests + self.flushes.requests + self.trims.requests
    }

    /// Reads over writes, by requests.
    pub fn read_write_ratio_requests(&self) -> Option<f64> {
        ratio(self.reads.requests, self.writes.requests)
    }

    /// Reads over writes, by bytes.
    pub fn read_write_ratio_bytes(&self) -> Option<f64> {
        ratio(self.reads.bytes, self.writes.bytes)
    }

    /// Lengths of reads and writes together, in bytes.
    pub fn sizes(&self) -> Histogram {
        let mut sizes = self.read_sizes.clone();
        sizes.merge(&self.write_sizes);
        sizes
    }
}

/// One count over another; `None` over zero.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
