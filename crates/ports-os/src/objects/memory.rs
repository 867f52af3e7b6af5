//! Local memory of a bucket: a small file beside the engine's other files.
//!
//! It says how far the log was when a flush was last answered, so that a bucket that has lost
//! records since, or was put back from a copy, is refused instead of believed. It is locked while
//! the device is open: whoever gets the lock knows that the one who had the device here is gone.
//!
//! 56 bytes (`format`), written in place in one sector and made durable before the flush is
//! answered. A machine that has no such file yet believes the bucket.

mod format;

use format::BYTES;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Facts that are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remembered {
    /// The device.
    pub(super) identity: u64,
    /// The writer of this.
    pub(super) owner: u64,
    /// The last record of the log that was relied upon.
    pub(super) sequence: u64,
}

/// The file.
#[derive(Debug)]
pub(super) struct Memory {
    file: OwnedFd,
    path: PathBuf,
}

/// A reason that there is no memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system refused.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("{0} is in use by another process; stop that first")]
    InUse(PathBuf),
    /// A file of another kind.
    #[error(
        "{0} is damaged, or something else; if the bucket is known to be whole, remove the file"
    )]
    Damaged(PathBuf),
}

impl Memory {
    /// Opens the file, or makes it, and locks it.
    pub(super) fn open(path: &Path) -> Result<Memory, MemoryError> {
        let failed = |errno: rustix::io::Errno| MemoryError::File {
            path: path.to_path_buf(),
            source: errno.into(),
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Memory { file, path: path.to_path_buf() }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(MemoryError::InUse(path.to_path_buf())),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The facts remembered; none in a new file.
    pub(super) fn read(&self) -> Result<Option<Remembered>, MemoryError> {
        let mut bytes = [0; BYTES];
        let found = rustix::io::pread(&self.file, &mut bytes, 0).map_err(|e| self.failed(e))?;
        if found == 0 {
            return Ok(None);
        }
        let whole = if found == BYTES { format::decode(&bytes) } else { None };
        whole.map(Some).ok_or_else(|| MemoryError::Damaged(self.path.clone()))
    }

    /// Remembers; durable when it returns.
    pub(super) fn write(&self, what: Remembered) -> Result<(), MemoryError> {
        let bytes = format::encode(what);
        let written = rustix::io::pwrite(&self.file, &bytes, 0).map_err(|e| self.failed(e))?;
        if written != BYTES {
            return Err(self.failed(rustix::io::Errno::NOSPC));
        }
        rustix::fs::fdatasync(&self.file).map_err(|errno| self.failed(errno))
    }

    fn failed(&self, errno: rustix::io::Errno) -> MemoryError {
        MemoryError::File { path: self.path.clone(), source: errno.into() }
    }
}

#[cfg(test)]
mod tests;
