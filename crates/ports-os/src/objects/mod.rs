//! A block device in a bucket of an S3-compatible object store.
//!
//! [`ObjectDevice`] keeps the contract of [`thermocline_ports::Device`]: start at `device`, which
//! tells how; `upload_round` is what a flush does, `layer` what is in memory, `read_ahead` what is
//! fetched before it is asked for, `format` the bytes in the bucket, `opening` how they are found
//! again, `lease` and the log how two programs are kept apart, `memory` what this machine knows by
//! itself. `worker` is the thread that talks to the store: `bucket` what it asks, `store` and
//! `http` how, `pace` how fast, `traffic` what it counts.
//!
//! [`ObjectReader`] is beside it: it reads objects that others wrote, such as traces.
//!
//! A device is slow, and asked by the extent: put a block cache on a local device in front of it.

mod bucket;
mod credentials;
mod device;
pub mod format;
mod http;
mod layer;
mod lease;
mod memory;
mod opening;
mod pace;
mod read_ahead;
mod reader;
mod store;
mod traffic;
mod upload_round;
mod worker;

pub use bucket::BucketError;
pub use credentials::CredentialsError;
pub use device::ObjectDevice;
pub use lease::Beats;
pub use memory::MemoryError;
pub use opening::OpenBucketError;
pub use pace::Limits;
pub use reader::{Listed, ObjectReader, ReaderError};
pub use store::{BucketOptions, BucketUrl, NoBucketUrl, StoreError};
pub use traffic::{BucketStatus, Prices};

use bucket::Bucket;
use format::Shape;
use memory::Memory;
use object_store::ObjectStore;
use opening::{Opened, Wish};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thermocline_units::{Bytes, Nanos};
use tokio::runtime::Runtime;
use traffic::Traffic;
use worker::Worker;

/// Records of the log behind a map, at most, unless a test says otherwise.
const MAP_RECORDS: usize = 512;

/// The purpose of opening a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Make a device where nothing is; the number tells it from others.
    Make(u64, Shape),
    /// Open the device that is there.
    Run,
    /// Open it to be read only; whoever runs it may go on.
    Look,
}

/// Settings of a device on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectSettings {
    /// Bytes of writes that are held in memory, at most; four extents and more.
    pub buffer: Bytes,
    /// Bytes that are read ahead of a stream of reads, at most; 0: none. Four times as many are
    /// held in memory, at most.
    pub read_ahead: Bytes,
    /// The file of what this machine remembers of the bucket; none: it believes the bucket.
    pub memory: Option<PathBuf>,
    /// Longest time that flushes wait for a store that fails, in all, before they fail too.
    pub patience: Nanos,
    /// The lock's.
    pub beats: Beats,
    /// Tells this opening from all others, so it must be random.
    pub owner: u64,
    /// Records of the log behind a map, at most, before a map is written; 512.
    pub map_records: usize,
}

impl ObjectSettings {
    /// Settings of an opening that is told apart from all others.
    pub fn new(
        buffer: Bytes,
        read_ahead: Bytes,
        patience: Nanos,
        memory: Option<PathBuf>,
    ) -> ObjectSettings {
        // Seeded by the system's random numbers.
        let owner = RandomState::new().hash_one(std::process::id());
        let (beats, map_records) = (Beats::default(), MAP_RECORDS);
        ObjectSettings { buffer, read_ahead, memory, patience, beats, owner, map_records }
    }
}

/// A reason that a device in a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// There is no way to the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Contents of the bucket, or the store itself, forbid it.
    #[error(transparent)]
    Open(#[from] OpenBucketError),
    /// The system gives no thread.
    #[error("the system refuses a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl ObjectError {
    /// True if there is no device yet, and nothing else either.
    pub fn is_nothing(&self) -> bool {
        matches!(self, ObjectError::Open(OpenBucketError::Nothing))
    }

    /// True if the store cannot be asked at this time.
    pub fn is_unreachable(&self) -> bool {
        use BucketError::{NoBucket, Refused, TimedOut};
        let Self::Open(OpenBucketError::Bucket(error)) = self else { return false };
        matches!(error, NoBucket(_) | Refused(_) | TimedOut(_))
    }
}

impl ObjectDevice {
    /// Opens a device in a bucket, or makes one. Blocks until the store has answered.
    ///
    /// # Errors
    /// When the store cannot be asked, or the bucket holds something else than is wished for.
    pub fn open(
        options: &BucketOptions,
        settings: &ObjectSettings,
        purpose: Purpose,
    ) -> Result<ObjectDevice, ObjectError> {
        let traffic = Arc::new(Traffic::new(options.prices));
        let runtime = runtime()?;
        // The store's connections are made on the thread's own runtime, from its first request on.
        let store = store::store(options, &traffic)?;
        let path = PathBuf::from(options.url.to_string());
        let way = Way { store, prefix: options.url.prefix.clone(), path, traffic, runtime };
        way.open(settings, purpose)
    }
}

/// A store, and where in it.
struct Way {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    path: PathBuf,
    traffic: Arc<Traffic>,
    runtime: Runtime,
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

impl Way {
    fn open(
        self,
        settings: &ObjectSettings,
        purpose: Purpose,
    ) -> Result<ObjectDevice, ObjectError> {
        let bucket = Bucket::new(self.store, &self.prefix);
        let memory = match (&settings.memory, purpose) {
            (Some(path), Purpose::Look) if !path.exists() => None,
            (Some(path), _) => Some(memory(path)?),
            (None, _) => None,
        };
        let (owner, beats) = (settings.owner, settings.beats);
        let wish = Wish { bucket: &bucket, memory: memory.as_ref(), owner, beats };
        let opened = self.runtime.block_on(async {
            match purpose {
                Purpose::Make(identity, shape) => opening::make(&wish, identity, shape).await,
                Purpose::Run => opening::open(&wish).await,
                Purpose::Look => opening::peek(&wish).await,
            }
        });
        let mut opened: Opened = opened?;
        let lease = opened.lease.take();
        let writable = lease.is_some();
        let worker = Worker::start(self.runtime, bucket, memory, lease, beats)?;
        let (path, traffic) = (self.path, self.traffic);
        Ok(ObjectDevice::new(opened, worker, settings, path, traffic, writable))
    }
}

fn memory(path: &Path) -> Result<Memory, ObjectError> {
    Memory::open(path).map_err(|error| ObjectError::Open(OpenBucketError::Memory(error)))
}

#[cfg(test)]
mod tests;
