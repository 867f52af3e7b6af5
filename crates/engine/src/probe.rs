//! The check before a pool or a block cache is made on a device: what is on it, and who uses it.
//! There is one for every way in: a first start, `pool add` and the API.
//!
//! 1. A block device is opened exclusively and a file is locked (`FileDevice` does both), so that
//!    what is mounted, part of another device, or open in another engine never comes this far.
//! 2. The first and the last [`MARKS_BYTES`] are read. Everything that is not zero there is
//!    somebody's, and is named as exactly as can be told.
//! 3. A device may be in use although nobody has locked it as a whole: a file as swap or below a
//!    loop device, a file or a block device by a program that locks ranges of it (qemu does). Every
//!    start asks for that, not only a first one.
//! 4. What is in use is refused. What holds something is refused unless the caller was told to
//!    destroy it; then the marks are overwritten with zeroes, so that nobody takes the device for
//!    what it was.
//!
//! Does not look at the middle of a device: a file system whose marks were wiped is not found.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use thermocline_fs::{Blocks, ReadError, partitions, systems};
use thermocline_units::Bytes;
use thermocline_volume::{LABEL_BYTES, Label, PoolLabel};

/// Bytes at a device's start and end that must be zeroes: file systems, partition tables and other
/// volume managers have their marks there.
pub(crate) const MARKS_BYTES: usize = 128 << 10;

/// Contents of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Zeroes where marks would be.
    Blank,
    /// A pool.
    Pool(PoolLabel),
    /// A pool whose superblocks are torn, rotten, or of another version.
    DamagedPool,
    /// One of the two devices of a pool with a block cache.
    CacheHalf,
    /// A store of de-duplicated blocks.
    Store,
    /// Something else, as a noun with its article.
    Foreign(String),
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contents::Blank => f.write_str("nothing"),
            Contents::Pool(label) => {
                let name = label.members.get(usize::from(label.pool.0)).map(|m| m.name.as_str());
                let name = name.unwrap_or("without a name");
                write!(f, "a pool of a volume group: `{name}` of group {:016x}", label.identity)
            }
            Contents::DamagedPool => f.write_str(
                "a pool whose superblocks are damaged, or of another version of this program",
            ),
            Contents::CacheHalf => {
                f.write_str("one of the two devices of a pool with a block cache")
            }
            Contents::Store => f.write_str("a store of blocks (`thermocline store`)"),
            Contents::Foreign(what) => f.write_str(what),
        }
    }
}

impl Contents {
    /// Contents of a device by its first bytes; all that can be had of a bucket.
    pub(crate) fn of_head(head: &[u8]) -> Contents {
        match Label::read(&head[..head.len().min(LABEL_BYTES)]) {
            Label::Pool(label) => Contents::Pool(label),
            Label::Unreadable => Contents::DamagedPool,
            Label::Nothing if thermocline_blockcache::is_labelled(head) => Contents::CacheHalf,
            Label::Nothing if is_store(head) => Contents::Store,
            Label::Nothing if head.iter().all(|&byte| byte == 0) => Contents::Blank,
            Label::Nothing => Contents::Foreign(foreign_head(head)),
        }
    }

    /// Contents of a file or a block device by its start and its end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_path(path: &Path) -> io::Result<Contents> {
        let mut file = File::open(path)?;
        let size = file.seek(SeekFrom::End(0))?;
        let head = Contents::of_head(&stretch(&mut file, 0)?);
        match head {
            Contents::Blank => {}
            // The whole device says more than its head: which file system, which partitions.
            Contents::Foreign(what) => {
                let known = file_systems(file, size);
                return Ok(Contents::Foreign(known.unwrap_or(what)));
            }
            ours => return Ok(ours),
        }
        let tail = stretch(&mut file, size.saturating_sub(MARKS_BYTES as u64))?;
        Ok(match tail.iter().all(|&byte| byte == 0) {
            true => Contents::Blank,
            false => Contents::Foreign(foreign_tail(&tail)),
        })
    }
}

/// Up to [`MARKS_BYTES`] from `at` on.
fn stretch(file: &mut File, at: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(MARKS_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Marks of what is no file system of `thermocline_fs`: where they stand, and whose they are.
const MARKS: [(usize, &[u8], &str); 13] = [
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0x218, b"LVM2 001", "a physical volume of LVM"),
    (0x018, b"LVM2 001", "a physical volume of LVM"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID"),
    (4086, b"SWAPSPACE2", "swap space"),
    (3, b"NTFS    ", "an NTFS file system"),
    (82, b"FAT32   ", "a FAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (32_769, b"CD001", "an ISO 9660 file system"),
    (0, b"QFI\xfb", "a qcow2 image"),
];
/// The mark of a Linux RAID of version 1.0 stands in a device's last 12 KiB, the one of 0.90 in its
/// last 128 KiB, both at a multiple of 4 KiB.
const RAID_MARK: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];

/// True if a device begins as a store does: with two superblocks, of which the first may not be
/// written yet.
fn is_store(head: &[u8]) -> bool {
    [0, 4096].iter().any(|&at| head.get(at..).is_some_and(|head| head.starts_with(b"THERMOCS")))
}

fn foreign_head(head: &[u8]) -> String {
    let mark =
        MARKS.iter().find(|(at, mark, _)| head.get(*at..).is_some_and(|h| h.starts_with(mark)));
    if let Some((_, _, what)) = mark {
        return (*what).to_string();
    }
    let first = head.iter().position(|&byte| byte != 0).unwrap_or_default();
    format!("contents that are not known here (the first of them at byte {first})")
}

fn foreign_tail(tail: &[u8]) -> String {
    if tail.len() >= 512 && tail[tail.len() - 512..].starts_with(b"EFI PART") {
        return "the second copy of a partition table (GPT)".to_string();
    }
    if tail.chunks(4096).any(|block| block.starts_with(&RAID_MARK)) {
        return "a member of a Linux RAID".to_string();
    }
    "contents in its last 128 KiB that are not known here".to_string()
}

/// A device as readers of file systems want it.
struct Whole {
    file: File,
    size: u64,
}

impl Blocks for Whole {
    fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError> {
        self.file.read_exact_at(into, offset.0).map_err(|error| ReadError(error.to_string()))
    }
}

/// File systems and partitions on a device; none: none that is known, or it cannot be read.
fn file_systems(file: File, size: u64) -> Option<String> {
    let mut whole = Whole { file, size };
    let found = systems(&mut whole).ok()?;
    if let [one] = &found[..]
        && one.at == Bytes(0)
    {
        return Some(format!("{} {} file system", article(&one.kind.to_string()), one.kind));
    }
    let count = partitions(&mut whole).ok()?.len();
    let kinds: Vec<String> = found.iter().map(|system| system.kind.to_string()).collect();
    match (count, kinds.is_empty()) {
        (0, _) => None,
        (_, true) => Some(format!("a partition table ({count} partitions)")),
        (_, false) => Some(format!("a partition table ({count} partitions, {})", kinds.join(", "))),
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u', 'X']) { "an" } else { "a" }
}

/// Fate of a device's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Contents stay: a device that holds something is refused.
    Keep,
    /// Somebody said that it may be destroyed.
    Destroy,
}

/// A reason that no pool is made on a device. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotFree {
    /// Something is on it.
    #[error("{path} holds {contents}; nothing was changed")]
    Occupied {
        /// The file or block device.
        path: PathBuf,
        /// The contents found.
        contents: Contents,
    },
    /// Somebody uses it.
    #[error("{path} is in use {by}; nothing was changed, and it is not erased while that is so")]
    InUse {
        /// The file.
        path: PathBuf,
        /// Description of that use.
        by: String,
    },
    /// A volume or device of another size than was asked for.
    #[error(
        "{path} is there with {found}, and {wanted} were asked for; leave the size out to take it \
         as it is, or name another file"
    )]
    Size {
        /// The file or block device.
        path: PathBuf,
        /// Its size.
        found: Bytes,
        /// The size that was asked for.
        wanted: Bytes,
    },
}

/// Decides whether a pool, or a block cache, may be made on a device that is there and was opened
/// by the caller. Changes nothing.
///
/// # Errors
/// When it is in use, or holds something that shall be kept.
pub fn check_free(path: &Path, contents: &Contents, existing: Existing) -> Result<(), NotFree> {
    if let Some(by) = use_of(path) {
        return Err(NotFree::InUse { path: path.to_path_buf(), by });
    }
    match (contents, existing) {
        (Contents::Blank, _) | (_, Existing::Destroy) => Ok(()),
        (contents, Existing::Keep) => {
            let (path, contents) = (path.to_path_buf(), contents.clone());
            Err(NotFree::Occupied { path, contents })
        }
    }
}

/// Compares the size of a device that is there with the one that was asked for, if any was.
///
/// # Errors
/// When they differ.
pub fn check_size(path: &Path, found: Bytes, wanted: Option<Bytes>) -> Result<(), NotFree> {
    match wanted.filter(|&wanted| wanted != found) {
        Some(wanted) => Err(NotFree::Size { path: path.to_path_buf(), found, wanted }),
        None => Ok(()),
    }
}

/// Overwrites the marks at both ends of a device with zeroes, durably.
///
/// # Errors
/// When it cannot be written.
pub fn erase(path: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let length = size.min(MARKS_BYTES as u64);
    let zeroes = vec![0; length as usize];
    file.write_all_at(&zeroes, 0)?;
    file.write_all_at(&zeroes, size - length)?;
    file.sync_all()
}

/// Use of a file or a block device by somebody who has not locked it as we do, as "by …" or "as …";
/// `None`: none is known. Who has a block device open exclusively keeps us out anyway.
pub fn use_of(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() && !metadata.file_type().is_block_device() {
        return None;
    }
    if let Some(by) = range_lock(&file) {
        return Some(by);
    }
    if !metadata.is_file() {
        return None;
    }
    // Through every name that the file has.
    let same = |other: &str| {
        std::fs::metadata(other)
            .is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
    };
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).any(same) {
        return Some("as swap space".to_string());
    }
    for device in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file"));
        if backing.is_ok_and(|backing| same(backing.trim_end_matches('\n'))) {
            return Some(format!("by the loop device {}", device.file_name().to_string_lossy()));
        }
    }
    None
}

/// Holder of a lock on ranges of a file or a block device: what would keep a lock on all of it out
/// (fcntl_locking(2)). Locks of whole files (flock(2)) are left out: opening the device has met
/// them. The kernel is asked about the file itself, since `/proc/locks` lists neither locks of
/// other containers nor, on btrfs, the number of the file's device.
fn range_lock(file: &File) -> Option<String> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // A file system that has no such locks has nobody who holds one.
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).ok()?;
    match (libc::c_int::from(lock.l_type), lock.l_pid) {
        (libc::F_UNLCK, _) => None,
        (_, process @ 1..) => Some(format!("by process {process}, which has locked it")),
        _ => Some("by a program that has locked it".to_string()),
    }
}

#[cfg(test)]
mod tests;
