//! NBD clients by listener, and the memory that their requests share, as the API says them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// NBD clients, and what they take.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Clients {
    /// Unix sockets and TCP addresses.
    pub listeners: Vec<Listener>,
    /// Memory for contents of requests, beyond a small share of each connection.
    pub buffer_bytes: u64,
    /// Most that it may be.
    pub buffer_limit_bytes: u64,
    /// Connections whose next request waits for such memory.
    pub waiting: u64,
}

/// A socket that listens for NBD clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Listener {
    /// Path or address.
    pub name: String,
    /// Connections that have attached a volume.
    pub attached: u64,
    /// Connections whose handshake is not finished.
    pub half_open: u64,
    /// Connections turned away since the start, by reason: full, gave_way, handshake_timeout,
    /// stalled.
    pub turned_away: BTreeMap<String, u64>,
}
