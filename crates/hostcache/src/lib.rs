//! A cache of content that hosts and a storage server share: the agent on a host, the server, and
//! what they say to each other. Messages in, messages out.
//!
//! - `agent`: one content-addressed cache a host, for all its guests; what it knows of volumes'
//!   maps; writes that are not flushed yet. `map`, `blocks` and `index` are its parts.
//! - `server`: leases, the tracker (`names`), its memory, who sends a block. Its store is behind
//!   [`StoreRequest`] and [`StoreAnswer`]; `store` is one in memory.
//! - `messages`, `format`: what they say, and its bytes, drawn in `docs/formats/hostcache.md`;
//!   `link`: one connection over `wire`.
//! - `protocol`: the source's seven protocols and an eighth, by name.
//!
//! Source: SeaCache, Li et al., "Cooperative Storage-Level De-Duplication for I/O Reduction in
//! Virtualized Data Centers", 2011. Ours: fencing, versions, writes kept until they are flushed,
//! domains, checks of what peers send, the map handed over beforehand.
//!
//! What holds:
//! - A block that a guest reads is what it wrote last, or what the store had. Bytes from a peer
//!   enter only when their hash is the one that the server named.
//! - A flush that was answered is durable at the store, also when the server crashed in between: an
//!   agent says again what was not flushed.
//! - Never two hosts use a volume, as long as clocks run alike within a margin.
//! - Whatever another machine sends, there is no panic, memory has a bound, and wrong bytes end the
//!   connection with an error.
//!
//! Not here: sockets, clocks, threads, encryption, who a host is, hashing itself.

mod agent;
mod blocks;
mod format;
mod index;
mod link;
mod map;
mod messages;
mod names;
mod protocol;
mod server;
mod settings;
mod store;
#[cfg(test)]
mod tests;

pub use agent::{Agent, AgentCounts, AgentError, Event, Gone, Ticket, VolumeKey};
pub use format::{FormatError, MESSAGE_BYTES_MAX, MESSAGE_HEADER_BYTES, Message};
pub use link::{Link, LinkError, QUEUED_BYTES_MAX};
pub use messages::{
    ContentId, Hash, HostId, How, ReadItem, ToAgent, ToPeer, ToServer, UNKNOWN, Why, WriteItem,
};
pub use protocol::Protocol;
pub use server::{LeaseStatus, OPERATIONS_MAX, Server, ServerCounts, ServerError};
pub use settings::{AgentSettings, HashOf, ServerSettings, SettingsError};
pub use store::{Content, MemoryStore, StoreAnswer, StoreItem, StoreRequest, VolumeInfo};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks of one request.
pub const BLOCKS_MAX: usize = 256;
/// Numbers or hashes of one message.
pub const IDS_MAX: usize = 1024;
/// Blocks of one part of a map.
pub const MAP_BLOCKS_MAX: usize = 4096;
/// Blocks that one push tells of.
pub const PUSH_MAX: usize = 4097;
/// Bytes of a volume's name.
pub const NAME_BYTES_MAX: usize = 255;
