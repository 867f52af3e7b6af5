//! Descriptions of pools: what a configuration says of their devices.

use std::path::{Path, PathBuf};
use thermocline_ports::model::Profile;
use thermocline_ports_os::Patience;
use thermocline_ports_os::objects::BucketOptions;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::Settings;

/// The pools of a volume group, as a configuration describes them.
#[derive(Debug, Clone, Copy)]
pub struct GroupConfig<'a> {
    /// Folder of the group's own files.
    pub data: &'a Path,
    /// Fastest first; at least one.
    pub pools: &'a [PoolConfig],
    /// Settings of the group.
    pub settings: &'a Settings,
}

/// A pool.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// For people; 1 to 16 bytes, no two the same.
    pub name: String,
    /// Device with its chunks.
    pub device: DeviceConfig,
    /// A block cache in front of the device.
    pub cache: Option<CacheConfig>,
    /// Profile that placements take it for; `None`: what it is slowed to, or what machines assume.
    pub profile: Option<Profile>,
    /// Kept free for prefetched copies.
    pub reserve: Bytes,
    /// Parts of requests on it at once; `None`: as on all.
    pub depth: Option<u32>,
    /// Limit for what moves of the policy write to it in a day.
    pub moves_a_day: Option<MovesADay>,
    /// Origin of its name.
    pub named_by: NamedBy,
}

/// Limit for what moves of the policy write to a pool in a day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MovesADay {
    /// A number of bytes.
    Bytes(Bytes),
    /// A multiple of the pool's size: half of what its profile says that the device bears. The
    /// other half is the clients'.
    Sizes(f64),
}

impl MovesADay {
    /// Bytes a day on a pool of `size`.
    pub fn of(self, size: Bytes) -> Bytes {
        match self {
            MovesADay::Bytes(bytes) => bytes,
            MovesADay::Sizes(times) => Bytes((size.0 as f64 * times) as u64),
        }
    }
}

/// Origin of a pool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// A configuration that somebody wrote: its device is missed when it is gone.
    Configuration,
    /// The program itself: it is one of the three of a start without a configuration. They may have
    /// been removed or replaced since; the group says which ones it needs.
    Default,
    /// The record of pools that were added to a running engine.
    Record,
}

/// A file or a block device.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Path of it.
    pub path: PathBuf,
    /// Size of a file that is made; `None`: there must be one, or it is a block device.
    pub size: Option<Bytes>,
    /// Model that it is slowed to.
    pub emulate: Option<Emulation>,
    /// Through the page cache although the file system allows to go past it.
    pub buffered: bool,
    /// Time that it may take for one request.
    pub patience: Patience,
    /// The bucket that `path` names; `None`: it names a file or a block device.
    pub bucket: Option<BucketConfig>,
}

impl DeviceConfig {
    /// Profile that it is slowed to.
    pub fn profile(&self) -> Option<&Profile> {
        self.emulate.as_ref().map(|emulation| &emulation.profile)
    }

    /// True if it lies across a network, or is slowed to what does.
    pub fn is_far(&self) -> bool {
        let slowed = self.emulate.as_ref().is_some_and(|emulation| emulation.profile.is_far());
        self.bucket.is_some() || slowed
    }
}

/// A bucket of an object store. Credentials are no part of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketConfig {
    /// Address of it, and how it is asked.
    pub options: BucketOptions,
    /// Writes held in memory.
    pub buffer: Bytes,
    /// Bytes read ahead of a stream of reads, at most; 0: none.
    pub read_ahead: Bytes,
    /// Time that flushes wait for a store that fails.
    pub patience: Nanos,
    /// The file of what this machine remembers of it.
    pub memory: PathBuf,
}

/// A block cache in front of a pool's device.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// Device with its lines.
    pub device: DeviceConfig,
    /// Decisions of the cache.
    pub settings: thermocline_blockcache::Settings,
}

/// Model that a device is slowed to.
#[derive(Debug, Clone)]
pub struct Emulation {
    /// The profile's name or file, as written.
    pub name: String,
    /// The profile.
    pub profile: Profile,
}

/// Name of the file with the pools that were added to a running engine, in its data folder.
pub(super) const ADDED_POOLS_FILE: &str = "added-pools.toml";

/// The record of the pools that were added to the engine of a data folder.
pub fn added_pools_path(data: &Path) -> PathBuf {
    data.join(ADDED_POOLS_FILE)
}

/// True if two paths lead to the same place.
pub fn is_same_place(one: &Path, other: &Path) -> bool {
    one == other || place(one) == place(other)
}

/// The same path for all ways to write it, also where its last part is not there yet.
pub(crate) fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    match (path.parent().and_then(|folder| folder.canonicalize().ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

impl PoolConfig {
    /// Paths of its device, and of its cache's.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let cache = self.cache.iter().map(|cache| cache.device.path.as_path());
        std::iter::once(self.device.path.as_path()).chain(cache)
    }
}
