//! The configuration of an engine: what `thermocline up CONFIG` and `thermocline check CONFIG`
//! read.
//!
//! Plain data, checked as far as a file can be checked without opening a device. Every key is told
//! in docs/formats/configuration.md. Reading a configuration changes nothing anywhere.
//!
//! Relative paths: `data`, profiles, certificates and tokens are beside the configuration file;
//! pools and sockets are in the data folder.

pub(crate) mod accel;
pub(crate) mod balance;
mod bucket;
mod hints;
pub(crate) mod hosting;
mod keys;
pub(crate) mod library;
mod read;
mod scrub;
mod secrets;
mod standard;
mod tactics;
mod volumes;

pub(crate) use keys::ConfigError;
pub(crate) use secrets::token;
pub(crate) use standard::Standard;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thermocline_engine::ClientLimits;
use thermocline_policy::hints::store::PIN_SHARE;
use thermocline_policy::placement::Sla;
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::model::Profile;
use thermocline_ports_os::Patience;
use thermocline_ports_os::objects::BucketOptions;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::Settings;

/// Configuration of an engine.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The folder of pools and sockets that are not told to be elsewhere.
    pub(crate) data: PathBuf,
    /// Fastest first; at least one.
    pub(crate) pools: Vec<PoolConfig>,
    /// The volumes that the first start makes; at least one.
    pub(crate) volumes: Vec<VolumeConfig>,
    /// Addresses for NBD clients.
    pub(crate) nbd: NbdConfig,
    /// Addresses of the API, the metrics and the dashboard.
    pub(crate) http: HttpConfig,
    /// Policy that decides about moves; `None`: none.
    pub(crate) policy: Option<PolicySpec>,
    /// Sources of hints that need no asking.
    pub(crate) hints: HintsConfig,
    /// Verification of what pools hold.
    pub(crate) scrub: ScrubConfig,
    /// Settings of the group.
    pub(crate) settings: Settings,
}

/// Verifying that nobody has to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScrubConfig {
    /// Time between two scrubs of all pools; `None`: when somebody asks.
    pub(crate) every: Option<Duration>,
}

impl Default for ScrubConfig {
    /// Every 30 days, as administrators of file systems do.
    fn default() -> ScrubConfig {
        ScrubConfig { every: Some(Duration::from_secs(30 * 86_400)) }
    }
}

/// Hints that nobody has to give.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HintsConfig {
    /// Time between two surveys of file systems on volumes; `None`: there are none.
    pub(crate) survey: Option<Duration>,
    /// The table of classes; `None`: the standard one.
    pub(crate) classes: Option<PathBuf>,
    /// Share of each pool's chunks that may be pinned, 0 to 1.
    pub(crate) pins: f64,
}

impl Default for HintsConfig {
    fn default() -> HintsConfig {
        HintsConfig { survey: None, classes: None, pins: PIN_SHARE }
    }
}

/// A pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolConfig {
    /// For people; 1 to 16 bytes, no two the same.
    pub(crate) name: String,
    /// Device with its chunks.
    pub(crate) device: DeviceConfig,
    /// A block cache in front of the device.
    pub(crate) cache: Option<CacheConfig>,
    /// Profile that placements take it for; `None`: what it is slowed to, or what machines assume.
    pub(crate) profile: Option<Profile>,
    /// Kept free for prefetched copies.
    pub(crate) reserve: Bytes,
    /// Parts of requests on it at once; `None`: as on all.
    pub(crate) depth: Option<u32>,
    /// Limit for what moves of the policy write to it in a day.
    pub(crate) moves_a_day: Option<MovesADay>,
    /// Origin of its name.
    pub(crate) named_by: NamedBy,
}

/// Limit for what moves of the policy write to a pool in a day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MovesADay {
    /// So many bytes.
    Bytes(Bytes),
    /// So many times the pool's size: half of what its profile says that the device bears. The
    /// other half is the clients'.
    Sizes(f64),
}

impl MovesADay {
    /// Bytes a day on a pool of `size`.
    pub(crate) fn of(self, size: Bytes) -> Bytes {
        match self {
            MovesADay::Bytes(bytes) => bytes,
            MovesADay::Sizes(times) => Bytes((size.0 as f64 * times) as u64),
        }
    }
}

/// Origin of a pool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// A configuration that somebody wrote: its device is missed when it is gone.
    Configuration,
    /// Nobody, so it is one of the three of a start without a configuration. They may have been
    /// removed or replaced since; the group says which ones it needs.
    Default,
    /// The record of pools that were added to a running engine.
    Record,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeConfig {
    /// Its name: as written, else `v` and its place in the list, from 0 on. No two are the same.
    pub(crate) name: String,
    /// True if the name is written; such a volume is made at any start that does not find it.
    pub(crate) named: bool,
    /// Bytes that clients see, when it is made.
    pub(crate) size: Bytes,
    /// Promise to it, at every start.
    pub(crate) sla: Option<Sla>,
}

/// A file or a block device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceConfig {
    /// Path of it.
    pub(crate) path: PathBuf,
    /// Size of a file that is made; `None`: there must be one, or it is a block device.
    pub(crate) size: Option<Bytes>,
    /// Model that it is slowed to.
    pub(crate) emulate: Option<Emulation>,
    /// Through the page cache although the file system allows to go past it.
    pub(crate) buffered: bool,
    /// Time that it may take for one request.
    pub(crate) patience: Patience,
    /// The bucket that `path` names; `None`: it names a file or a block device.
    pub(crate) bucket: Option<BucketConfig>,
}

impl DeviceConfig {
    /// Profile that it is slowed to.
    pub(crate) fn profile(&self) -> Option<&Profile> {
        self.emulate.as_ref().map(|emulation| &emulation.profile)
    }

    /// True if it lies across a network, or is slowed to what does.
    pub(crate) fn is_far(&self) -> bool {
        let slowed = self.emulate.as_ref().is_some_and(|emulation| emulation.profile.is_far());
        self.bucket.is_some() || slowed
    }
}

/// A bucket of an object store. Credentials are no part of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BucketConfig {
    /// Address of it, and how it is asked.
    pub(crate) options: BucketOptions,
    /// Writes held in memory.
    pub(crate) buffer: Bytes,
    /// Time that flushes wait for a store that fails.
    pub(crate) patience: Nanos,
    /// The file of what this machine remembers of it.
    pub(crate) memory: PathBuf,
}

/// A block cache in front of a pool's device.
#[derive(Debug, Clone)]
pub(crate) struct CacheConfig {
    /// Device with its lines.
    pub(crate) device: DeviceConfig,
    /// Decisions of the cache.
    pub(crate) settings: thermocline_blockcache::Settings,
}

/// Model that a device is slowed to.
#[derive(Debug, Clone)]
pub(crate) struct Emulation {
    /// The profile's name or file, as written.
    pub(crate) name: String,
    /// The profile.
    pub(crate) profile: Profile,
}

/// Addresses for NBD clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NbdConfig {
    /// The unix socket.
    pub(crate) socket: PathBuf,
    /// TCP addresses; without TLS none of them can be reached from other machines.
    pub(crate) tcp: Vec<SocketAddr>,
    /// Certificates, for TCP.
    pub(crate) tls: Option<TlsConfig>,
    /// Bounds of what clients may take.
    pub(crate) limits: ClientLimits,
}

/// Files in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    /// The server's certificate, with those between it and the root.
    pub(crate) cert: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// Authority that signs clients' certificates; `None`: clients need none.
    pub(crate) client_ca: Option<PathBuf>,
}

/// Addresses of the API, the metrics and the dashboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpConfig {
    /// The unix socket.
    pub(crate) socket: PathBuf,
    /// A TCP address, and the file whose first line is the token that it asks for.
    pub(crate) tcp: Option<(SocketAddr, PathBuf)>,
}

/// The record of the pools that were added to the engine of a data folder.
pub(crate) fn added_pools_path(data: &Path) -> PathBuf {
    data.join("added-pools.toml")
}

/// True if two paths lead to the same place.
pub(crate) fn is_same_place(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    one == other || place(one) == place(other)
}

impl PoolConfig {
    /// Paths of its device, and of its cache's.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let cache = self.cache.iter().map(|cache| cache.device.path.as_path());
        std::iter::once(self.device.path.as_path()).chain(cache)
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// When it cannot be read, a key is unknown, missing or wrong. The message names file and line.
    pub(crate) fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::new(format!(
                "{}: {error}; docs/formats/configuration.md has an example",
                path.display()
            ))
        })?;
        read::config(&text, path)
    }

    /// True if a pool, or a cache of one, is there.
    fn names(&self, place: &Path) -> bool {
        self.pools.iter().flat_map(PoolConfig::paths).any(|path| is_same_place(path, place))
    }

    /// The same with the pools that were added while an engine ran and that it does not name; the
    /// data folder has the record of them.
    ///
    /// # Errors
    /// When the record is there and cannot be read.
    pub(crate) fn with_added_pools(mut self) -> Result<Config, ConfigError> {
        let path = added_pools_path(&self.data);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(error) => return Err(ConfigError::new(format!("{}: {error}", path.display()))),
        };
        for pool in read::added_pools(&text, &path, &self.data, self.settings.chunk_size)? {
            if !self.names(&pool.device.path) {
                self.pools.push(pool);
            }
        }
        Ok(self)
    }

    /// Checks the files that the listeners need: certificates, keys, tokens.
    ///
    /// # Errors
    /// When one cannot be read, is of another kind, or is a secret that everybody can read.
    pub(crate) fn check_secrets(&self) -> Result<(), ConfigError> {
        if let Some(tls) = &self.nbd.tls {
            secrets::check_tls(tls)?;
        }
        match &self.http.tcp {
            Some((_, token_file)) => token(token_file).map(drop),
            None => Ok(()),
        }
    }

    /// Bytes of all volumes that the first start makes.
    pub(crate) fn volume_bytes(&self) -> Bytes {
        let sizes = self.volumes.iter().map(|volume| volume.size.0);
        Bytes(sizes.fold(0, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests;
