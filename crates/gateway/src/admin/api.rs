//! History of a tunnel's end in the API, second by second; the rest is its status. Plain data.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A second of a tunnel's end, over all its links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TunnelSecond {
    /// Its number since the start.
    pub number: u64,
    /// Bytes of this end's clients that were taken in.
    pub bytes: u64,
    /// Bytes that were sent on links for them.
    pub sent: u64,
    /// Bytes that came on links.
    pub received: u64,
    /// Clients, or servers, at its end.
    pub clients: usize,
    /// Links that were up at its end.
    pub links: usize,
    /// Each class of flows that carried something.
    pub classes: Vec<ClassSecond>,
}

/// A second of a class of flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClassSecond {
    /// The class: the server's port.
    pub class: u16,
    /// Bytes of clients.
    pub bytes: u64,
    /// Bytes that were sent for them.
    pub sent: u64,
    /// The choice by which it was cut at its end.
    pub choice: String,
}
