//! Files and block devices that become larger while they are in use.
//!
//! A file is made larger here; a block device was, by whoever manages it. Both may wait for a disk,
//! so this is a handle of its own, for a thread of its own: the device goes on meanwhile, and takes
//! note of its size at the end.

use super::FileDevice;
use super::opening::{block_device, device_size};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use thermocline_ports::SECTOR;
use thermocline_units::Bytes;

/// Handle that makes a file larger.
#[derive(Debug)]
pub struct Grower {
    file: OwnedFd,
    path: PathBuf,
}

impl FileDevice {
    /// Handle that makes it larger.
    ///
    /// # Errors
    /// When the system gives no further handle of it.
    pub fn grower(&self) -> io::Result<Grower> {
        Ok(Grower { file: self.file.try_clone()?, path: self.path.clone() })
    }

    /// Takes note that it has become larger, as a [`Grower`] found. One that has shrunk answers
    /// requests behind its end with errors.
    pub fn has_grown(&mut self, size: Bytes) {
        self.geometry.size = self.geometry.size.max(size);
    }
}

impl Grower {
    /// Path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if it is a file, and not a block device.
    pub fn is_file(&self) -> bool {
        block_device(&self.file).is_none()
    }

    /// Its size now, in whole sectors.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn size(&self) -> io::Result<Bytes> {
        let size = device_size(&self.file, &self.path, None).map_err(io::Error::other)?;
        Ok(Bytes(size / u64::from(SECTOR) * u64::from(SECTOR)))
    }

    /// Makes a file so large, durably: a superblock is about to say that it is. One that is larger
    /// keeps its size. The byte from which on all that is new reads as zeroes.
    ///
    /// Two at the same time would cut what the other has made: the caller sees to it.
    ///
    /// # Errors
    /// When the file system refuses, or it is a block device that is smaller.
    pub fn enlarge(&self, size: Bytes) -> io::Result<Bytes> {
        let before = self.size()?;
        if size <= before {
            rustix::fs::fsync(&self.file)?;
            return Ok(Bytes(u64::MAX));
        }
        if !self.is_file() {
            return Err(Errno::INVAL.into());
        }
        rustix::fs::ftruncate(&self.file, size.0)?;
        rustix::fs::fsync(&self.file)?;
        Ok(before)
    }
}
