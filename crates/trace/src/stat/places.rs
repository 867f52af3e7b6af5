//! Tables of every page and every chunk that a volume's reads and writes touch.
//!
//! State: 16 B a page in a table at most 3/4 full, 21–43 B a distinct page; 32 B a chunk, 43–85 B a
//! distinct chunk, of which there is at most one for every page and usually one for many.
//!
//! Times of pages are kept in ticks of 2²² ns (4.2 ms), so that they fit: whether a page was
//! accessed in the last five minutes is decided to within 4.2 ms. Times of chunks are exact.

use super::table::{Slot, Table};
use thermocline_units::{Bytes, Nanos};

/// Bytes of a page.
pub const PAGE: Bytes = Bytes::from_kib(4);
/// Bytes of a bin, the sources' unit of popularity: a chunk of statistics, whatever a placement's
/// chunk is.
pub const BIN: Bytes = Bytes::from_mib(1);
/// [`BIN`], as it is written.
pub const BIN_TEXT: &str = "1MiB";
/// Longest time since the access before, for a re-access (Tai 2015, Table 12).
pub const REACCESS_WITHIN: Nanos = Nanos::from_secs(300);

/// A tick is 2^this nanoseconds.
const TICK_LOG2: u32 = 22;
/// Bits of a tick's number that lie beside the page's number.
const TICK_HIGH_BITS: u32 = u64::BITS - TICK_LOG2 - u32::BITS;
const READ: u64 = 1;
const WRITTEN: u64 = 2;
/// First bit of the page's number in [`Page::word`].
const PAGE_SHIFT: u32 = 2 + TICK_HIGH_BITS;
const _: () =
    assert!(PAGE_SHIFT == PAGE.0.trailing_zeros(), "every page of 2^64 bytes has a number");

/// A page that was touched.
#[derive(Debug, Clone, Copy)]
struct Page {
    /// From the top: the page's number, the upper bits of the last access's tick, written, read.
    word: u64,
    /// The lower bits of the last access's tick.
    tick_low: u32,
    /// Accesses; stops at the largest number. 0 only where the slot is vacant.
    accesses: u32,
}

impl Slot for Page {
    const VACANT: Page = Page { word: 0, tick_low: 0, accesses: 0 };

    #[inline]
    fn is_vacant(&self) -> bool {
        self.accesses == 0
    }

    #[inline]
    fn key(&self) -> u64 {
        self.word >> PAGE_SHIFT
    }
}

impl Page {
    #[inline]
    fn tick(&self) -> u64 {
        let high = (self.word >> 2) & ((1 << TICK_HIGH_BITS) - 1);
        high << u32::BITS | u64::from(self.tick_low)
    }
}

/// The pages of one volume.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages {
    table: Table<Page>,
    /// Distinct pages read.
    pub(super) read: u64,
    /// Distinct pages written.
    pub(super) written: u64,
    /// Page accesses: one for every page of every request.
    pub(super) accesses: u64,
    /// Those whose page was accessed at most [`REACCESS_WITHIN`] before.
    pub(super) soon: u64,
}

impl Pages {
    /// Distinct pages.
    pub(super) fn distinct(&self) -> u64 {
        self.table.len()
    }

    #[inline]
    pub(super) fn prefetch(&self, page: u64) {
        self.table.prefetch(page);
    }

    /// One request's access to one page.
    #[inline]
    pub(super) fn access(&mut self, page: u64, now: Nanos, writes: bool) {
        let tick = now.0 >> TICK_LOG2;
        let slot = self.table.slot(page);
        let soon =
            !slot.is_vacant() && tick.saturating_sub(slot.tick()) <= REACCESS_WITHIN.0 >> TICK_LOG2;
        let done = slot.word & (READ | WRITTEN);
        let does = if writes { WRITTEN } else { READ };
        slot.word = page << PAGE_SHIFT | (tick >> u32::BITS) << 2 | done | does;
        slot.tick_low = tick as u32;
        slot.accesses = slot.accesses.saturating_add(1);
        self.read += u64::from(!writes && done & READ == 0);
        self.written += u64::from(writes && done & WRITTEN == 0);
        self.accesses += 1;
        self.soon += u64::from(soon);
    }

    /// Accesses of every page.
    pub(super) fn each_accesses(&self) -> impl Iterator<Item = u64> {
        self.table.iter().map(|page| u64::from(page.accesses))
    }
}

/// A chunk that was touched.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    index: u64,
    last: Nanos,
    /// Requests that touched it; 0 only where the slot is vacant.
    accesses: u64,
    bytes: u64,
}

impl Slot for Chunk {
    const VACANT: Chunk = Chunk { index: 0, last: Nanos(0), accesses: 0, bytes: 0 };

    #[inline]
    fn is_vacant(&self) -> bool {
        self.accesses == 0
    }

    #[inline]
    fn key(&self) -> u64 {
        self.index
    }
}

/// The chunks of one volume.
#[derive(Debug, Clone, Default)]
pub(super) struct Chunks {
    table: Table<Chunk>,
    /// Chunk accesses: one for every chunk of every request.
    pub(super) accesses: u64,
    /// Those whose chunk was accessed at most [`REACCESS_WITHIN`] before.
    pub(super) soon: u64,
}

impl Chunks {
    /// Distinct chunks.
    pub(super) fn distinct(&self) -> u64 {
        self.table.len()
    }

    #[inline]
    pub(super) fn prefetch(&self, chunk: u64) {
        self.table.prefetch(chunk);
    }

    /// One request's access to `bytes` of one chunk. Whether it is the chunk's first in the
    /// interval of length `interval` (counted from time zero) that `now` lies in.
    #[inline]
    pub(super) fn access(&mut self, index: u64, now: Nanos, bytes: u64, interval: Nanos) -> bool {
        let slot = self.table.slot(index);
        let fresh = slot.is_vacant();
        let soon = !fresh && now.saturating_sub(slot.last) <= REACCESS_WITHIN;
        let begins = fresh || slot.last.0 / interval.0 != now.0 / interval.0;
        slot.index = index;
        slot.last = now;
        slot.accesses += 1;
        slot.bytes += bytes;
        self.accesses += 1;
        self.soon += u64::from(soon);
        begins
    }

    /// Accesses of every chunk.
    pub(super) fn each_accesses(&self) -> impl Iterator<Item = u64> {
        self.table.iter().map(|chunk| chunk.accesses)
    }

    /// Bytes accessed of every chunk.
    pub(super) fn each_bytes(&self) -> impl Iterator<Item = u64> {
        self.table.iter().map(|chunk| chunk.bytes)
    }
}
