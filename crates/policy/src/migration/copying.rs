//! Settings of copying: limits, reservation, patience, size of pieces. Plain data.

use std::ops::RangeInclusive;
use thermocline_units::{Bytes, Nanos};

/// Bytes a second that operations may read from, or write to, one pool, where nobody says
/// otherwise.
pub const RATE: Bytes = Bytes::from_mib(64);
/// [`RATE`], as it is written.
pub const RATE_TEXT: &str = "64MiB";
/// Bytes copied at a time between devices that serve many requests at once, where nobody says
/// otherwise: short, because their clients wait behind a piece.
const PIECE: Bytes = Bytes::from_kib(128);
/// Bytes copied at a time from or to a disk, where nobody says otherwise: a seek for each piece
/// costs as much as copying a mebibyte.
pub const DISK_PIECE: Bytes = Bytes::from_mib(1);
/// Copy requests in flight on a pool that few clients use, where nobody says otherwise.
const OUTSTANDING: u32 = 2;
/// Requests of clients in flight above which operations hold back, where nobody says otherwise and
/// the pool is no disk.
const YIELD_ABOVE: u32 = 1;
/// Copy requests in flight on a pool whose clients have a long queue, at most.
const OUTSTANDING_MAX: u32 = 8;
/// Requests of clients in flight on a pool for each copy request there, in a long queue. One copy
/// among fifty requests would get a fiftieth of a disk, and never relieve it.
const CLIENTS_PER_COPY: u32 = 8;

/// Least rate, and least reservation, bytes a second.
pub const RATE_MIN: Bytes = Bytes::from_kib(4);
/// Bytes that a piece may have: multiples of [`PIECE_UNIT`].
pub const PIECES: RangeInclusive<Bytes> = PIECE_UNIT..=Bytes::from_mib(16);
/// Bytes that pieces are multiples of.
pub const PIECE_UNIT: Bytes = Bytes::from_kib(4);
/// Copy requests that may be asked to be in flight on a pool.
pub const OUTSTANDINGS: RangeInclusive<u32> = 1..=256;
/// Requests of clients above which operations may be asked to hold back.
pub const YIELDS: RangeInclusive<u32> = 0..=4096;
/// Operations that may be asked to be under way at once.
pub const CONCURRENTS: RangeInclusive<u32> = 1..=1024;
/// Longest patience.
pub const PATIENCE_MAX: Nanos = Nanos::from_secs(60);

/// The throttle of operations, per pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copying {
    /// Bytes a second read from, or written to, one pool by operations; `None`: no limit.
    pub rate_per_second: Option<Bytes>,
    /// Bytes a second that operations get on one pool however busy clients keep it; `None`: they
    /// get on by patience alone. With `rate_per_second` as their limit and no weight at all,
    /// operations are one client of mClock (Gulati et al., OSDI 2010).
    pub reserve_per_second: Option<Bytes>,
    /// Copy requests in flight on one pool, at least 1; `None`: [`Copying::most_in_flight`] follows
    /// the device and the queue of its clients.
    pub outstanding: Option<u32>,
    /// Requests of clients in flight on a pool above which operations hold back; `None`:
    /// [`Copying::yields_above`] follows the device.
    pub yield_above: Option<u32>,
    /// An operation held back so long goes on nevertheless.
    pub patience: Nanos,
    /// Bytes copied at a time; a multiple of 4 KiB. A write that meets a piece under way may have
    /// to wait for it: one request's service time. `None`: [`Copying::piece_among`] follows the
    /// devices.
    pub piece: Option<Bytes>,
    /// Operations under way at once.
    pub concurrent: u32,
    /// A proposed move that has not begun for so long is dropped: the placement considers it anew
    /// (ChewAnalyzer's storage manager, Ge 2017 §3.3.3). `None`: it waits for its turn, until the
    /// next proposal.
    pub deadline: Option<Nanos>,
    /// True if clients' own requests bring a chunk to its new pool: what they read from the old one
    /// is written there from the buffer in hand, and whole blocks that they write go there too.
    pub feeds: bool,
    /// True if a placement's move to a faster pool leaves the slow copy where it is until the chunk
    /// is written, or its room is wanted: a move back then copies nothing.
    pub keeps: bool,
    /// True if a chunk is locked for the whole copy, as the source does. Only to show what that
    /// costs.
    pub locking: bool,
}

impl Copying {
    /// The first setting that is out of its range, with the range; `None`: there is none.
    pub fn problem(&self) -> Option<String> {
        let rates = [("a rate", self.rate_per_second), ("a reservation", self.reserve_per_second)];
        for (what, rate) in rates {
            if let Some(rate) = rate.filter(|rate| *rate < RATE_MIN) {
                return Some(format!("{what} of {rate} a second; at least {RATE_MIN}"));
            }
        }
        let is_piece =
            |piece: &Bytes| PIECES.contains(piece) && piece.0.is_multiple_of(PIECE_UNIT.0);
        if let Some(piece) = self.piece.filter(|piece| !is_piece(piece)) {
            let (low, high) = (PIECES.start(), PIECES.end());
            return Some(format!("a piece of {piece}; a multiple of 4KiB from {low} to {high}"));
        }
        let counts = [
            ("copies outstanding on a pool", self.outstanding, OUTSTANDINGS),
            ("requests above which copies hold back", self.yield_above, YIELDS),
            ("migrations at once", Some(self.concurrent), CONCURRENTS),
        ];
        for (what, count, range) in counts {
            if let Some(count) = count.filter(|count| !range.contains(count)) {
                return Some(format!("{count} {what}; from {} to {}", range.start(), range.end()));
            }
        }
        let patience = self.patience;
        (patience > PATIENCE_MAX).then(|| format!("a patience of {patience}; up to {PATIENCE_MAX}"))
    }

    /// The default, but by requests of its own only, and nothing stays behind: as the sources copy.
    pub fn pieces_alone() -> Copying {
        Copying { feeds: false, keeps: false, ..Copying::default() }
    }

    /// Copy requests that may be in flight on a pool whose device serves `at_once` requests at the
    /// same time (`None`: nobody knows) and whose clients have `clients` in flight.
    ///
    /// A second piece at an idle disk finishes no sooner, and clients wait for both. Where clients
    /// queue, copies get a share of the queue.
    pub fn most_in_flight(&self, at_once: Option<u32>, clients: u32) -> u32 {
        let served = at_once.map_or(OUTSTANDING, |at_once| at_once.min(OUTSTANDING));
        let share = (clients / CLIENTS_PER_COPY).min(OUTSTANDING_MAX);
        self.outstanding.unwrap_or(served.max(share))
    }

    /// Requests of clients in flight above which operations hold back on a pool whose device serves
    /// `at_once` requests at the same time (`None`: nobody knows): on a disk the next client would
    /// wait for the one that is served and for the piece behind it.
    pub fn yields_above(&self, at_once: Option<u32>) -> u32 {
        self.yield_above.unwrap_or(if at_once == Some(1) { 0 } else { YIELD_ABOVE })
    }

    /// Bytes copied at a time between pools whose devices serve so many requests at the same time
    /// (`None`: nobody knows).
    pub fn piece_among(&self, at_once: impl IntoIterator<Item = Option<u32>>) -> Bytes {
        let has_disk = || at_once.into_iter().any(|at_once| at_once == Some(1));
        self.piece.unwrap_or_else(|| if has_disk() { DISK_PIECE } else { PIECE })
    }
}

impl Default for Copying {
    fn default() -> Copying {
        Copying {
            rate_per_second: Some(RATE),
            reserve_per_second: None,
            outstanding: None,
            yield_above: None,
            patience: Nanos(50_000_000),
            piece: None,
            concurrent: 16,
            deadline: None,
            feeds: true,
            keeps: true,
            locking: false,
        }
    }
}
