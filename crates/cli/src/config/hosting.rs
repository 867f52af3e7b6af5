//! The configurations of a storage server and of a host's agent: what `thermocline store serve
//! --config` and `thermocline host serve --config` read.
//!
//! docs/formats/hosting.md tells every key. Paths are beside the configuration file.

use super::HttpConfig;
use super::keys::{At, ConfigError, File, Keys};
use super::read::parse_address;
use super::tactics;
use crate::commands::store::volume_name;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use thermocline_hostcache::{HostId, Protocol};
use thermocline_hosting::{HostConfig, Keyed, Limits, Peer, STORE, StoreConfig};
use thermocline_policy::tactics::StoreTactics;
use thermocline_units::{Bytes, Nanos};

/// Socket of a storage server's API when none is named.
pub(crate) const STORE_SOCKET: &str = "thermocline-store.sock";
/// Socket of an agent's API when none is named.
pub(crate) const HOST_SOCKET: &str = "thermocline-host.sock";
/// Socket of an agent's NBD exports when none is named.
pub(crate) const NBD_SOCKET: &str = "thermocline-host.nbd";
/// Port of a storage server.
pub(crate) const STORE_PORT: u16 = 7600;
/// The least and the greatest of leases: shorter ones are load of their own.
const LEASES: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(600));
/// Port of the page when none is named.
const HTTP_PORT: u16 = 7680;
/// The least and the greatest of second levels.
const FLASH_SIZES: (Bytes, Bytes) = (Bytes::from_mib(1), Bytes::from_gib(8192));
/// The greatest number of a host.
pub(crate) const HOSTS_MAX: u32 = 65_535;
/// Choice of who sends a block: a store does not know which hosts are connected with each other,
/// and one that waits for a host that is not there waits for nothing.
pub(crate) const LOOKUP: &str = "server-first";
/// Bytes a second of a store's network when nothing is said: 10 Gbit/s.
const LINK: u64 = 1_250_000_000;
/// Policy of flash when nothing is said: slots are written one after the other, around in a ring.
pub(crate) const FLASH_POLICY: &str = "fifo";
/// Memory for blocks when nothing is said.
pub(crate) const MEMORY: Bytes = Bytes::from_mib(256);

/// A volume of the engine of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumePlace {
    /// The engine's configuration.
    pub(crate) config: PathBuf,
    /// The volume's name.
    pub(crate) volume: String,
}

/// Place of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorePlace {
    /// A file or a block device.
    Device(PathBuf),
    /// A volume of an engine in the same process.
    Volume(VolumePlace),
}

/// Configuration of a storage server.
#[derive(Debug, Clone)]
pub(crate) struct StoreServe {
    pub(crate) place: StorePlace,
    pub(crate) config: StoreConfig,
    pub(crate) tactics: StoreTactics,
    pub(crate) admin: HttpConfig,
}

/// Configuration of an agent.
#[derive(Debug, Clone)]
pub(crate) struct HostServe {
    pub(crate) config: HostConfig,
    /// Device of the cache's second level.
    pub(crate) flash: Option<FlashPlace>,
    pub(crate) admin: HttpConfig,
}

/// Device of a second level: a file or a block device, and the size of a file that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlashPlace {
    pub(crate) path: PathBuf,
    pub(crate) size: Option<Bytes>,
}

/// The defaults of a storage server.
pub(crate) fn store_defaults(listen: SocketAddr) -> StoreConfig {
    StoreConfig {
        listen,
        keys: None,
        hosts: BTreeMap::new(),
        protocol: protocol("manifest").expect("it is in the list"),
        lookup: LOOKUP.to_string(),
        link_bytes_per_s: LINK,
        memory: MEMORY,
        lease: Nanos::from_secs(10),
        limits: Limits::default(),
    }
}

/// The defaults of an agent.
pub(crate) fn host_defaults(host: HostId, store: SocketAddr) -> HostConfig {
    HostConfig {
        host,
        store,
        volumes: Vec::new(),
        nbd: PathBuf::from(NBD_SOCKET),
        nbd_tcp: None,
        listen: None,
        peers: Vec::new(),
        keys: None,
        protocol: protocol("manifest").expect("it is in the list"),
        lookup: thermocline_policy::lookup::DEFAULT.to_string(),
        cache: MEMORY,
        policy: "lru".to_string(),
        flash_policy: FLASH_POLICY.to_string(),
        limits: Limits::default(),
    }
}

/// A protocol by its name.
///
/// # Errors
/// There is none of that name.
pub(crate) fn protocol(name: &str) -> Result<Protocol, String> {
    Protocol::named(name).ok_or_else(|| {
        let names: Vec<&str> = Protocol::ALL.iter().map(|(name, _)| *name).collect();
        format!("there is no protocol `{name}`; there are {}", names.join(", "))
    })
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        let path = path.display();
        ConfigError::new(format!("{path}: {error}; docs/formats/hosting.md has an example"))
    })
}

/// Reads a storage server's configuration.
///
/// # Errors
/// It cannot be read, or a key is unknown, missing or wrong. The message names file and line.
pub(crate) fn load_store(path: &Path) -> Result<StoreServe, ConfigError> {
    read_store(&text_of(path)?, path)
}

/// Reads an agent's configuration.
///
/// # Errors
/// As for [`load_store`].
pub(crate) fn load_host(path: &Path) -> Result<HostServe, ConfigError> {
    read_host(&text_of(path)?, path)
}

fn needed<T>(keys: &Keys<'_>, found: Option<T>, what: &str) -> Result<T, ConfigError> {
    found.ok_or_else(|| keys.problem(format!("there is no {what}")))
}

fn address(
    keys: &mut Keys<'_>,
    key: &'static str,
    port: u16,
) -> Result<Option<SocketAddr>, ConfigError> {
    let text = keys.text(key)?;
    text.map(|text| parse_address(keys, &text, port)).transpose()
}

fn of_protocol(keys: &mut Keys<'_>, into: &mut Protocol) -> Result<(), ConfigError> {
    if let Some(At { value, line }) = keys.text("protocol")? {
        *into = protocol(&value).map_err(|error| keys.file.problem(line, error))?;
    }
    Ok(())
}

fn memory(keys: &mut Keys<'_>, key: &'static str, into: &mut Bytes) -> Result<(), ConfigError> {
    let fits = |size: &Bytes| (Bytes::from_mib(1)..=Bytes::from_gib(4096)).contains(size);
    if let Some(size) = keys.quantity(key, "from 1 MiB to 4 TiB, such as \"1GiB\"", fits)? {
        *into = size.value;
    }
    Ok(())
}

/// The number of a machine.
fn number(keys: &mut Keys<'_>) -> Result<HostId, ConfigError> {
    let id = keys.count("id", 1..=HOSTS_MAX)?;
    let id = needed(keys, id, "`id`; each host has a number of its own, such as id = 1")?;
    Ok(HostId(id as u16))
}

fn read_store(text: &str, path: &Path) -> Result<StoreServe, ConfigError> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut keys = Keys::parse(File { text, path }, "the configuration")?;
    let place = store_place(&mut keys, beside)?;
    let listen = address(&mut keys, "listen", STORE_PORT)?;
    let mut config =
        store_defaults(listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], STORE_PORT))));
    of_protocol(&mut keys, &mut config.protocol)?;
    if let Some(lookup) = keys.text("lookup")? {
        config.lookup = lookup.value;
    }
    config.link_bytes_per_s = keys.bandwidth("link")?.map_or(LINK, |rate| rate.value);
    memory(&mut keys, "memory", &mut config.memory)?;
    let (least, most) = LEASES;
    let fits = |lease: &Nanos| (least..=most).contains(lease);
    if let Some(lease) = keys.quantity("lease", "from 1 s to 10 min, such as \"10s\"", fits)? {
        config.lease = lease.value;
    }
    let tactics = tactics::in_force(&mut keys, StoreTactics::of)?;
    let admin = ways(&mut keys, beside, STORE_SOCKET)?;
    let own = keys.text("key")?;
    let mut peers = Vec::new();
    for mut table in keys.tables_if_any("host")? {
        let host = number(&mut table)?;
        let domains = table.counts("domains", 0..=63)?;
        let domains = match domains.is_empty() {
            true => u64::MAX,
            false => domains.iter().fold(0, |bits, domain| bits | 1 << domain),
        };
        if config.hosts.insert(host, domains).is_some() {
            return Err(table.problem(format!("two hosts have the number {}", host.0)));
        }
        match (table.text("key")?, &own) {
            (Some(key), Some(_)) => peers.push((host, beside.join(key.value))),
            (Some(_), None) => return Err(table.problem(NO_OWN_KEY)),
            (None, Some(_)) => {
                return Err(table.problem("this host has no `key`; name its NAME.pub"));
            }
            (None, None) => {}
        }
        table.finish()?;
    }
    config.keys = own.map(|key| Keyed { key: beside.join(key.value), peers });
    if config.keys.is_some() && config.hosts.is_empty() {
        let text = "there is a `key`, and no host could come in; add a table [[host]] for each";
        return Err(keys.problem(text));
    }
    keys.finish()?;
    Ok(StoreServe { place, config, tactics, admin })
}

/// Ways to the API: its socket, and an address for browsers.
fn ways(keys: &mut Keys<'_>, beside: &Path, socket: &str) -> Result<HttpConfig, ConfigError> {
    let socket = keys.text("socket")?.map_or(socket.to_string(), |socket| socket.value);
    let address = keys.text("http")?;
    let token = keys.text("token-file")?;
    let tcp = match (address, token) {
        (None, None) => None,
        (Some(address), Some(token)) => {
            let text = "the API is not encrypted; listen on 127.0.0.1, and forward from there";
            let line = address.line;
            let address = parse_address(keys, &address, HTTP_PORT)?;
            if !address.ip().is_loopback() {
                return Err(keys.file.problem(line, text));
            }
            Some((address, beside.join(token.value)))
        }
        _ => {
            let text = "`http` and `token-file` go together: an address, and the file of its token";
            return Err(keys.problem(text));
        }
    };
    Ok(HttpConfig { socket: beside.join(socket), tcp })
}

/// The device of a store, or the volume of an engine.
fn store_place(keys: &mut Keys<'_>, beside: &Path) -> Result<StorePlace, ConfigError> {
    let device = keys.text("device")?;
    let (engine, volume) = (keys.text("engine")?, keys.text("volume")?);
    match (device, engine, volume) {
        (Some(device), None, None) => Ok(StorePlace::Device(beside.join(device.value))),
        (None, Some(engine), Some(volume)) => Ok(StorePlace::Volume(VolumePlace {
            config: beside.join(engine.value),
            volume: volume.value,
        })),
        (None, None, None) => {
            let text = "there is no `device`; name the store's file or block device, or `engine` and \
                        `volume`: an engine's configuration, and a volume of it";
            Err(keys.problem(text))
        }
        (None, _, _) => Err(keys.problem(
            "`engine` and `volume` go together: an engine's configuration, and a volume of it",
        )),
        (Some(_), _, _) => Err(keys.problem(
            "a store has a `device`, or is on a `volume` of an `engine`; name one of them",
        )),
    }
}

/// Keys of others tell nothing where there is none to answer with.
const NO_OWN_KEY: &str = "this host has a `key`, but there is no `key` above the tables: without one nobody is asked for \
     theirs; name the file of this end's own key";

fn read_host(text: &str, path: &Path) -> Result<HostServe, ConfigError> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut keys = Keys::parse(File { text, path }, "the configuration")?;
    let host = number(&mut keys)?;
    let store = address(&mut keys, "store", STORE_PORT)?;
    let store = store.unwrap_or(SocketAddr::from(([127, 0, 0, 1], STORE_PORT)));
    let mut config = host_defaults(host, store);
    for volume in keys.texts("volumes")? {
        let file = File { text, path };
        let name = volume_name(&volume.value).map_err(|why| file.problem(volume.line, why))?;
        config.volumes.push(name);
    }
    let nbd = keys.text("nbd")?.map_or(NBD_SOCKET.to_string(), |nbd| nbd.value);
    config.nbd = beside.join(nbd);
    config.nbd_tcp = address(&mut keys, "nbd-tcp", 10_809)?;
    config.listen = address(&mut keys, "listen", 7601)?;
    of_protocol(&mut keys, &mut config.protocol)?;
    if let Some(lookup) = keys.text("lookup")? {
        config.lookup = lookup.value;
    }
    memory(&mut keys, "cache", &mut config.cache)?;
    if let Some(policy) = keys.text("policy")? {
        config.policy = policy.value;
    }
    if let Some(clients) = keys.count("clients", 1..=4096)? {
        config.limits.clients_max = clients as usize;
    }
    let flash = flash(&mut keys, beside, &mut config.flash_policy)?;
    let admin = ways(&mut keys, beside, HOST_SOCKET)?;
    let (own, of_store) = (keys.text("key")?, keys.text("store-key")?);
    let mut known = Vec::new();
    if let Some(key) = &of_store {
        known.push((STORE, beside.join(&key.value)));
    }
    if own.is_some() != of_store.is_some() {
        let text = "`key` and `store-key` go together: this host's NAME.key, the store's NAME.pub";
        return Err(keys.problem(text));
    }
    for mut table in keys.tables_if_any("peer")? {
        let peer = number(&mut table)?;
        let address = address(&mut table, "address", 7601)?;
        let address = needed(&table, address, "`address`; where that host listens for others")?;
        if peer == host || config.peers.iter().any(|other| other.host == peer) {
            return Err(table.problem(format!("the number {} is another host's", peer.0)));
        }
        match table.text("key")? {
            Some(_) if own.is_none() => return Err(table.problem(NO_OWN_KEY)),
            Some(key) => known.push((peer, beside.join(key.value))),
            None if own.is_some() => {
                return Err(table.problem("this host has no `key`; name its NAME.pub"));
            }
            None => {}
        }
        table.finish()?;
        config.peers.push(Peer { host: peer, address });
    }
    config.keys = own.map(|key| Keyed { key: beside.join(key.value), peers: known });
    keys.finish()?;
    Ok(HostServe { config, flash, admin })
}

/// The second level of a cache.
fn flash(
    keys: &mut Keys<'_>,
    beside: &Path,
    policy: &mut String,
) -> Result<Option<FlashPlace>, ConfigError> {
    let path = keys.text("flash")?;
    let fits = |size: &Bytes| FLASH_SIZES.0 <= *size && *size <= FLASH_SIZES.1;
    let size = keys.quantity("flash-size", "from 1 MiB to 8 TiB, such as \"100GiB\"", fits)?;
    let named = keys.text("flash-policy")?;
    let Some(path) = path else {
        if size.is_some() || named.is_some() {
            return Err(keys.problem("there is no `flash`; name its file or block device"));
        }
        return Ok(None);
    };
    if let Some(named) = named {
        *policy = named.value;
    }
    Ok(Some(FlashPlace { path: beside.join(path.value), size: size.map(|size| size.value) }))
}

#[cfg(test)]
mod tests;
