//! Requests of clients to a volume, and their answers.

use thermocline_ports::Payload;
use thermocline_units::{Bytes, Nanos, VolumeId};

/// The client's name for a request; unique while it is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Urgency of a request; decides which queue of the chunk scheduler it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Someone waits: the work queue.
    #[default]
    Foreground,
    /// Not waited for by anyone: the waiting queue, served when no foreground request is queued, or
    /// at this moment at the latest.
    Background {
        /// Moment at which it must start, whatever else is queued.
        deadline: Nanos,
    },
}

/// One request to a volume. Offsets and lengths are multiples of 512 bytes.
#[derive(Debug, Clone)]
pub struct Request {
    /// The client's name for it.
    pub id: RequestId,
    /// The volume.
    pub volume: VolumeId,
    /// The action.
    pub action: Action,
    /// The urgency.
    pub priority: Priority,
}

/// Action of a request.
#[derive(Debug, Clone)]
pub enum Action {
    /// Read `length` bytes at `offset`.
    Read {
        /// Bytes from the volume's start.
        offset: Bytes,
        /// Bytes, above zero.
        length: u32,
    },
    /// Write `payload` at `offset`; with `fua` it is durable when answered.
    Write {
        /// Bytes from the volume's start.
        offset: Bytes,
        /// Contents, not empty.
        payload: Payload,
        /// True if the answer promises durability.
        fua: bool,
    },
    /// Make the range read as zeroes; chunks that are covered whole are freed.
    WriteZeroes {
        /// Bytes from the volume's start.
        offset: Bytes,
        /// Bytes, above zero.
        length: Bytes,
        /// True if the answer promises durability.
        fua: bool,
    },
    /// Forget the range: chunks that are covered whole are freed and read as zeroes; of other parts
    /// each sector reads as before or as zeroes.
    Discard {
        /// Bytes from the volume's start.
        offset: Bytes,
        /// Bytes, above zero.
        length: Bytes,
    },
    /// Everything answered before is durable when this is answered.
    Flush,
}

impl Action {
    /// True if it makes its range read as zeroes.
    pub(crate) fn is_zeroing(&self) -> bool {
        matches!(self, Action::WriteZeroes { .. } | Action::Discard { .. })
    }
}

/// A run of a read's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// Bytes from the start of the request.
    pub at: u32,
    /// Contents.
    pub payload: Payload,
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The request.
    pub id: RequestId,
    /// The fragments of a read by ascending offset, without gaps (none for other actions); or why
    /// not.
    pub result: Result<Vec<Fragment>, RequestError>,
}

/// Reason why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No copy could be read or written. A write that fails so leaves each sector old or new.
    #[error("I/O error: no copy of the data could be reached; `status` shows which pool failed")]
    Io,
    /// Every pool is full.
    #[error("no space: every pool is full; add a pool, or discard what is no longer needed")]
    NoSpace,
    /// The volume does not exist.
    #[error("no such volume; `volume list` shows those that exist")]
    NoVolume,
    /// The range is empty, ends beyond the volume, or is not in whole sectors of 512 bytes.
    #[error("the range is empty, beyond the volume's end, or not in multiples of 512 bytes")]
    BadRange,
    /// The group is opening, closed, or lost its last pool for metadata.
    #[error("the volume group is not in service")]
    NotReady,
}
