//! Device below a pool: a file or a block device as fast as it is, or slowed to a profile; or a
//! bucket of an object store.
//!
//! Does not choose: whoever opens it says which.

use crate::objects::{BucketStatus, ObjectDevice};
use crate::{Emulated, FileDevice, Grower, Health, OpenDeviceError, OpenOptions, Patience};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use thermocline_ports::model::Profile;
use thermocline_ports::{Completion, Device, Geometry, Io, Ticket};
use thermocline_units::{Bytes, Nanos};

/// Seed of the model's times; any number will do, pools need not differ.
const SEED: u64 = 1;

/// The device of a pool: a file, a modelled device or a bucket.
#[expect(clippy::large_enum_variant, reason = "a process has a handful of them")]
pub enum Disk {
    /// A device as fast as it is.
    Plain(FileDevice),
    /// Slowed to a profile.
    Emulated(Emulated<FileDevice>),
    /// A device in a bucket.
    Objects(Box<ObjectDevice>),
}

impl Disk {
    /// Opens a file or a block device and locks it; with `emulate` it is slowed to that profile,
    /// at the device's own size.
    ///
    /// # Errors
    /// When it cannot be opened (see [`FileDevice::open`]), or the profile does not come in its
    /// size.
    pub fn open(
        path: &Path,
        options: OpenOptions,
        emulate: Option<&Profile>,
    ) -> Result<Disk, OpenDeviceError> {
        let file = FileDevice::open(path, options)?;
        let Some(profile) = emulate else { return Ok(Disk::Plain(file)) };
        match Emulated::new(file, profile, SEED) {
            Ok(emulated) => Ok(Disk::Emulated(emulated)),
            Err(source) => Err(OpenDeviceError::Emulation { path: path.to_path_buf(), source }),
        }
    }

    /// Opens a file or a block device for reading only; see [`FileDevice::open_to_read`].
    ///
    /// # Errors
    /// As there.
    pub fn open_to_read(path: &Path) -> Result<Disk, OpenDeviceError> {
        FileDevice::open_to_read(path).map(Disk::Plain)
    }

    /// Gives the first `bytes` of a file room on its file system, so that writing there never ends
    /// for want of it; contents stay. Block devices, buckets, and file systems that cannot, are
    /// left alone.
    ///
    /// # Errors
    /// When there is no room.
    pub fn allocate(&self, bytes: Bytes) -> std::io::Result<()> {
        self.file().map_or(Ok(()), |file| file.allocate(bytes))
    }

    /// Handle that makes it larger; `None` for a bucket, and for what is slowed to a profile, whose
    /// model has the size that it began with.
    ///
    /// # Errors
    /// When the system gives no further handle of it.
    pub fn grower(&self) -> io::Result<Option<Grower>> {
        match self {
            Disk::Plain(file) => file.grower().map(Some),
            Disk::Emulated(_) | Disk::Objects(_) => Ok(None),
        }
    }

    /// Takes note that it has become larger, as a [`Grower`] found.
    pub fn has_grown(&mut self, size: Bytes) {
        if let Disk::Plain(file) = self {
            file.has_grown(size);
        }
    }

    /// True if it is slowed to a profile.
    pub fn is_emulated(&self) -> bool {
        matches!(self, Disk::Emulated(_))
    }

    /// True if requests go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.file().is_some_and(FileDevice::is_direct)
    }

    /// Path of it.
    pub fn path(&self) -> &Path {
        match self {
            Disk::Plain(file) => file.path(),
            Disk::Emulated(emulated) => emulated.device().path(),
            Disk::Objects(objects) => objects.path(),
        }
    }

    /// State of the device as of the last `poll`, as far as its answers tell. A bucket has limits
    /// of its own, and is always well here.
    pub fn health(&self) -> Health {
        self.file().map_or(Health::Well, FileDevice::health)
    }

    /// Limits for the time that the device may take for one request; `None`: a bucket's are others.
    pub fn patience(&self) -> Option<Patience> {
        self.file().map(FileDevice::patience)
    }

    /// Status of a bucket; none: it is no bucket.
    pub fn bucket_status(&self) -> Option<BucketStatus> {
        match self {
            Disk::Objects(objects) => Some(objects.status()),
            Disk::Plain(_) | Disk::Emulated(_) => None,
        }
    }

    /// Readable when the file or the bucket has answered something; for `poll(2)`, together with
    /// [`Device::next_event`] as its timeout.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        match self {
            Disk::Plain(file) => file.readiness(),
            Disk::Emulated(emulated) => emulated.device().readiness(),
            Disk::Objects(objects) => objects.readiness(),
        }
    }

    /// True if answers wait that need neither the kernel nor the clock.
    pub fn has_answers(&self) -> bool {
        match self {
            Disk::Plain(file) => file.has_answers(),
            Disk::Emulated(emulated) => emulated.device().has_answers(),
            Disk::Objects(objects) => objects.has_answers(),
        }
    }

    /// Blocks until the file or the bucket has answered something; returns at once when it has
    /// nothing in flight. Knows nothing of the clock: a slowed request is answered later than that.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&mut self) -> io::Result<()> {
        match self {
            Disk::Plain(file) => file.wait(),
            Disk::Emulated(emulated) => emulated.device_mut().wait(),
            Disk::Objects(objects) => objects.wait(),
        }
    }

    fn file(&self) -> Option<&FileDevice> {
        match self {
            Disk::Plain(file) => Some(file),
            Disk::Emulated(emulated) => Some(emulated.device()),
            Disk::Objects(_) => None,
        }
    }
}

/// A device in this process that tells by a descriptor when it has answered something.
pub trait LiveDevice: Device {
    /// Name of it, as people know it.
    fn name(&self) -> String;

    /// Readable when it has answered something; to be waited for together with
    /// [`Device::next_event`].
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Blocks until it has answered something; returns at once when nothing is in flight.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    fn wait(&mut self) -> io::Result<()>;

    /// Takes note of the parts that are worth more than others: first byte, byte after the last,
    /// and worth. All that was said before is void. A device that is alike throughout does nothing.
    fn note_worth(&mut self, parts: &[(Bytes, Bytes, Worth)]) {
        let _ = parts;
    }
}

/// Worth of a part of a device to whoever stands on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Its own structures, which every flush needs.
    Metadata,
    /// Data that many read.
    Shared,
}

impl LiveDevice for Disk {
    fn name(&self) -> String {
        self.path().display().to_string()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        Disk::readiness(self)
    }

    fn wait(&mut self) -> io::Result<()> {
        Disk::wait(self)
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        match self {
            Disk::Plain(file) => file.geometry(),
            Disk::Emulated(emulated) => emulated.geometry(),
            Disk::Objects(objects) => objects.geometry(),
        }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        match self {
            Disk::Plain(file) => file.submit(now, ticket, io),
            Disk::Emulated(emulated) => emulated.submit(now, ticket, io),
            Disk::Objects(objects) => objects.submit(now, ticket, io),
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self {
            Disk::Plain(file) => file.poll(now, done),
            Disk::Emulated(emulated) => emulated.poll(now, done),
            Disk::Objects(objects) => objects.poll(now, done),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            Disk::Plain(file) => file.next_event(),
            Disk::Emulated(emulated) => emulated.next_event(),
            Disk::Objects(objects) => objects.next_event(),
        }
    }
}
