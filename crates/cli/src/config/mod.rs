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

pub(crate) use hints::table_of_classes;
pub(crate) use keys::ConfigError;
pub(crate) use secrets::token;
pub(crate) use standard::Standard;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thermocline_admin::tls::TlsFiles;
use thermocline_engine::ClientLimits;
use thermocline_engine::pools::{GroupConfig, PoolConfig, added_pools_path, is_same_place};
use thermocline_policy::hints::store::PIN_SHARE;
use thermocline_policy::placement::Sla;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::Bytes;
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
    /// Origin of all this.
    pub(crate) origin: Origin,
}

/// Origin of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Somebody wrote this file.
    File(PathBuf),
    /// Without a configuration: one volume on three files, for demonstration.
    Standard,
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

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeConfig {
    /// Its name: as written, else `v` and its place in the list, from 0 on. No two are the same.
    pub(crate) name: String,
    /// True if the name is written; such a volume is made at any start that does not find it.
    pub(crate) named: bool,
    /// Bytes that clients see, when it is made.
    pub(crate) size: Bytes,
    /// Its SLA, at every start.
    pub(crate) sla: Option<Sla>,
}

/// Addresses for NBD clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NbdConfig {
    /// The unix socket.
    pub(crate) socket: PathBuf,
    /// TCP addresses; without TLS none of them can be reached from other machines.
    pub(crate) tcp: Vec<SocketAddr>,
    /// Certificates, for TCP.
    pub(crate) tls: Option<TlsFiles>,
    /// Bounds of what clients may take.
    pub(crate) limits: ClientLimits,
}

/// Addresses of the API, the metrics and the dashboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpConfig {
    /// The unix socket.
    pub(crate) socket: PathBuf,
    /// A TCP address, and the file whose first line is the token that it asks for.
    pub(crate) tcp: Option<(SocketAddr, PathBuf)>,
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

    /// Says that a group's chunks have another size than this names; `None`: they have that.
    pub(crate) fn other_chunk_size(&self, group: Bytes) -> Option<String> {
        let wanted = self.settings.chunk_size;
        (group != wanted).then(|| {
            format!(
                "the group has chunks of {group}, fixed at its first start; `chunk-size` of \
                 {wanted} has no effect"
            )
        })
    }

    /// The part that describes the pools.
    pub(crate) fn group(&self) -> GroupConfig<'_> {
        GroupConfig { data: &self.data, pools: &self.pools, settings: &self.settings }
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

    /// Checks the files that listeners, buckets and hints need: certificates, keys, tokens, a table
    /// of classes.
    ///
    /// # Errors
    /// When one cannot be read, is of another kind, or is a secret that everybody can read; a line
    /// for each such file.
    pub(crate) fn check_secrets(&self) -> Result<(), ConfigError> {
        let buckets = self.pools.iter().filter_map(|pool| pool.device.bucket.as_ref());
        let authorities = buckets.filter_map(|bucket| bucket.options.ca_file.as_deref());
        let tls = self.nbd.tls.iter().map(secrets::check_tls);
        let tokens = self.http.tcp.iter().map(|(_, file)| token(file).map(drop));
        let classes = self.hints.classes.iter().map(|file| table_of_classes(file).map(drop));
        let authorities = authorities.map(secrets::check_authority);
        secrets::all(tls.chain(tokens).chain(authorities).chain(classes))
    }

    /// Bytes of all volumes that the first start makes.
    pub(crate) fn volume_bytes(&self) -> Bytes {
        let sizes = self.volumes.iter().map(|volume| volume.size.0);
        Bytes(sizes.fold(0, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests;
