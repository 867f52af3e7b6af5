//! Settings of a server and of an agent. Plain data, checked when a machine begins.

use crate::messages::{Hash, HostId};
use crate::protocol::Protocol;
use thermocline_policy::cache::CachePolicy;
use thermocline_policy::registry::{self, Built, Geometry, PolicySpec, SpecError};
use thermocline_units::{Bytes, Nanos};

/// Function that names content: BLAKE3-256, live. Whoever can find two blocks with one hash can
/// read what another guest of its domain wrote.
pub type HashOf = fn(&[u8]) -> Hash;

/// A setting that does not fit.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A policy.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// A policy's setting.
    #[error(transparent)]
    PolicySetting(#[from] registry::SettingsError),
    /// A policy of another kind.
    #[error("`{policy}` is no cache; use one such as lru or elru")]
    NoCache {
        /// Its name.
        policy: String,
    },
}

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// What is done to send less.
    pub protocol: Protocol,
    /// Who sends a block, by its name in the registry.
    pub lookup: String,
    /// Blocks that are kept in memory, 1 or more.
    pub memory_blocks: u32,
    /// Policy of that memory.
    pub memory_policy: String,
    /// True to keep them by volume and block, as a server without content would; to compare.
    pub memory_by_block: bool,
    /// Bytes of a block in memory: [`crate::BLOCK_BYTES`]; fewer where contents are modelled.
    pub block_bytes: usize,
    /// Function that names content.
    pub hash_of: HashOf,
    /// Duration of a lease.
    pub lease: Nanos,
    /// Hosts at most: 8 B a tracked content for each 64.
    pub hosts_max: usize,
    /// Contents that are tracked before some that no host holds are forgotten.
    pub places_min: usize,
    /// Bytes a second that the server's link can send: what it being busy is measured by.
    pub link_bytes_per_s: u64,
    /// Time after which a host is taken to have served a read.
    pub serve_within: Nanos,
    /// Number of this run, another one than the last.
    pub run: u16,
    /// Of everything random.
    pub seed: u64,
}

impl ServerSettings {
    /// The defaults.
    pub fn new(hash_of: HashOf, run: u16, seed: u64) -> ServerSettings {
        ServerSettings {
            protocol: Protocol::named("manifest").expect("it is in the list"),
            lookup: thermocline_policy::lookup::DEFAULT.to_string(),
            memory_blocks: 1 << 20,
            memory_policy: "lru".to_string(),
            memory_by_block: false,
            block_bytes: crate::BLOCK_BYTES,
            hash_of,
            lease: Nanos::from_secs(10),
            hosts_max: 64,
            places_min: 1 << 20,
            link_bytes_per_s: 1_250_000_000,
            serve_within: Nanos::from_micros(20_000),
            run,
            seed,
        }
    }
}

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// What is done to send less; the server's.
    pub protocol: Protocol,
    /// This host's number.
    pub host: HostId,
    /// Blocks that are kept in memory, 1 or more.
    pub cache_blocks: u32,
    /// Policy of that memory.
    pub cache_policy: String,
    /// What enters it, by the name of a lookup policy.
    pub lookup: String,
    /// Bytes of a block: [`crate::BLOCK_BYTES`]; fewer where contents are modelled.
    pub block_bytes: usize,
    /// Function that names content.
    pub hash_of: HashOf,
    /// True to name content first even when this host does not hold it.
    pub hash_first_always: bool,
    /// Share of a lease, 0 to 1, after which this host stops although the lease is not over: clocks
    /// may run so much apart.
    pub lease_margin: f64,
    /// Time after which the server is asked for a block that a peer was to send.
    pub peer_within: Nanos,
    /// Time after which a server that does not answer is given up.
    pub answer_within: Nanos,
    /// Bytes of writes that are kept until they are flushed; then this host flushes.
    pub unflushed_bytes_max: u64,
    /// Of everything random.
    pub seed: u64,
}

impl AgentSettings {
    /// The defaults.
    pub fn new(hash_of: HashOf, host: HostId, seed: u64) -> AgentSettings {
        AgentSettings {
            protocol: Protocol::named("manifest").expect("it is in the list"),
            host,
            cache_blocks: 1 << 18,
            cache_policy: "lru".to_string(),
            lookup: thermocline_policy::lookup::DEFAULT.to_string(),
            block_bytes: crate::BLOCK_BYTES,
            hash_of,
            hash_first_always: true,
            lease_margin: 0.1,
            peer_within: Nanos::from_micros(50_000),
            answer_within: Nanos::from_secs(30),
            unflushed_bytes_max: 64 << 20,
            seed,
        }
    }
}

/// A cache policy for so many blocks.
pub(crate) fn cache(
    policy: &str,
    blocks: u32,
    block_bytes: usize,
    seed: u64,
) -> Result<Box<dyn CachePolicy>, SettingsError> {
    let line_bytes = Bytes(block_bytes as u64);
    let geometry = Geometry { lines: blocks.max(1), line_bytes, volumes: 1, seed };
    let spec = PolicySpec::parse(policy)?;
    if spec.is_clairvoyant() {
        return Err(SettingsError::NoCache { policy: policy.to_string() });
    }
    match spec.build(&geometry, None)? {
        Built::Cache(cache) => Ok(cache),
        _ => Err(SettingsError::NoCache { policy: policy.to_string() }),
    }
}
