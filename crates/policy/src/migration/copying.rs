//! Settings of copying: limits, reservation, patience, size of pieces. Plain data.

use thermocline_units::{Bytes, Nanos};

/// Bytes a second that operations may read from, or write to, one pool, where nobody says
/// otherwise.
pub const RATE: Bytes = Bytes::from_mib(64);
/// [`RATE`], as it is written.
pub const RATE_TEXT: &str = "64MiB";
/// Bytes copied at a time under a configuration that does not say: short, because clients of an SSD
/// wait behind a piece.
const PIECE: Bytes = Bytes::from_kib(128);
/// Bytes copied at a time where the slowest pool is known to be a disk, in the laboratory and in an
/// engine without a configuration: a seek for each costs as much as copying a mebibyte.
pub const DISK_PIECE: Bytes = Bytes::from_mib(1);
/// [`DISK_PIECE`], as it is written.
pub const DISK_PIECE_TEXT: &str = "1MiB";

/// The throttle of operations, per pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copying {
    /// Bytes a second read from, or written to, one pool by operations; `None`: no limit.
    pub rate_per_second: Option<Bytes>,
    /// Bytes a second that operations get on one pool however busy clients keep it; `None`: they
    /// get on by patience alone. With `rate_per_second` as their limit and no weight at all,
    /// operations are one client of mClock (Gulati et al., OSDI 2010).
    pub reserve_per_second: Option<Bytes>,
    /// Copy requests in flight on one pool, at least 1; fewer on a device that is known to serve
    /// fewer at the same time, such as a disk.
    pub outstanding: u32,
    /// Foreground requests in flight on a pool above which operations hold back.
    pub yield_above: u32,
    /// An operation held back so long goes on nevertheless.
    pub patience: Nanos,
    /// Bytes copied at a time; a multiple of 4 KiB. A write that meets a piece under way may have
    /// to wait for it: one request's service time.
    pub piece: Bytes,
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
    /// The default, but by requests of its own only, and nothing stays behind: as the sources copy.
    pub fn pieces_alone() -> Copying {
        Copying { feeds: false, keeps: false, ..Copying::default() }
    }
}

impl Default for Copying {
    fn default() -> Copying {
        Copying {
            rate_per_second: Some(RATE),
            reserve_per_second: None,
            outstanding: 2,
            yield_above: 1,
            patience: Nanos(50_000_000),
            piece: PIECE,
            concurrent: 4,
            deadline: None,
            feeds: true,
            keeps: true,
            locking: false,
        }
    }
}
