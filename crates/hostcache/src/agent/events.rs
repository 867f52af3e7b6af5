//! Names, events, errors and counts of an agent, as its owner sees them.

use crate::messages::{Shortage, Why};
use thermocline_units::Nanos;

/// Requests of guests that may wait at once.
pub(crate) const GUEST_REQUESTS_MAX: usize = 4096;
/// A volume of an agent, for as long as it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeKey(pub u32);

/// A request of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Reason why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The volume is not attached here, or lost.
    Volume,
    /// The range is empty, or not within the volume.
    Outside,
    /// Too many requests wait.
    TooMany,
    /// The server refused it.
    Server(Why),
    /// There is no room for a write. Each of its blocks is as it was, or written.
    NoRoom(Shortage),
}

/// Event for the owner of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A volume can be used.
    Attached {
        /// The volume.
        volume: VolumeKey,
        /// Its size in blocks.
        blocks: u32,
    },
    /// A volume cannot be attached, at least not now.
    Refused {
        /// The volume.
        volume: VolumeKey,
        /// Reason of the refusal.
        why: Why,
    },
    /// The volume cannot be used any more; its requests failed.
    Lost {
        /// The volume.
        volume: VolumeKey,
        /// Refusal of the server for which it was given up; `None`: the server took it from this
        /// host, because another one has it or because it was deleted.
        why: Option<Why>,
    },
    /// A read is done.
    Read {
        /// Its request.
        ticket: Ticket,
        /// The bytes of its blocks.
        bytes: Vec<u8>,
    },
    /// A write or a flush is done.
    Done {
        /// Its request.
        ticket: Ticket,
    },
    /// A request failed.
    Failed {
        /// The request.
        ticket: Ticket,
        /// Reason of the failure.
        why: Gone,
    },
}

/// Violation of the protocol by another machine, whose connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// An answer to no request, or of another kind or length than was requested.
    #[error("{what} answers no request of this host")]
    NotAsked {
        /// The message.
        what: &'static str,
    },
    /// A peer sent bytes that are not the content.
    #[error("host {host} sent bytes whose hash is not the content's; they were dropped")]
    WrongBytes {
        /// Number of the peer.
        host: u16,
    },
    /// A peer sent too many blocks that nothing waits for.
    #[error("host {host} sent {strays} blocks that nobody waits for")]
    Strays {
        /// Number of the peer.
        host: u16,
        /// Number of such blocks.
        strays: u32,
    },
    /// The server does not answer.
    #[error("the server has not answered for {since}")]
    Silent {
        /// Time for which it has not answered the oldest request.
        since: Nanos,
    },
}

/// Counts of an agent, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCounts {
    /// Blocks that guests read.
    pub read: u64,
    /// Blocks of those found in the cache by the map, and zeroes.
    pub hits: u64,
    /// Blocks of those that joined a request that was under way.
    pub joined: u64,
    /// Blocks that the server named and that were cached here.
    pub named: u64,
    /// Blocks that the second level of this host's cache brought.
    pub from_flash: u64,
    /// Blocks that peers sent.
    pub from_peers: u64,
    /// Blocks whose bytes were requested again, because a name or a peer did not provide them.
    pub again: u64,
    /// Blocks that this host sent to others.
    pub served: u64,
}
