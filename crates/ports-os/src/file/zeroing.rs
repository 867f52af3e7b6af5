//! Ways to make a range read as zeroes: a hole where the device can, zeroes written otherwise.
//!
//! 1. A file is asked for a hole behind its end, which changes nothing.
//! 2. A block device has no place to try that: behind its end the kernel answers EINVAL whatever
//!    the device can do, and inside are contents. Its queue tells (sysfs):
//!    `write_zeroes_max_bytes` is 0 where it has no such command, as most SATA disks have none, and
//!    a hole is refused with EOPNOTSUPP there.
//! 3. Where nobody tells it is taken for one that can. The kernel changes its mind, too, when a
//!    disk refuses the command for the first time: [`is_refusal`] says when to write zeroes.

use super::opening::block_device;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use thermocline_units::Bytes;

/// Folder of sysfs with a link for each block device, named by its numbers.
const BLOCK_DEVICES: &str = "/sys/dev/block";

/// True if holes can be punched, as far as that can be told without changing anything.
pub(super) fn can_punch(file: &OwnedFd, size: Bytes) -> bool {
    if let Some(device) = block_device(file) {
        return write_zeroes_max(Path::new(BLOCK_DEVICES), device) != Some(0);
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, flags, size.0.next_multiple_of(4096), 4096).is_ok()
}

/// Bytes that a block device zeroes by one command; 0: it has none, `None`: nobody tells.
pub(super) fn write_zeroes_max(folder: &Path, (major, minor): (u32, u32)) -> Option<u64> {
    let device = folder.join(format!("{major}:{minor}"));
    // A partition has no queue; the disk that its link leads into has.
    let text = ["queue", "../queue"].iter().find_map(|queue| {
        std::fs::read_to_string(device.join(queue).join("write_zeroes_max_bytes")).ok()
    })?;
    text.trim().parse().ok()
}

/// True if an error says that there are no holes to be had, now or ever.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY))
}

#[cfg(test)]
mod tests;
