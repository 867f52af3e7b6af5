//! Requests on their way through a device, and who waits for them.

use crate::map::place::Place;
use thermocline_ports::Io;
use thermocline_units::mutants::mutant;
use thermocline_units::{Nanos, PoolId};

/// Number of tries more for a request for metadata, or a flush, before its pool is given up.
pub(crate) const TRIES_MAX: u8 = 3;

/// Owner of a request: who waits for the device's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A part of a client's request; `at` is the byte within the chunk where this I/O starts.
    SubRequest { sub_request: u32, at: u32 },
    /// An operation's piece.
    Copy { operation: u32 },
    /// A copy's piece or table in a comparison; the number is the copy's.
    Scrub { copy: u8 },
    /// Blocks of a copy under comparison are written again; the number is the comparison's.
    Repair { index: u32 },
    /// A table of checksums is read; who reads it waits for its chunk.
    TableRead { load: u32 },
    /// A table of checksums is written, of the chunk under comparison.
    TableWrite,
    /// The group commit's flush.
    Flush,
    /// Journal blocks of the group commit.
    Journal,
    /// Blocks of a checkpoint.
    Checkpoint,
    /// A superblock.
    Super,
    /// A block is written to a free slot, to see whether its device has room.
    Probe { slot: u32 },
    /// A freed slot is being made to read as zeroes.
    Clean { slot: u32 },
    /// A line is read for a client; the number is the read's.
    LineRead { read: u32 },
    /// A line is written; the number is the fill's.
    LineFill { fill: u32 },
    /// Formatting or recovery; the number is the step's own.
    Open(u32),
}

impl Owner {
    /// True if a failed request is sent again as it was.
    pub(crate) fn retries(self) -> bool {
        matches!(self, Owner::Journal | Owner::Checkpoint | Owner::Super | Owner::Flush)
    }

    /// True if its writes are durable at completion, or need not be.
    pub(crate) fn is_forced(self) -> bool {
        let table = self == Owner::TableWrite && mutant("tables_not_flushed");
        let lasts_not = matches!(self, Owner::LineFill { .. });
        let metadata = matches!(self, Owner::Journal | Owner::Checkpoint | Owner::Super);
        table || lasts_not || metadata || matches!(self, Owner::Open(_))
    }
}

/// One request on a device.
#[derive(Debug, Clone)]
pub(crate) struct Flight {
    pub(crate) generation: u32,
    pub(crate) owner: Owner,
    pub(crate) pool: PoolId,
    /// The slot that a client's request is for; 0 for all others.
    pub(crate) slot: u32,
    pub(crate) writes: bool,
    pub(crate) bytes: u32,
    pub(crate) since: Nanos,
    /// Clients' requests under way on the pool when it was sent, and itself.
    pub(crate) queued: u32,
    /// True if nobody waits for it.
    pub(crate) background: bool,
    pub(crate) tries: u8,
    /// The request itself, where it may be sent again.
    pub(crate) io: Option<Io>,
}

impl Flight {
    /// Place to which a client's request was sent.
    pub(crate) fn place(&self) -> Place {
        Place { pool: self.pool, slot: self.slot }
    }
}
