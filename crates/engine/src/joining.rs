//! Addition of a pool to a running engine.
//!
//! 1. The loop is asked whether the name and the path are free.
//! 2. The device is opened and looked at (see [`crate::probe`]), on a thread that may wait: the
//!    loop may not.
//! 3. The loop is asked whether the group would take a pool of that size.
//! 4. Only now something changes: a file is made, the pool is written down for the next start (see
//!    [`PoolLedger`]), and what its device held is erased.
//! 5. A pool that nobody gave a place among the others is measured beside them (see [`speed`]).
//! 6. The loop adds the pool. When it refuses after all, because something else was added
//!    meanwhile, what step 4 has made is taken back; what was erased stays so.

mod speed;

use crate::api::{NewPool, Pool};
use crate::mailbox::Mailbox;
use crate::pools::refuse_among_devices;
use crate::probe::{self, Contents, Existing, NotFree};
use std::fs::OpenOptions as FileOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thermocline_admin::api::Refused;
use thermocline_ports::model::Profile;
use thermocline_ports::{Device, Geometry, SECTOR};
use thermocline_ports_os::{Disk, OpenDeviceError, OpenOptions, take_back_file};
use thermocline_units::Bytes;
use thermocline_volume::PoolSpec;

pub(crate) use speed::Speed;

/// Smallest and largest file that is made for a pool.
const SIZES: std::ops::RangeInclusive<Bytes> = Bytes(1 << 20)..=Bytes(1 << 50);

/// Checks the size that a file for a pool shall have.
pub fn is_pool_size(size: Bytes) -> bool {
    SIZES.contains(&size) && size.0.is_multiple_of(u64::from(SECTOR))
}

/// Time for measuring a new pool and those that are there; a device may hang.
const MEASURING: Duration = Duration::from_secs(20);

/// A record of the pools that were added to a running engine, which its next start reads.
pub trait PoolLedger: Send + Sync {
    /// Writes a pool down durably, in place of one of the same name or path. Comes before the pool
    /// joins: a pool that is written down and never joined is not missed, the reverse is.
    ///
    /// # Errors
    /// When it cannot be written.
    fn note(&self, pool: &NewPool) -> io::Result<()>;

    /// Refuses a path at which the engine keeps a file of its own; the text says why.
    ///
    /// # Errors
    /// The path is such a one.
    fn check_path(&self, path: &Path) -> Result<(), String>;

    /// Strikes a pool out that was removed; one that stays in does no harm.
    fn strike(&self, name: &str);
}

/// A pool that shall join, with the device that was found for it.
struct Candidate {
    wish: NewPool,
    path: PathBuf,
    profile: Option<Profile>,
    /// The device with what is on it; none: a file is to be made.
    device: Option<(Disk, Contents)>,
    geometry: Geometry,
}

/// A pool that can join at once.
pub(crate) struct Joining {
    pub(crate) spec: PoolSpec,
    pub(crate) disk: Disk,
    pub(crate) profile: Option<Profile>,
    /// Contents of the device that are destroyed.
    pub(crate) destroyed: Option<Contents>,
    /// The next slower pool, where that was said or measured.
    pub(crate) before: Option<String>,
    /// Measured speed, in words.
    pub(crate) measured: Option<String>,
}

/// Files to take back when the loop refuses.
struct Made {
    file: Option<(PathBuf, Before)>,
    ledger: Option<(Arc<dyn PoolLedger>, String)>,
}

/// Contents of a place before a file was made there.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    EmptyFile,
}

/// Adds a pool to the engine behind this mailbox.
///
/// # Errors
/// When the name, the path or the device will not do, or the group does not take the pool. Nothing
/// has changed then.
pub(crate) async fn join(mailbox: Mailbox, wish: NewPool) -> Result<Pool, Refused> {
    let asked = wish.clone();
    let ledger = ask(&mailbox, move |admin| admin.check_new_pool(&asked)).await?;
    let candidate = blocking(move || Candidate::look(wish)).await?;
    let spec = candidate.spec();
    let replaces = candidate.wish.replaces.clone();
    ask(&mailbox, move |admin| admin.check_pool_spec(&spec, replaces.as_deref())).await?;
    let is_placed = candidate.is_placed();
    let (mut joining, made) = blocking(move || candidate.prepare(ledger)).await?;
    if !is_placed {
        measure(&mailbox, &mut joining).await;
    }
    let added = ask(&mailbox, move |admin| admin.add_pool(joining)).await;
    if added.is_err() {
        blocking(move || {
            made.take_back();
            Ok(())
        })
        .await?;
    }
    added
}

/// Gives a pool the rank of its speed. It stays the last when that cannot be measured in time.
async fn measure(mailbox: &Mailbox, joining: &mut Joining) {
    let Ok(speeds) = ask(mailbox, |admin| Ok(admin.pool_speeds())).await else { return };
    let path = joining.disk.path().to_path_buf();
    let measuring = tokio::task::spawn_blocking(move || speed::rank(&path, &speeds));
    if let Ok(Ok(Some(rank))) = tokio::time::timeout(MEASURING, measuring).await {
        joining.before = rank.before;
        joining.measured = Some(rank.why);
    }
}

pub(crate) async fn ask<T: Send + 'static>(
    mailbox: &Mailbox,
    order: impl FnOnce(&mut crate::event_loop::AdminApi<'_>) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    mailbox.ask(order).await.map_err(Refused::unavailable)?
}

/// Runs something that may wait for a disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work).await.map_err(Refused::unavailable)?
}

impl From<NotFree> for Refused {
    fn from(error: NotFree) -> Refused {
        match error {
            NotFree::Occupied { .. } => Refused::conflict(format!(
                "{error}. Name another device, or say that this may be destroyed: --erase \
                 (in the API: \"erase\": true)"
            )),
            NotFree::InUse { .. } => Refused::conflict(error),
            NotFree::Size { .. } => Refused::invalid(error),
        }
    }
}

fn not_opened(error: OpenDeviceError) -> Refused {
    match error {
        OpenDeviceError::InUse { .. } | OpenDeviceError::Busy { .. } => Refused::conflict(error),
        other => Refused::invalid(other),
    }
}

impl Candidate {
    /// Opens the device, when there is one, and decides whether it may become a pool.
    fn look(wish: NewPool) -> Result<Candidate, Refused> {
        let path = PathBuf::from(&wish.path);
        let failed = |error: io::Error| Refused::invalid(format!("{}: {error}", path.display()));
        let profile = wish.emulate.as_deref().map(Profile::built_in).transpose();
        let profile = profile.map_err(Refused::invalid)?;
        let there = match std::fs::metadata(&path) {
            Ok(metadata) => !metadata.is_file() || metadata.len() > 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed(error)),
        };
        if !there {
            let size = size_to_make(&path, wish.size_bytes)?;
            let far = profile.as_ref().is_some_and(Profile::is_far);
            let geometry = Geometry { size, discard_zeroes: false, far };
            return Ok(Candidate { wish, path, profile, device: None, geometry });
        }
        let options = OpenOptions { buffered: wish.buffered, ..OpenOptions::default() };
        let disk = Disk::open(&path, options, profile.as_ref()).map_err(not_opened)?;
        let contents = Contents::of_path(&path).map_err(failed)?;
        let existing = if wish.erase { Existing::Destroy } else { Existing::Keep };
        probe::check_free(&path, &contents, existing)?;
        let geometry = disk.geometry();
        probe::check_size(&path, geometry.size, wish.size_bytes.map(Bytes))?;
        Ok(Candidate { wish, path, profile, device: Some((disk, contents)), geometry })
    }

    /// True if its place among the pools follows from what was asked for.
    fn is_placed(&self) -> bool {
        self.profile.is_some() || self.wish.slowest || self.wish.next_slower().is_some()
    }

    fn spec(&self) -> PoolSpec {
        PoolSpec {
            name: self.wish.name.clone(),
            geometry: self.geometry,
            zeroed: false,
            reserve_chunks: 0,
        }
    }

    /// Makes the file, or erases the device, and writes the pool down.
    fn prepare(mut self, ledger: Option<Arc<dyn PoolLedger>>) -> Result<(Joining, Made), Refused> {
        let mut made = Made { file: None, ledger: None };
        match self.make(ledger, &mut made) {
            Ok((disk, destroyed)) => {
                let spec = PoolSpec { geometry: disk.geometry(), ..self.spec() };
                let (profile, before) = (self.profile, self.wish.next_slower().cloned());
                let joining = Joining { spec, disk, profile, destroyed, before, measured: None };
                Ok((joining, made))
            }
            Err(refused) => {
                made.take_back();
                Err(refused)
            }
        }
    }

    fn make(
        &mut self,
        ledger: Option<Arc<dyn PoolLedger>>,
        made: &mut Made,
    ) -> Result<(Disk, Option<Contents>), Refused> {
        let failed =
            |error: io::Error| Refused::invalid(format!("{}: {error}", self.path.display()));
        let (disk, contents) = match self.device.take() {
            Some(there) => there,
            None => {
                let before = make_file(&self.path).map_err(failed)?;
                let create = Some(self.geometry.size);
                let buffered = self.wish.buffered;
                let options = OpenOptions { create, buffered, ..OpenOptions::default() };
                let disk = Disk::open(&self.path, options, self.profile.as_ref());
                // What another pool that joins has locked is that pool's.
                made.file = Some((self.path.clone(), before));
                (disk.map_err(not_opened)?, Contents::Blank)
            }
        };
        // Who writes a pool down has its device: others may want the same path at the same time.
        // What is erased for a pool that cannot be written down would be lost for nothing.
        if let Some(ledger) = ledger {
            ledger.note(&self.wish).map_err(|error| {
                Refused::unavailable(format!("the pool cannot be written down: {error}"))
            })?;
            made.ledger = Some((ledger, self.wish.name.clone()));
        }
        if contents == Contents::Blank {
            return Ok((disk, None));
        }
        probe::erase(&self.path).map_err(failed)?;
        Ok((disk, Some(contents)))
    }
}

/// The size of a file that is not there yet.
fn size_to_make(path: &Path, size: Option<u64>) -> Result<Bytes, Refused> {
    refuse_among_devices(path).map_err(Refused::invalid)?;
    let Some(size) = size.map(Bytes) else {
        return Err(Refused::invalid(format!(
            "{} does not exist, and there is no size to make it with",
            path.display()
        )));
    };
    match is_pool_size(size) {
        true => Ok(size),
        false => Err(Refused::invalid(format!(
            "{size} is no size for a pool: a multiple of {SECTOR} bytes from {} to {}",
            SIZES.start(),
            SIZES.end()
        ))),
    }
}

/// Makes an empty file, unless one is there.
fn make_file(path: &Path) -> io::Result<Before> {
    use std::os::unix::fs::OpenOptionsExt;
    match FileOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(Before::Nothing),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = std::fs::metadata(path)?;
            match found.is_file() && found.len() == 0 {
                true => Ok(Before::EmptyFile),
                false => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

impl Made {
    /// Takes back what can be; what cannot is empty, or is not missed.
    fn take_back(self) {
        if let Some((path, before)) = self.file {
            let _ = take_back_file(&path, matches!(before, Before::EmptyFile));
        }
        if let Some((ledger, name)) = self.ledger {
            ledger.strike(&name);
        }
    }
}
