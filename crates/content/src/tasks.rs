//! Requests to the device: the purpose of each.

use crate::name::BLOCK;
use thermocline_ports::{Io, Payload};
use thermocline_units::Bytes;

/// Number of times a failed write of metadata is repeated before the store stops.
pub(crate) const TRIES_MAX: u32 = 3;

/// Purpose of a device request.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// The flush at the beginning of an opening.
    OpenFlush,
    /// A read of an opening, by the number of its step.
    Open(u32),
    /// Superblocks of a former store, while formatting.
    Erase {
        place: u64,
        tries: u32,
    },
    /// A run of blocks of a read.
    Fetch {
        read: u32,
        run: u32,
    },
    /// Read of a stored block that may have the contents of a written one.
    Verify {
        write: u32,
        piece: u32,
        number: u32,
        place: u32,
    },
    /// Write of new blocks, from this address on.
    Fill {
        write: u32,
        place: u32,
        numbers: Vec<u32>,
        tries: u32,
    },
    /// The flush of a commit.
    CommitFlush,
    /// Write of blocks of the journal: the first within the commit, their count, failures so far.
    Journal {
        first: u32,
        count: u32,
        tries: u32,
    },
    /// Write of blocks of a checkpoint; address and contents are kept for a retry.
    Node {
        place: u32,
        data: Payload,
        tries: u32,
    },
    CheckpointFlush,
    Super {
        place: u64,
        data: Payload,
        tries: u32,
    },
    /// Write of a segment's trailer.
    Seal {
        segment: u32,
        data: Payload,
        tries: u32,
    },
    Wipe {
        segment: u32,
        tries: u32,
    },
    Discard {
        segment: u32,
    },
    /// Requests of a cleaning.
    CleanTrailer,
    CleanRead,
    CleanWrite {
        place: u32,
        first: u32,
        count: u32,
    },
}

impl Task {
    /// True if no client waits for it, unless room is short.
    pub(crate) fn is_background(&self) -> bool {
        matches!(
            self,
            Task::CleanTrailer | Task::CleanRead | Task::CleanWrite { .. } | Task::Discard { .. }
        )
    }
}

/// A request that a step has left for the device.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) task: Task,
    pub(crate) io: Io,
}

/// The offset of an address, in bytes.
pub(crate) fn offset(address: u64) -> Bytes {
    Bytes(address * u64::from(BLOCK))
}
