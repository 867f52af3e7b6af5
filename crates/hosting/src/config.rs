//! Settings of a storage server and of a host's agent: plain data.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use thermocline_hostcache::{HostId, Protocol};
use thermocline_units::{Bytes, Nanos};

/// Bounds, each with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once that have not shown their key; 64. One address gets an eighth of them.
    pub strangers_max: usize,
    /// Connections of other machines at once; 256.
    pub connections_max: usize,
    /// Connections at once of one host that has shown its key; 8.
    pub of_host_max: usize,
    /// Time for TCP and TLS between machines, and then for saying which machine it is; 10 s.
    pub handshake_within: Duration,
    /// Longest time between tries to reach another machine; 5 s.
    pub back_off_max: Duration,
    /// NBD clients of an agent at once; 64.
    pub clients_max: usize,
    /// Bytes that requests of NBD clients hold together beyond their own share; 256 MiB.
    pub client_bytes: Bytes,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            strangers_max: 64,
            connections_max: 256,
            of_host_max: 8,
            handshake_within: Duration::from_secs(10),
            back_off_max: Duration::from_secs(5),
            clients_max: 64,
            client_bytes: Bytes::from_mib(256),
        }
    }
}

/// Keys: one's own, and those of machines that may be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    /// This machine's `NAME.key`.
    pub key: PathBuf,
    /// Numbers of machines, and their `NAME.pub`.
    pub peers: Vec<(HostId, PathBuf)>,
}

/// Settings of a storage server.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Address where hosts come in.
    pub listen: SocketAddr,
    /// Keys; needed where a network reaches `listen`.
    pub keys: Option<Keyed>,
    /// Hosts that may come, and the bits of domains whose content they may use; none named: every
    /// one, and all domains.
    pub hosts: BTreeMap<HostId, u64>,
    /// Protocol: what is done to send less.
    pub protocol: Protocol,
    /// Choice of who sends a block, by its name in the registry.
    pub lookup: String,
    /// Bytes a second that the link to hosts can carry; `by-load` asks which share of it is busy.
    pub link_bytes_per_s: u64,
    /// Bytes of blocks that are kept in memory.
    pub memory: Bytes,
    /// Duration of a lease.
    pub lease: Nanos,
    /// Bounds.
    pub limits: Limits,
}

/// Another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub host: HostId,
    /// Address where it listens for other hosts.
    pub address: SocketAddr,
}

/// Settings of a host's agent.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// This host's number.
    pub host: HostId,
    /// The storage server.
    pub store: SocketAddr,
    /// Volumes that are attached and exported.
    pub volumes: Vec<String>,
    /// Unix socket of the NBD exports.
    pub nbd: PathBuf,
    /// Address of this machine where NBD clients come in as well.
    pub nbd_tcp: Option<SocketAddr>,
    /// Address where other hosts come in; `None`: they do not.
    pub listen: Option<SocketAddr>,
    /// Other hosts.
    pub peers: Vec<Peer>,
    /// Keys of the store (number [`STORE`]) and of other hosts.
    pub keys: Option<Keyed>,
    /// Protocol: what is done to send less; the server's.
    pub protocol: Protocol,
    /// Choice of what enters the cache, by the name of a lookup policy.
    pub lookup: String,
    /// Bytes of blocks that are kept in memory.
    pub cache: Bytes,
    /// Policy of that memory.
    pub policy: String,
    /// Policy of its second level, where there is one.
    pub flash_policy: String,
    /// Bounds.
    pub limits: Limits,
}

/// The number under which a store's key stands among those of hosts; no host has it.
pub const STORE: HostId = HostId(0);
