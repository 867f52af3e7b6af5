//! Operations of a server that wait for its store.

use crate::messages::{ContentId, HostId, How, ToAgent};
use crate::store::Content;
use bytes::Bytes;

/// Request of a host that waits for the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) host: HostId,
    pub(super) session: u32,
    pub(super) request: u32,
    /// Bytes that it keeps at most until it is answered, with the answer.
    pub(super) bytes: u64,
}

/// An operation that waits for the store.
#[derive(Debug)]
pub(super) enum Op {
    /// Opening of a volume, with the count of deletions when the store was asked.
    Open {
        asker: Asker,
        fence: u64,
        name: String,
        deletions: u64,
    },
    Fence {
        asker: Asker,
        volume: u32,
        fence: u64,
    },
    Read(Read),
    Fetch {
        number: u64,
    },
    Write(Write),
    Flush {
        asker: Asker,
        written: Option<ToAgent>,
    },
    Map {
        asker: Asker,
        version: u64,
    },
    Sharers {
        asker: Asker,
        id: ContentId,
        version: u64,
        but: (u32, u32),
    },
    Held {
        asker: Asker,
    },
}

/// A read whose blocks are looked up or fetched.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) asker: Asker,
    pub(super) volume: u32,
    pub(super) block: u32,
    pub(super) how: How,
    pub(super) version: u64,
    pub(super) parts: Vec<Part>,
    /// Number of blocks whose bytes are not there yet.
    pub(super) waiting: usize,
    /// True if the content of a block was swept.
    pub(super) is_stale: bool,
    pub(super) tries: u8,
}

/// A block of a read.
#[derive(Debug)]
pub(super) enum Part {
    Zero,
    Content(Content, Answer),
}

/// Chosen way to answer a block. A host that holds the content when the answer leaves gets its
/// number in any case.
#[derive(Debug)]
pub(super) enum Answer {
    Number,
    Peer(HostId),
    Wanted,
    Bytes(Bytes),
}

/// A write whose contents are looked up or stored.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) asker: Asker,
    pub(super) place: (u32, u32),
    pub(super) fua: bool,
    pub(super) version: u64,
    /// Bytes of the blocks that were sent with them.
    pub(super) data: Vec<Option<Bytes>>,
}
