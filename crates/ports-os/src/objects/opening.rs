//! Making a device in a bucket, and finding the one that is there.
//!
//! 1. The log and the map are listed. Where there is no log, there is no device.
//! 2. The lock is taken, and both are listed again.
//! 3. The newest map is read, and every record behind it, in order and without a gap: that is what
//!    each extent's generation is. No extent is looked at; a million of them are a map of 12 MB.
//! 4. What this machine remembers must be in it.
//! 5. A record of this opening is written where the next one belongs. Only one program can do
//!    that; from then on whoever had the device can write no record any more. A listing that is
//!    stale shows here, too: the place is taken.
//!
//! Detected: lost, damaged and reordered records and maps; a log that is older than what this
//! machine was promised; an object that another program took. Not detected before it is read: an
//! extent's object that is lost or damaged. Not detected at all: a whole bucket put back from an
//! older copy, on a machine that has never seen the newer.

use super::bucket::{Bucket, BucketError};
use super::format::{Generation, Kind, Record, Shape, log_key, map_key};
use super::lease::{Beats, Lease, Refusal};
use super::memory::{Memory, MemoryError, Remembered};
use futures_util::{StreamExt, TryStreamExt};
use thermocline_units::mutants::mutant;

/// Records of the log read at once.
const READERS: usize = 16;

/// A reason that a device in a bucket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenBucketError {
    /// There is no device, and nothing else.
    #[error("there is nothing below the prefix")]
    Nothing,
    /// There is no device, and something else.
    #[error("there are objects below the prefix, and they are no pool; name another prefix")]
    Strange,
    /// Another program has it.
    #[error("the bucket's prefix is in use by {0}; stop that first")]
    InUse(String),
    /// The bucket is older than it should be.
    #[error(
        "the bucket has lost what was flushed to it: its log ends at {found}, this machine saw \
         {remembered}; bring the newer objects back"
    )]
    Stale {
        /// The last record that there is.
        found: u64,
        /// The one that was relied upon.
        remembered: u64,
    },
    /// A record is missing.
    #[error("record {0} of the bucket's log is missing; bring it back")]
    Gap(u64),
    /// A record tells of another device than the others.
    #[error("the object {0} belongs to another device; only one can be below a prefix")]
    Stranger(String),
    /// The bucket was used by another device on this machine.
    #[error("this machine remembers another device there; name another prefix, or remove its file")]
    Another,
    /// A device that was opened as often as can be counted.
    #[error("the device was opened too often")]
    WornOut,
    /// The store failed, or showed something else than was written.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The file of what is remembered failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl From<Refusal> for OpenBucketError {
    fn from(refusal: Refusal) -> OpenBucketError {
        match refusal {
            Refusal::InUse(holder) => OpenBucketError::InUse(holder),
            Refusal::Bucket(error) => OpenBucketError::Bucket(error),
        }
    }
}

/// An open device.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) identity: u64,
    pub(super) shape: Shape,
    /// Generations by extent.
    pub(super) named: Vec<Generation>,
    /// The last record of the log.
    pub(super) sequence: u64,
    pub(super) epoch: u64,
    pub(super) owner: u64,
    /// Maps that there are.
    pub(super) maps: Vec<u64>,
    /// Records behind the newest map that tell of generations, not of openings.
    pub(super) written: Vec<u64>,
    /// The lock; none: the device is only looked at.
    pub(super) lease: Option<Lease>,
}

/// The wish of an opening.
pub(super) struct Wish<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) memory: Option<&'a Memory>,
    /// Random: tells this opening from others.
    pub(super) owner: u64,
    pub(super) beats: Beats,
}

/// Makes a device where nothing is.
pub(super) async fn make(
    wish: &Wish<'_>,
    identity: u64,
    shape: Shape,
) -> Result<Opened, OpenBucketError> {
    if wish.bucket.holds_anything().await? {
        return Err(OpenBucketError::Strange);
    }
    if let Some(memory) = wish.memory
        && memory.read()?.is_some()
    {
        return Err(OpenBucketError::Another);
    }
    let lease = Lease::take(wish.bucket, wish.owner, None, wish.beats).await?;
    let named = vec![Generation::NONE; shape.extents() as usize];
    let (sequence, epoch) = (0, 0);
    let (maps, written) = (Vec::new(), Vec::new());
    let found = Found { identity, shape, named, sequence, epoch, maps, written };
    begin(wish, found, lease).await
}

/// Opens the device that is there, to be written; nobody else can then.
pub(super) async fn open(wish: &Wish<'_>) -> Result<Opened, OpenBucketError> {
    exists(wish.bucket).await?;
    let remembered = wish.memory.map(Memory::read).transpose()?.flatten();
    let gone = remembered.map(|remembered| remembered.owner);
    let lease = Lease::take(wish.bucket, wish.owner, gone, wish.beats).await?;
    let opened = match look(wish.bucket, remembered).await {
        Ok(found) => return begin(wish, found, lease).await,
        Err(error) => error,
    };
    // Nothing was changed: whoever repairs it need not wait.
    let _ = lease.release().await;
    Err(opened)
}

/// Reads the device that is there; what is written to it later is not seen.
pub(super) async fn peek(wish: &Wish<'_>) -> Result<Opened, OpenBucketError> {
    exists(wish.bucket).await?;
    let remembered = wish.memory.map(Memory::read).transpose()?.flatten();
    let found = look(wish.bucket, remembered).await?;
    Ok(found.opened(wish.owner, None))
}

async fn exists(bucket: &Bucket) -> Result<(), OpenBucketError> {
    if !bucket.sequences("log").await?.is_empty() {
        return Ok(());
    }
    match bucket.holds_anything().await? {
        true => Err(OpenBucketError::Strange),
        false => Err(OpenBucketError::Nothing),
    }
}

/// The state that log and map tell of.
struct Found {
    identity: u64,
    shape: Shape,
    named: Vec<Generation>,
    sequence: u64,
    epoch: u64,
    maps: Vec<u64>,
    written: Vec<u64>,
}

impl Found {
    fn of(record: &Record) -> Found {
        Found {
            identity: record.identity,
            shape: record.shape,
            named: vec![Generation::NONE; record.shape.extents() as usize],
            sequence: 0,
            epoch: 0,
            maps: Vec::new(),
            written: Vec::new(),
        }
    }

    fn apply(&mut self, record: &Record) -> Result<(), OpenBucketError> {
        if record.identity != self.identity
            || record.shape != self.shape
            || record.epoch < self.epoch
        {
            return Err(OpenBucketError::Stranger(record.key()));
        }
        for &(extent, generation) in &record.entries {
            self.named[extent as usize] = generation;
        }
        (self.sequence, self.epoch) = (record.sequence, record.epoch);
        if record.kind == Kind::Written {
            self.written.push(record.sequence);
        }
        Ok(())
    }

    fn opened(self, owner: u64, lease: Option<Lease>) -> Opened {
        let Found { identity, shape, named, sequence, epoch, maps, written } = self;
        Opened { identity, shape, named, sequence, epoch, owner, maps, written, lease }
    }
}

async fn look(bucket: &Bucket, remembered: Option<Remembered>) -> Result<Found, OpenBucketError> {
    let maps = bucket.sequences("map").await?;
    let mapped = maps.last().copied().unwrap_or(0);
    let mut found = None;
    if mapped > 0 {
        let map = bucket.record(&map_key(mapped)).await?;
        let mut state = Found::of(&map);
        state.apply(&map)?;
        found = Some(Found { maps, ..state });
    }
    let log = bucket.sequences("log").await?;
    let behind = log.into_iter().filter(|&sequence| sequence > mapped);
    let keys = behind.map(|sequence| {
        let key = log_key(sequence);
        async move { bucket.record(&key).await }
    });
    let mut records = futures_util::stream::iter(keys).buffered(READERS);
    while let Some(record) = records.try_next().await? {
        let state = found.get_or_insert_with(|| Found::of(&record));
        if record.kind == Kind::Map {
            return Err(OpenBucketError::Stranger(record.key()));
        }
        if record.sequence != state.sequence + 1 && !mutant("gap_in_the_log_passed") {
            return Err(OpenBucketError::Gap(state.sequence + 1));
        }
        state.apply(&record)?;
    }
    let found = found.ok_or(OpenBucketError::Gap(1))?;
    match remembered {
        Some(remembered) if remembered.identity != found.identity => Err(OpenBucketError::Another),
        Some(remembered)
            if remembered.sequence > found.sequence && !mutant("older_bucket_passed") =>
        {
            Err(OpenBucketError::Stale { found: found.sequence, remembered: remembered.sequence })
        }
        _ => Ok(found),
    }
}

/// Step 5.
async fn begin(wish: &Wish<'_>, mut found: Found, lease: Lease) -> Result<Opened, OpenBucketError> {
    found.sequence += 1;
    found.epoch += u64::from(!mutant("openings_not_counted"));
    if Generation::new(found.epoch, 0).is_none() {
        return Err(OpenBucketError::WornOut);
    }
    let record = Record {
        kind: Kind::Opened,
        identity: found.identity,
        sequence: found.sequence,
        epoch: found.epoch,
        owner: wish.owner,
        shape: found.shape,
        entries: Vec::new(),
    };
    match wish.bucket.append(&record).await {
        Ok(()) => {}
        Err(BucketError::Exists(key)) => {
            let there = wish.bucket.record(&key).await?;
            if there.owner != wish.owner {
                return Err(OpenBucketError::InUse("another program, just now".to_string()));
            }
        }
        Err(error) => return Err(error.into()),
    }
    if let Some(memory) = wish.memory {
        let (identity, owner) = (found.identity, wish.owner);
        memory.write(Remembered { identity, owner, sequence: found.sequence })?;
    }
    Ok(found.opened(wish.owner, Some(lease)))
}
