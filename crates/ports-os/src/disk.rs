//! What a pool stands on: a file or a block device as fast as it is, or slowed to a profile.
//!
//! Does not choose: whoever opens it says which.

use crate::{Emulated, FileDevice, OpenDeviceError, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use thermocline_ports::model::Profile;
use thermocline_ports::{Completion, Device, Geometry, Io, Ticket};
use thermocline_units::{Bytes, Nanos};

/// How the model's times vary; any number will do, pools need not differ.
const SEED: u64 = 1;

/// See the module.
#[expect(clippy::large_enum_variant, reason = "a process has a handful of them")]
pub enum Disk {
    /// As fast as it is.
    Plain(FileDevice),
    /// Slowed to a profile.
    Emulated(Emulated<FileDevice>),
}

impl Disk {
    /// Opens a file or a block device and locks it; with `emulate` it is slowed to that profile,
    /// at the device's own size.
    ///
    /// # Errors When it cannot be opened (see [`FileDevice::open`]), or the profile does not come
    /// in its size.
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

    /// Gives the first `bytes` of a file room on its file system, so that writing there never ends
    /// for want of it; contents stay. Block devices, and file systems that cannot, are left alone.
    ///
    /// # Errors
    /// When there is no room.
    pub fn allocate(&self, bytes: Bytes) -> std::io::Result<()> {
        self.file().allocate(bytes)
    }

    /// Whether it is slowed to a profile.
    pub fn is_emulated(&self) -> bool {
        matches!(self, Disk::Emulated(_))
    }

    /// Whether requests go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.file().is_direct()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file().path()
    }

    /// Readable when the file has answered something; for `poll(2)`, together with
    /// [`Device::next_event`] as its timeout.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.file().readiness()
    }

    /// Whether answers wait that need neither the kernel nor the clock.
    pub fn has_answers(&self) -> bool {
        self.file().has_answers()
    }

    /// Blocks until the file has answered something; returns at once when it has nothing in flight.
    /// Knows nothing of the clock: a slowed request is answered later than that.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&mut self) -> io::Result<()> {
        match self {
            Disk::Plain(file) => file.wait(),
            Disk::Emulated(emulated) => emulated.device_mut().wait(),
        }
    }

    fn file(&self) -> &FileDevice {
        match self {
            Disk::Plain(file) => file,
            Disk::Emulated(emulated) => emulated.device(),
        }
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        self.file().geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        match self {
            Disk::Plain(file) => file.submit(now, ticket, io),
            Disk::Emulated(emulated) => emulated.submit(now, ticket, io),
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self {
            Disk::Plain(file) => file.poll(now, done),
            Disk::Emulated(emulated) => emulated.poll(now, done),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            Disk::Plain(file) => file.next_event(),
            Disk::Emulated(emulated) => emulated.next_event(),
        }
    }
}
