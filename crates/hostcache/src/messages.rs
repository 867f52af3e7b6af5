//! Messages between hosts and the server, and between hosts.
//!
//! An agent numbers its requests; answers name these numbers. `version` is the number of writes
//! that the server had accepted when it read its maps. An answer or a push is older than a write
//! that was answered with a higher version.

use bytes::Bytes;

/// Name of content: BLAKE3-256 of a block, live.
pub type Hash = [u8; 32];

/// Number of a host, unique at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub u16);

/// Number that the server gives a content while it tracks it: a place (32 bits), the place's
/// generation (16) and the server's run (16). Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentId(pub u64);

/// Manner in which blocks are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The protocol's usual answer.
    Usual,
    /// Hashes only.
    Hashes,
    /// Bytes from the server, because its tracker was wrong about this host or its peers.
    Bytes,
}

/// A block that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteItem {
    /// Zeroes.
    Zero,
    /// Content that has this number.
    Id(ContentId),
    /// Content with this hash, which the server may know.
    Hash(Hash),
    /// The bytes.
    Data(Bytes),
}

/// A block in the answer to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadItem {
    /// Zeroes.
    Zero,
    /// The host holds it under this number.
    Id(ContentId),
    /// Its hash; the host must request the bytes unless it has them.
    Hash(ContentId, Hash),
    /// Its bytes, with its name.
    Data(ContentId, Hash, Bytes),
    /// Its bytes, in protocols without names.
    Plain(Bytes),
    /// Another host sends it with this token.
    Deferred(ContentId, Hash, HostId, u64),
}

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is no volume of that name.
    NoVolume,
    /// The host may not use it.
    NotEntitled,
    /// Another host writes to it, or may still believe that it does.
    InUse,
    /// The fencing number is not the volume's.
    Fenced,
    /// The range is not within the volume.
    Outside,
    /// The store failed.
    Store,
    /// A snapshot, which is not written.
    ReadOnly,
}

impl Why {
    pub(crate) const ALL: [Why; 7] = [
        Why::NoVolume,
        Why::NotEntitled,
        Why::InUse,
        Why::Fenced,
        Why::Outside,
        Why::Store,
        Why::ReadOnly,
    ];
}

/// Room that a written block did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// The store is full.
    Store,
    /// The volume's logical quota is used up.
    Logical,
    /// The volume's physical quota is used up.
    Physical,
}

impl Shortage {
    const ALL: [Shortage; 3] = [Shortage::Store, Shortage::Logical, Shortage::Physical];

    /// Number in [`ToAgent::Written`] of a block that is not written for want of room: as high as
    /// no content's number is.
    pub fn number(self) -> u64 {
        UNKNOWN - 1 - self as u64
    }

    /// The shortage that a number in [`ToAgent::Written`] stands for, if it is none of a content.
    pub fn of(number: u64) -> Option<Shortage> {
        let at = UNKNOWN.checked_sub(1)?.checked_sub(number)?;
        Shortage::ALL.get(usize::try_from(at).ok()?).copied()
    }
}

/// A message of an agent to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToServer {
    /// Requests a lease of a volume.
    Attach {
        /// Number of the request.
        request: u32,
        /// The volume's name.
        volume: String,
        /// Fencing number of an earlier lease; 0: none.
        fence: u64,
    },
    /// Gives a lease back, to a host if one is named.
    Release {
        /// The volume.
        volume: u32,
        /// Its fencing number.
        fence: u64,
        /// Host for which the volume is kept; `None`: any.
        to: Option<HostId>,
    },
    /// Requests the renewal of all its leases.
    Renew {
        /// Number of the request.
        request: u32,
    },
    /// Reads blocks.
    Read {
        /// Number of the request.
        request: u32,
        /// The volume.
        volume: u32,
        /// First block.
        block: u32,
        /// Blocks, 1 to [`crate::BLOCKS_MAX`].
        count: u16,
        /// Manner of the answer.
        how: How,
    },
    /// Writes blocks.
    Write {
        /// Number of the request.
        request: u32,
        /// The volume.
        volume: u32,
        /// Fencing number of the lease.
        fence: u64,
        /// First block.
        block: u32,
        /// True if it must be durable when it is answered.
        fua: bool,
        /// The blocks.
        items: Vec<WriteItem>,
    },
    /// Makes all answered writes of a volume durable.
    Flush {
        /// Number of the request.
        request: u32,
        /// The volume.
        volume: u32,
        /// Fencing number of the lease.
        fence: u64,
    },
    /// Requests a part of a volume's map, or of the map of the image that it is a clone of.
    Map {
        /// Number of the request.
        request: u32,
        /// The volume.
        volume: u32,
        /// True for the image's map, false for what differs from it.
        base: bool,
        /// First block.
        block: u32,
    },
    /// Reports contents that the host no longer holds.
    Evicted {
        /// The contents.
        ids: Vec<ContentId>,
    },
    /// Reports contents that the host holds; the answer is [`ToAgent::Named`].
    Held {
        /// Their hashes.
        hashes: Vec<Hash>,
    },
}

/// A message of the server to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToAgent {
    /// The lease of a volume.
    Attached {
        /// Number of the request.
        request: u32,
        /// Number of the volume.
        volume: u32,
        /// Fencing number, higher than any before.
        fence: u64,
        /// Blocks of the volume.
        blocks: u32,
        /// Image that it is a clone of; 0: none.
        base: u32,
        /// Duration of the lease, nanoseconds.
        lease: u64,
    },
    /// All leases are renewed for their full duration.
    Renewed {
        /// Number of the request.
        request: u32,
    },
    /// A request was refused.
    Refused {
        /// Number of the request.
        request: u32,
        /// Reason of the refusal.
        why: Why,
    },
    /// Another host has the lease.
    Lost {
        /// The volume.
        volume: u32,
    },
    /// Answer to a read: the blocks in order.
    Blocks {
        /// Number of the request.
        request: u32,
        /// Version of the map that the answer describes.
        version: u64,
        /// The blocks.
        items: Vec<ReadItem>,
    },
    /// Answer to a write. Blocks whose content is unknown are not written; their bytes are wanted.
    Written {
        /// Number of the request.
        request: u32,
        /// Version of the write.
        version: u64,
        /// A number for each block: 0 for zeroes, [`UNKNOWN`] for blocks whose bytes are wanted,
        /// [`Shortage::number`] for blocks that stay as they were, because there is no room.
        ids: Vec<u64>,
    },
    /// All writes of the volume that were answered before the flush are durable.
    Flushed {
        /// Number of the request.
        request: u32,
    },
    /// Part of a map.
    Entries {
        /// Number of the request.
        request: u32,
        /// Version of the map.
        version: u64,
        /// Runs: the first block, and the number of each block's content, 0 for zeroes.
        runs: Vec<(u32, Vec<u64>)>,
        /// First block of the next part; `None`: this is the last.
        next: Option<u32>,
    },
    /// Names other blocks that have a content that this host gets now.
    Push {
        /// The content.
        id: ContentId,
        /// Version of the maps.
        version: u64,
        /// Volume and block.
        blocks: Vec<(u32, u32)>,
    },
    /// Asks the host to send a block to another host.
    Serve {
        /// Token that the other host waits for.
        token: u64,
        /// The content.
        id: ContentId,
        /// The other host.
        to: HostId,
    },
    /// Numbers of the contents that the host reported as held, in order; 0: the host may not know
    /// the content, or the store does not have it.
    Named {
        /// The numbers.
        ids: Vec<u64>,
    },
}

/// Number in [`ToAgent::Written`] of a block whose bytes are wanted.
pub const UNKNOWN: u64 = u64::MAX;

/// A message of one agent to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToPeer {
    /// The bytes for a token.
    Block {
        /// The token.
        token: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// The bytes are not cached here any more.
    Gone {
        /// The token.
        token: u64,
    },
}
