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
    /// The name of a policy or of its settings is wrong.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// A setting of a policy does not fit.
    #[error(transparent)]
    PolicySetting(#[from] registry::SettingsError),
    /// The policy is not a cache policy.
    #[error("`{policy}` is no cache; use one such as lru or elru")]
    NoCache {
        /// Name of the policy.
        policy: String,
    },
}

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Techniques to send less.
    pub protocol: Protocol,
    /// Lookup policy, by its name in the registry: it chooses the sender of a block, and pushes.
    pub lookup: String,
    /// Blocks that are kept in memory, 1 or more.
    pub memory_blocks: u32,
    /// Policy of that memory.
    pub memory_policy: String,
    /// True to keep them by volume and block, like a server that does not know contents; for
    /// comparisons.
    pub memory_by_block: bool,
    /// Bytes of a block in memory: [`crate::BLOCK_BYTES`]; fewer where contents are modelled.
    pub block_bytes: usize,
    /// Function that names content.
    pub hash_of: HashOf,
    /// Duration of a lease.
    pub lease: Nanos,
    /// Largest number of hosts; each 64 take 8 B a tracked content.
    pub hosts_max: usize,
    /// Number of tracked contents from which on contents that no host holds are forgotten.
    pub places_min: usize,
    /// Bytes a second that the server's link can send; the load of the link is relative to it.
    pub link_bytes_per_s: u64,
    /// Bytes of a host's requests under way, and of answers that wait for it, above which it is not
    /// heard.
    pub waiting_bytes_max: u64,
    /// Time after which a read that a host serves is assumed to be done.
    pub serve_within: Nanos,
    /// Number of this run; it must differ from that of the last run.
    pub run: u16,
    /// Seed of all random choices.
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
            waiting_bytes_max: 8 << 20,
            serve_within: Nanos::from_micros(20_000),
            run,
            seed,
        }
    }
}

/// Settings of a host's second level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashSettings {
    /// Blocks that the device has room for, 1 or more.
    pub blocks: u32,
    /// Policy that says which block leaves for another.
    pub policy: String,
}

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Techniques to send less; the same as the server's.
    pub protocol: Protocol,
    /// This host's number.
    pub host: HostId,
    /// Blocks that are kept in memory, 1 or more.
    pub cache_blocks: u32,
    /// Policy of that memory.
    pub cache_policy: String,
    /// Second level of the cache, on a flash device; `None`: there is none.
    pub flash: Option<FlashSettings>,
    /// Lookup policy, by its name in the registry: it decides which written blocks and which blocks
    /// from peers are cached, and which of those that memory evicts enter the second level.
    pub lookup: String,
    /// Bytes of a block: [`crate::BLOCK_BYTES`]; fewer where contents are modelled.
    pub block_bytes: usize,
    /// Function that names content.
    pub hash_of: HashOf,
    /// True to name content first even when this host does not hold it.
    pub hash_first_always: bool,
    /// Share of a lease, 0 to 1, by which this host ends it early, because clocks may differ by
    /// so much.
    pub lease_margin: f64,
    /// Time after which the server is asked for a block that a peer has not sent.
    pub peer_within: Nanos,
    /// Time after which a server that does not answer is given up.
    pub answer_within: Nanos,
    /// Bytes of unflushed writes from which on this host flushes by itself.
    pub unflushed_bytes_max: u64,
    /// Versions of written blocks that are kept for a volume; 24 B each.
    pub versions_max: u32,
    /// Seed of all random choices.
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
            flash: None,
            lookup: thermocline_policy::lookup::DEFAULT.to_string(),
            block_bytes: crate::BLOCK_BYTES,
            hash_of,
            hash_first_always: true,
            lease_margin: 0.1,
            peer_within: Nanos::from_micros(50_000),
            answer_within: Nanos::from_secs(30),
            unflushed_bytes_max: 64 << 20,
            versions_max: 1 << 16,
            seed,
        }
    }
}

/// Builds a cache policy for `blocks` blocks.
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
