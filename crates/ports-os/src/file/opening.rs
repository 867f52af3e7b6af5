//! Opening a file or a block device: past the page cache where that is allowed, and locked.

use crate::Patience;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thermocline_ports::model::ProfileError;
use thermocline_units::Bytes;

/// Longest time that a device may stay locked that a killed process had: long for requests of one
/// process under way on a slow disk, short for people who started a second engine.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// Options for opening a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Make the file, of this size, when there is none; a file that exists keeps its size.
    pub create: Option<Bytes>,
    /// Go through the page cache although the file system allows to go past it.
    pub buffered: bool,
    /// Limits for the time that the device may take for one request.
    pub patience: Patience,
}

/// A reason that a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenDeviceError {
    /// The path cannot be opened as asked.
    #[error("{path}: {source}")]
    Open {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Somebody else has it.
    #[error("{path} is in use by another process; stop that first")]
    InUse {
        /// Its path.
        path: PathBuf,
    },
    /// The kernel has lent it to somebody: it is mounted, or part of another device.
    #[error(
        "{path} is in use: it is mounted, part of another device (lsblk shows of which), or open in \
         another engine; release it first"
    )]
    Busy {
        /// Its path.
        path: PathBuf,
    },
    /// Its bytes are in use by another name.
    #[error(
        "{path} is a loop device on {file}, which is in use, itself or through another loop device; \
         stop that first"
    )]
    OtherName {
        /// Its path.
        path: PathBuf,
        /// The file below.
        file: PathBuf,
    },
    /// Somebody uses the file who has not locked it.
    #[error("{path} is in use {by}; release it first")]
    Used {
        /// Its path.
        path: PathBuf,
        /// Description of that use.
        by: String,
    },
    /// Neither a file nor a block device.
    #[error("{path} is neither a file nor a block device")]
    Kind {
        /// Its path.
        path: PathBuf,
    },
    /// Nothing fits.
    #[error("{path} has no room: {size} bytes are less than a sector of 512")]
    Empty {
        /// Its path.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// The device cannot be slowed to the profile.
    #[error("{path} cannot be emulated as asked: {source}")]
    Emulation {
        /// Its path.
        path: PathBuf,
        /// The profile's error.
        source: ProfileError,
    },
    /// The bucket cannot be used.
    #[error("{path}: {source}")]
    Bucket {
        /// `s3://bucket/prefix`.
        path: PathBuf,
        /// The reason.
        source: Box<crate::objects::ObjectError>,
    },
    /// The kernel has no io_uring.
    #[error(
        "io_uring is not available ({source}); it needs Linux 5.6, and must not be forbidden (sysctl kernel.io_uring_disabled)"
    )]
    Ring {
        /// The system's error.
        source: io::Error,
    },
}

/// Locks a file against other processes; false: it stays in use.
///
/// A process that was killed is gone before its ring is: the kernel finishes what is under way,
/// and drops the ring's files, a little later. Until then its requests may still change the file,
/// and it stays locked, so a restart at once has to wait.
pub(super) fn lock(file: &OwnedFd) -> Result<bool, Errno> {
    let start = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if start.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_RETRY);
            }
            Err(Errno::WOULDBLOCK) => return Ok(false),
            other => return other.map(|()| true),
        }
    }
}

/// True if a path still leads to a file: whoever made it may have taken it back while its lock was
/// waited for.
pub(super) fn is_at(file: &OwnedFd, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (rustix::fs::fstat(file), rustix::fs::stat(path)) else {
        return false;
    };
    (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)
}

/// Takes back a file that was made and is not needed: removes it, or empties it where it was there
/// before. One that somebody has locked meanwhile is theirs, and stays. Of a symbolic link, what it
/// leads to is removed: that was made, and the link is somebody's.
///
/// # Errors
/// When it cannot be opened, is locked, or cannot be changed.
pub fn take_back_file(path: &Path, was_there: bool) -> io::Result<()> {
    let file = std::fs::File::options().read(true).write(true).open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    match was_there {
        true => file.set_len(0),
        false => std::fs::remove_file(path.canonicalize()?),
    }
}

/// Opens past the page cache where that is allowed: (file, whether it is).
pub(super) fn open_file(
    path: &Path,
    options: OpenOptions,
    access: OFlags,
) -> Result<(OwnedFd, bool), Errno> {
    let mut flags = access | OFlags::CLOEXEC;
    if names_block_device(path) {
        // Refused while it is mounted or part of another device, and kept from both while it is
        // ours. What stands for that is an open(2) with O_EXCL alone.
        flags |= OFlags::EXCL;
    } else if options.create.is_some() {
        flags |= OFlags::CREATE;
    }
    let mode = Mode::RUSR | Mode::WUSR;
    if !options.buffered {
        match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
            Err(Errno::INVAL) => {} // As tmpfs of older kernels says it.
            other => return other.map(|file| (file, true)),
        }
    }
    rustix::fs::open(path, flags, mode).map(|file| (file, false))
}

/// True if a path leads to a block device.
fn names_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Bytes of the device; a file that is empty is given the size asked for.
pub(super) fn device_size(
    file: &OwnedFd,
    path: &Path,
    create: Option<Bytes>,
) -> Result<u64, OpenDeviceError> {
    let failed =
        |errno: Errno| OpenDeviceError::Open { path: path.to_path_buf(), source: errno.into() };
    let stat = rustix::fs::fstat(file).map_err(failed)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let size = stat.st_size as u64;
            match create.filter(|_| size == 0) {
                Some(wanted) => {
                    rustix::fs::ftruncate(file, wanted.0).map_err(failed)?;
                    Ok(wanted.0)
                }
                None => Ok(size),
            }
        }
        FileType::BlockDevice => {
            rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).map_err(failed)
        }
        _ => Err(OpenDeviceError::Kind { path: path.to_path_buf() }),
    }
}

/// Major and minor number of a block device; `None` for everything else.
pub(super) fn block_device(file: impl AsFd) -> Option<(u32, u32)> {
    let stat = rustix::fs::fstat(file).ok()?;
    let is_one = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    is_one.then(|| (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)))
}
