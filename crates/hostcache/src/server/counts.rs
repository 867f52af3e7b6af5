//! Errors and counts of a server's machine.

/// Violation of the protocol by a host, whose connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// A host with too many unanswered requests.
    #[error("{outstanding} requests are outstanding; a host waits from {most} on")]
    TooMany {
        /// Number of its unanswered requests.
        outstanding: u32,
        /// The limit.
        most: u32,
    },
    /// A read by hashes, although the protocol in use has no names for contents.
    #[error("a read by hashes; the protocol of this server has no names for contents")]
    NoNames,
    /// The host has not joined.
    #[error("host {host} is not known here; let it in first")]
    Stranger {
        /// Its number.
        host: u16,
    },
    /// The largest number of hosts is reached.
    #[error("{most} hosts are known; set `hosts_max` higher")]
    TooManyHosts {
        /// The limit.
        most: usize,
    },
}

/// Counts of the server, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounts {
    /// Blocks that were answered by their number alone.
    pub by_id: u64,
    /// Blocks whose bytes were sent.
    pub by_bytes: u64,
    /// Blocks that other hosts were to send.
    pub by_peer: u64,
    /// Blocks whose bytes came from the server's memory.
    pub memory_hits: u64,
    /// Blocks whose bytes came from the store.
    pub fetched: u64,
    /// Entries that were pushed.
    pub pushed: u64,
    /// Written blocks that were known by hash or number.
    pub known_writes: u64,
    /// Written blocks whose bytes were sent.
    pub written: u64,
    /// Written blocks for which there was no room.
    pub refused: u64,
}
