//! A cache of content that hosts and a storage server share: the agent on a host, the server, and
//! their messages. Both are state machines: messages in, messages out.
//!
//! - `agent`: one content-addressed cache a host, for all its guests; the known parts of volumes'
//!   maps; writes that are not flushed yet. `map`, `blocks`, `flash` (a second level
//!   on a device) and `index` are its parts.
//! - `server`: leases, the tracker (`names`), its memory, the choice of the sender of a block. Its
//!   store is behind [`StoreRequest`] and [`StoreAnswer`]; `store` is one in memory.
//! - `messages`, `format`: the messages, and their bytes, drawn in `docs/formats/hostcache.md`;
//!   `link`: one connection over `wire`.
//! - `protocol`: the source's seven protocols and an eighth, by name.
//!
//! Source: SeaCache, Li et al., "Cooperative Storage-Level De-Duplication for I/O Reduction in
//! Virtualized Data Centers", 2012. Ours: fencing, versions, writes kept until they are flushed,
//! domains, checks of what peers send, the map handed over beforehand.
//!
//! Invariants
//! - A read returns the bytes that the guest wrote last, or those that the store had. Bytes from a
//!   peer enter the cache only if their hash is the one that the server named.
//! - The writes before an answered flush are durable at the store, even if the server crashed in
//!   between: the agent sends unflushed writes again.
//! - Two hosts never use a volume at once, as long as their clocks run alike within a margin.
//! - No message of another machine causes a panic or unbounded memory. Wrong bytes end the
//!   connection with an error.
//!
//! Not here: sockets, clocks, threads, encryption, authentication of hosts, the hash function.

mod agent;
mod blocks;
mod flash;
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

pub use agent::Agent;
pub use agent::events::{AgentCounts, AgentError, Event, Gone, Ticket, VolumeKey};
pub use flash::{FlashCounts, FlashFailed, FlashRequest};
pub use format::{FormatError, MESSAGE_BYTES_MAX, Message};
pub use link::{Link, LinkError, QUEUED_BYTES_MAX};
pub use messages::{
    ContentId, Hash, HostId, How, ReadItem, Shortage, ToAgent, ToPeer, ToServer, UNKNOWN, Why,
    WriteItem,
};
pub use protocol::Protocol;
pub use server::counts::{ServerCounts, ServerError};
pub use server::{LeaseStatus, OPERATIONS_MAX, Server};
pub use settings::{AgentSettings, FlashSettings, HashOf, ServerSettings, SettingsError};
pub use store::{Content, MemoryStore, Outcome, StoreAnswer, StoreItem, StoreRequest, VolumeInfo};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks of one request at most.
pub const BLOCKS_MAX: usize = 256;
/// Numbers or hashes of one message at most.
pub(crate) const IDS_MAX: usize = 1024;
/// Blocks of one part of a map at most.
pub(crate) const MAP_BLOCKS_MAX: usize = 4096;
/// Blocks that one push names at most.
pub(crate) const PUSH_MAX: usize = 4097;
/// Bytes of a volume's name at most.
pub const NAME_BYTES_MAX: usize = 255;
