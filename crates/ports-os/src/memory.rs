//! Requests to a file that is in memory (tmpfs, ramfs): done at once, by a system call each.
//!
//! Such file systems cannot say "not now", so the kernel hands every request of a ring to a thread
//! of its own: two switches for a copy that takes less time than one of them.

use crate::buffer::Aligned;
use bytes::Bytes as Buffer;
use rustix::fs::{FallocateFlags, StatFs};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Numbers that `statfs(2)` gives file systems in memory.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// True if a file is in memory.
pub(crate) fn is_in_memory(file: &OwnedFd) -> bool {
    is_memory(rustix::fs::fstatfs(file))
}

/// True if a file or a folder is in memory; false also where the system does not say.
pub fn lies_in_memory(path: &Path) -> bool {
    is_memory(rustix::fs::statfs(path))
}

fn is_memory(system: Result<StatFs, Errno>) -> bool {
    matches!(system.map(|system| system.f_type as u64), Ok(TMPFS | RAMFS))
}

/// Reads `length` bytes at `offset`.
///
/// # Errors
/// What the system says; [`Errno::IO`] when the file ends before.
pub(crate) fn read(file: &OwnedFd, offset: u64, length: usize) -> Result<Buffer, Errno> {
    let mut into = Aligned::used(length);
    let mut filled = 0;
    while filled < length {
        let rest = &mut into.as_mut_slice()[filled..];
        match rustix::io::pread(file, rest, offset + filled as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => filled += count,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(into.freeze())
}

/// Writes all of `from` at `offset`.
///
/// # Errors
/// What the system says.
pub(crate) fn write(file: &OwnedFd, mut offset: u64, mut from: &[u8]) -> Result<(), Errno> {
    while !from.is_empty() {
        match rustix::io::pwrite(file, from, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                from = &from[count..];
                offset += count as u64;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Gives a range back; it reads as zeroes then.
///
/// # Errors
/// What the system says.
pub(crate) fn punch(file: &OwnedFd, offset: u64, length: u64) -> Result<(), Errno> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, how, offset, length)
}
