//! The file below a loop device: two names of one device.
//!
//! 1. Opening a loop device exclusively keeps others from that loop device only. The same bytes can
//!    be reached through its backing file, and through a second loop device on that file.
//! 2. A loop device that is opened locks its backing file as well, shared: whoever opens the file
//!    itself locks it alone (flock(2)), so only one of the two ways is open at a time. Partitions
//!    of one loop device share.
//! 3. Other loop devices on the same file, of ranges that overlap, are refused when somebody has
//!    them open exclusively. Two programs that start at the same moment may both miss that.
//!
//! A backing file that is gone, or on another host, is not seen. What stands on other kinds of
//! devices (device mapper, md) is held exclusively by these, which the kernel tells.

use super::opening::block_device;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A loop device, by what the kernel says of it in sysfs.
struct Loop {
    /// Its name, as `loop0`.
    name: String,
    file: PathBuf,
    /// Range of the file in bytes; to its end where that is the limit.
    start: u64,
    end: u64,
}

impl Loop {
    /// Reads `/sys/block/NAME`; `None` when it is no loop device, or has no file.
    fn read(folder: &Path) -> Option<Loop> {
        let text = |name: &str| fs::read_to_string(folder.join("loop").join(name)).ok();
        let number = |name| text(name)?.trim().parse::<u64>().ok();
        let file = text("backing_file")?;
        let start = number("offset").unwrap_or(0);
        let limit = number("sizelimit").filter(|&limit| limit > 0);
        Some(Loop {
            name: folder.file_name()?.to_string_lossy().into_owned(),
            file: PathBuf::from(file.trim_end_matches('\n')),
            start,
            end: limit.map_or(u64::MAX, |limit| start.saturating_add(limit)),
        })
    }

    /// The loop device that a block device is, or is a partition of.
    fn of_device((major, minor): (u32, u32)) -> Option<Loop> {
        let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        Loop::read(&folder).or_else(|| Loop::read(folder.parent()?))
    }

    fn overlaps(&self, other: &Loop) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// True if somebody has it open exclusively.
    fn is_held(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = rustix::fs::open(Path::new("/dev").join(&self.name), flags, Mode::empty());
        matches!(opened, Err(Errno::BUSY))
    }
}

/// Locks the file below a loop device for as long as the answer is kept; `None` of everything
/// that is no loop device.
///
/// # Errors
/// The backing file, when it is in use by another name.
pub fn lock_backing_file(device: impl AsFd) -> Result<Option<OwnedFd>, PathBuf> {
    let Some(own) = block_device(device).and_then(Loop::of_device) else { return Ok(None) };
    let Ok(file) = rustix::fs::open(&own.file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    else {
        return Ok(None);
    };
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
        || others(&own).iter().any(Loop::is_held)
    {
        return Err(own.file);
    }
    Ok(Some(file))
}

/// Other loop devices that have bytes of the same file.
fn others(own: &Loop) -> Vec<Loop> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|met| (met.dev(), met.ino()));
    let file = identity(&own.file);
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let loops = devices.filter_map(|device| Loop::read(&device.path()));
    loops
        .filter(|other| other.name != own.name && other.overlaps(own))
        .filter(|other| file.is_some() && identity(&other.file) == file)
        .collect()
}
