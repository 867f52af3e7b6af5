//! State of one volume while its requests go by.

use super::StatError;
use super::arrivals::Arrivals;
use super::characteristics::Amount;
use super::histogram::Histogram;
use super::places::{BIN, Chunks, PAGE, Pages};
use crate::request::{Op, Request};
use thermocline_units::{Bytes, Nanos};

/// The interval in which accessed chunks are counted (Tai 2015, Fig. 22).
pub const CHUNKS_COUNTED_IN: Nanos = Nanos::from_secs(300);
/// The farthest that two consecutive requests may lie apart and still be near (Ge 2017 §3.2.3).
pub const NEAR: Bytes = Bytes::from_kib(512);
/// Pages of one request at most: 32 GiB. More is a trace read with a wrong unit.
const PAGES_OF_REQUEST_MAX: u64 = 1 << 23;

/// Statistics of one volume.
#[derive(Debug, Clone, Default)]
pub(super) struct Volume {
    /// Amounts by operation.
    pub(super) amounts: [Amount; 4],
    /// One past the last byte read or written.
    pub(super) size: u64,
    pub(super) pages: Pages,
    pub(super) chunks: Chunks,
    pub(super) order: Order,
    pub(super) read_sizes: Histogram,
    pub(super) write_sizes: Histogram,
    pub(super) responses: Histogram,
    pub(super) arrivals: Arrivals,
    pub(super) active: ActiveChunks,
}

impl Volume {
    /// Takes the next request. How many chunks it is the first to touch in the interval.
    #[inline]
    pub(super) fn take(&mut self, request: &Request, index: u64) -> Result<u64, StatError> {
        let (op, length) = (request.op, request.length);
        let amount = &mut self.amounts[op as usize];
        amount.requests += 1;
        amount.bytes += length.0;
        self.arrivals.arrive(request.time);
        if let Some(response) = request.response {
            self.responses.add(response.0);
        }
        let writes = match op {
            Op::Read => false,
            Op::Write => true,
            Op::Flush | Op::Trim => return Ok(0),
        };
        let sizes = if writes { &mut self.write_sizes } else { &mut self.read_sizes };
        sizes.add(length.0);
        if length.0 == 0 {
            return Ok(0);
        }
        self.order.take(request);
        self.size = self.size.max(request.end().0);
        self.touch(request, writes, index)
    }

    #[inline]
    fn touch(&mut self, request: &Request, writes: bool, index: u64) -> Result<u64, StatError> {
        let (start, end) = (request.offset.0, request.end().0);
        let pages = start / PAGE.0..=(end - 1) / PAGE.0;
        if pages.end() - pages.start() >= PAGES_OF_REQUEST_MAX {
            let max = Bytes(PAGES_OF_REQUEST_MAX * PAGE.0);
            return Err(StatError::TooLong { index, length: request.length, max });
        }
        for page in pages {
            self.pages.access(page, request.time, writes);
        }
        let mut begun = 0;
        for chunk in start / BIN.0..=(end - 1) / BIN.0 {
            let from = start.max(chunk * BIN.0);
            let bytes = (end - from).min((chunk + 1) * BIN.0 - from);
            let begins = self.chunks.access(chunk, request.time, bytes, CHUNKS_COUNTED_IN);
            begun += u64::from(begins);
        }
        self.active.begin(request.time, begun);
        Ok(begun)
    }

    #[inline]
    pub(super) fn prefetch(&self, offset: Bytes) {
        self.pages.prefetch(offset.0 / PAGE.0);
        self.chunks.prefetch(offset.0 / BIN.0);
    }
}

/// Order of consecutive reads and writes of a volume.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Order {
    previous_end: Option<u64>,
    /// Requests that have a predecessor.
    pub(super) pairs: u64,
    /// Those that begin at most [`NEAR`] from their predecessor's end, before or behind it.
    pub(super) near: u64,
    /// Those that begin exactly there.
    pub(super) contiguous: u64,
}

impl Order {
    #[inline]
    fn take(&mut self, request: &Request) {
        if let Some(end) = self.previous_end {
            let distance = request.offset.0.abs_diff(end);
            self.pairs += 1;
            self.near += u64::from(distance <= NEAR.0);
            self.contiguous += u64::from(distance == 0);
        }
        self.previous_end = Some(request.end().0);
    }
}

/// Chunks accessed in each interval of [`CHUNKS_COUNTED_IN`] from time zero on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ActiveChunks {
    current: u64,
    here: u64,
    most: u64,
    /// Over all intervals.
    pub(super) sum: u64,
}

impl ActiveChunks {
    /// `chunks` have their first access in the interval of `now`.
    #[inline]
    pub(super) fn begin(&mut self, now: Nanos, chunks: u64) {
        let interval = now.0 / CHUNKS_COUNTED_IN.0;
        if interval != self.current {
            (self.current, self.here) = (interval, 0);
        }
        self.here += chunks;
        self.sum += chunks;
        self.most = self.most.max(self.here);
    }

    /// The most in one interval.
    pub(super) fn most(&self) -> u64 {
        self.most
    }
}
