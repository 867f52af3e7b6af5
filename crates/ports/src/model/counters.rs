//! Counters of a modelled device.

use super::schedule::{Kind, Request};
use thermocline_units::{Bytes, Nanos};

/// Requests of one kind that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoCounters {
    /// Number of requests.
    pub requests: u64,
    /// Bytes read, written or discarded.
    pub bytes: Bytes,
    /// Sum of the times from submission to completion. Over a span of time, the sums of all kinds
    /// divided by it are the mean number of requests in the device.
    pub latency: Nanos,
}

/// Counters of the work inside a flash device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashCounters {
    /// Bytes that were written from outside, in whole pages.
    pub host: Bytes,
    /// Bytes programmed for any reason, cleaning and padding included.
    pub programmed: Bytes,
    /// Blocks erased.
    pub erases: u64,
    /// Time dies spent on cleaning, summed over dies.
    pub cleaning: Nanos,
}

impl FlashCounters {
    /// Bytes programmed for each byte written; 1 before the first write.
    pub fn write_amplification(&self) -> f64 {
        match self.host.0 {
            0 => 1.0,
            host => self.programmed.0 as f64 / host as f64,
        }
    }

    /// Counters since `earlier` was taken.
    #[must_use]
    pub fn since(&self, earlier: &FlashCounters) -> FlashCounters {
        FlashCounters {
            host: Bytes(self.host.0 - earlier.host.0),
            programmed: Bytes(self.programmed.0 - earlier.programmed.0),
            erases: self.erases - earlier.erases,
            cleaning: self.cleaning.saturating_sub(earlier.cleaning),
        }
    }
}

/// Counters of the work inside a shingled disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShingleCounters {
    /// Bytes that went to the persistent cache first.
    pub cached: Bytes,
    /// Bands rewritten.
    pub bands_cleaned: u64,
    /// Time spent on rewriting bands.
    pub cleaning: Nanos,
}

/// Counters of a modelled device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Reads.
    pub reads: IoCounters,
    /// Writes.
    pub writes: IoCounters,
    /// Flushes.
    pub flushes: IoCounters,
    /// Discards and ranges of zeroes.
    pub discards: IoCounters,
    /// Time during which at least one request was in the device; for disks, during which the head
    /// worked, cleaning included.
    pub busy: Nanos,
    /// All zero unless it is flash.
    pub flash: FlashCounters,
    /// All zero unless it is shingled.
    pub shingles: ShingleCounters,
}

impl Counters {
    pub(super) fn count(&mut self, request: &Request, at: Nanos) {
        let counters = match request.kind {
            Kind::Read => &mut self.reads,
            Kind::Write | Kind::ForcedWrite => &mut self.writes,
            Kind::Flush => &mut self.flushes,
            Kind::Discard | Kind::WriteZeroes => &mut self.discards,
        };
        counters.requests += 1;
        counters.bytes.0 += request.length;
        counters.latency.0 += at.saturating_sub(request.submitted).0;
    }

    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.kinds().iter().map(|counters| counters.requests).sum()
    }

    /// Sum of all latencies: the integral of the number of requests in the device over time.
    pub fn in_device(&self) -> Nanos {
        Nanos(self.kinds().iter().map(|counters| counters.latency.0).sum())
    }

    fn kinds(&self) -> [&IoCounters; 4] {
        [&self.reads, &self.writes, &self.flushes, &self.discards]
    }
}
