//! Lease of a device: the object `lock`, which names the program that has it, and is renewed.
//!
//! It is a courtesy, not what keeps two programs apart: that is the log, whose next record only
//! one of them can write. But it tells the second one before it does any harm to the first.
//!
//! 1. Whoever opens a device creates `lock`. If there is one, it looks for as long as a watch
//!    lasts whether it changes; if so, somebody has the device. No two machines' clocks are
//!    compared. If the lock was made on this machine, whose memory of the bucket is locked by us
//!    now, its maker is known to be gone and nobody waits.
//! 2. The owner writes it anew once a beat. When it finds another owner's, it has lost the device.
//! 3. It is removed when the device is closed.

use super::bucket::{Bucket, BucketError};
use std::time::Duration;
use thermocline_units::mutants::mutant;

const KEY: &str = "lock";

/// Times between an owner's signs of life, and of those who watch for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beats {
    /// Time between beats; each is two requests.
    pub every: Duration,
    /// Time that a lock is watched; more than two beats, with the time that requests may take.
    pub watch: Duration,
}

impl Default for Beats {
    fn default() -> Beats {
        Beats { every: Duration::from_secs(20), watch: Duration::from_secs(90) }
    }
}

/// A lock as it is in the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lock {
    owner: u64,
    beat: u64,
    /// For people.
    holder: String,
}

/// A reason that a device cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// Somebody has it.
    #[error("in use by {0}")]
    InUse(String),
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

/// A held lock.
#[derive(Debug)]
pub(super) struct Lease {
    bucket: Bucket,
    lock: Lock,
}

impl Lock {
    fn encode(&self) -> Vec<u8> {
        let Lock { owner, beat, holder } = self;
        format!("owner {owner:016x}\nbeat {beat}\nholder {holder}\n").into_bytes()
    }

    /// Whatever is not understood is somebody else's.
    fn decode(bytes: &[u8]) -> Lock {
        let text = String::from_utf8_lossy(bytes);
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let holder: String =
            field("holder").unwrap_or("somebody unknown").chars().take(200).collect();
        let owner = field("owner").and_then(|owner| u64::from_str_radix(owner, 16).ok());
        let beat = field("beat").and_then(|beat| beat.parse().ok());
        Lock { owner: owner.unwrap_or(0), beat: beat.unwrap_or(0), holder }
    }
}

/// Our own name, for people.
fn holder() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("process {} on {host}", std::process::id())
}

impl Lease {
    /// Takes the device for `owner`; `gone` is an owner that is known to be no more.
    pub(super) async fn take(
        bucket: &Bucket,
        owner: u64,
        gone: Option<u64>,
        beats: Beats,
    ) -> Result<Lease, Refusal> {
        let lock = Lock { owner, beat: 0, holder: holder() };
        match bucket.create(KEY, lock.encode()).await {
            Ok(()) => return Ok(Lease { bucket: bucket.clone(), lock }),
            Err(BucketError::Exists(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let first = look(bucket).await?;
        // Ours: the answer to the request above was lost, and it was sent again.
        let is_free = |found: &Lock| Some(found.owner) == gone || found.owner == owner;
        if let Some(found) = first.filter(|found| !is_free(found)) {
            tokio::time::sleep(beats.watch).await;
            match look(bucket).await? {
                Some(now) if now != found => return Err(Refusal::InUse(now.holder)),
                _ => {}
            }
        }
        bucket.put(KEY, lock.encode()).await?;
        Ok(Lease { bucket: bucket.clone(), lock })
    }

    /// Shows that the owner lives; false: another one has the device.
    pub(super) async fn beat(&mut self) -> Result<bool, BucketError> {
        match look(&self.bucket).await? {
            Some(found)
                if found.owner != self.lock.owner && !mutant("another_ones_lock_passed") =>
            {
                return Ok(false);
            }
            _ => {}
        }
        self.lock.beat += 1;
        self.bucket.put(KEY, self.lock.encode()).await.map(|()| true)
    }

    /// Lets the device go.
    pub(super) async fn release(self) -> Result<(), BucketError> {
        match look(&self.bucket).await? {
            Some(found) if found.owner == self.lock.owner => {
                self.bucket.delete(vec![KEY.to_string()]).await
            }
            _ => Ok(()),
        }
    }
}

async fn look(bucket: &Bucket) -> Result<Option<Lock>, BucketError> {
    match bucket.get(KEY).await {
        Ok(bytes) => Ok(Some(Lock::decode(&bytes))),
        Err(BucketError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
