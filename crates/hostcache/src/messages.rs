//! Messages between hosts and the server, and between hosts.
//!
//! Requests have numbers of the agent's; answers name them. `version` is the number of writes that
//! the server had accepted when it looked at its maps: what an answer or a push says of a block is
//! older than a write that was answered with a higher one.

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

/// Manner in which blocks are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// As the protocol says.
    Usual,
    /// Hashes only.
    Hashes,
    /// Bytes, from the server: what it believes of this host or of its peers was wrong.
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

/// A block that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadItem {
    /// Zeroes.
    Zero,
    /// The host holds it under this number.
    Id(ContentId),
    /// Its hash; the bytes must be asked for, unless the host has them.
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
    /// Outside of the volume.
    Outside,
    /// The store could not do it.
    Store,
    /// It is a snapshot.
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

/// A message of an agent to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToServer {
    /// Wants to write to a volume; `fence`: the number that it had, 0 for none.
    Attach {
        /// Number of the request.
        request: u32,
        /// The volume's name.
        volume: String,
        /// Fencing number of an earlier lease.
        fence: u64,
    },
    /// Gives a lease back, to a host if one is named.
    Release {
        /// The volume.
        volume: u32,
        /// Its fencing number.
        fence: u64,
        /// Who gets it.
        to: Option<HostId>,
    },
    /// Wants its leases renewed.
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
        /// Manner.
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
    /// Asks for a part of a volume's map, or of the map of the image that it is a clone of.
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
    /// No longer holds these.
    Evicted {
        /// The contents.
        ids: Vec<ContentId>,
    },
    /// Holds these; the answer is [`ToAgent::Named`].
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
        /// Of which request.
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
    /// The leases hold again as long as at first.
    Renewed {
        /// Of which request.
        request: u32,
    },
    /// A request was refused.
    Refused {
        /// Which.
        request: u32,
        /// Why.
        why: Why,
    },
    /// Another host has the lease.
    Lost {
        /// Of which volume.
        volume: u32,
    },
    /// Blocks that were asked for, in order.
    Blocks {
        /// Of which request.
        request: u32,
        /// Version of what it says of the map.
        version: u64,
        /// The blocks.
        items: Vec<ReadItem>,
    },
    /// Blocks were written, apart from those whose content is unknown: their bytes are wanted.
    Written {
        /// Of which request.
        request: u32,
        /// Version of the write.
        version: u64,
        /// A number for each block: 0 for zeroes, [`UNKNOWN`] for what is wanted.
        ids: Vec<u64>,
    },
    /// What was answered before is durable.
    Flushed {
        /// Of which request.
        request: u32,
    },
    /// Part of a map: blocks and the numbers of their contents, 0 for zeroes; then the first block
    /// of the next part, or none.
    Entries {
        /// Of which request.
        request: u32,
        /// Version of the map.
        version: u64,
        /// First block of a run, and numbers of its blocks.
        runs: Vec<(u32, Vec<u64>)>,
        /// Where the next part begins.
        next: Option<u32>,
    },
    /// Other blocks have the content that this host gets now.
    Push {
        /// The content.
        id: ContentId,
        /// Version of the maps.
        version: u64,
        /// Volume and block.
        blocks: Vec<(u32, u32)>,
    },
    /// Wants a block sent to another host.
    Serve {
        /// What the other host waits for.
        token: u64,
        /// The content.
        id: ContentId,
        /// The other host.
        to: HostId,
    },
    /// Numbers of what the host said that it holds, in order; 0: nothing that it may know.
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
    /// They are not here any more.
    Gone {
        /// The token.
        token: u64,
    },
}
