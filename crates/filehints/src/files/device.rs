//! From the device of a file system down to what an NBD client made of a volume.
//!
//! 1. A partition lies at its start on its disk.
//! 2. A loop device lies at its offset in a file. A file on a FUSE mount is a volume (nbdfuse).
//! 3. `/dev/nbdN` is a volume.
//! 4. Another disk may be one (in a virtual machine, over iSCSI): only who says so by name knows.
//! 5. Stacks (LVM, md, crypt) are not followed: their maps are not linear in general. File systems
//!    without a device of their own (btrfs, tmpfs, overlay) say nothing of where on a device files
//!    lie; btrfs answers FIEMAP with addresses of its own.
//!
//! Source: `/sys/dev/block`, as in sysfs(5) and the kernel's `Documentation/ABI`.

use super::mounts::Mounts;
use crate::HintError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Sectors of sysfs, whatever the device's own.
const SECTOR: u64 = 512;
/// A partition on a loop device is two steps; nothing that is followed has more.
const STEPS_MAX: usize = 4;

/// Device at the bottom of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// The file or device that stands for the volume.
    pub below: PathBuf,
    /// Offset of the file system's device in it, bytes.
    pub offset: u64,
    /// Length of that device, bytes.
    pub length: u64,
    /// True if it is of the kind that NBD clients make.
    pub of_client: bool,
}

/// A reason that a device was not followed.
#[derive(Debug, PartialEq, Eq)]
pub enum Lost {
    /// No device of its own.
    NoDevice(String),
    /// A stack.
    Stack(String, Vec<String>),
    /// The system says something that is not understood.
    Unclear(PathBuf),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NoDevice(kind) => write!(
                f,
                "it is on {kind}, which does not say where on a device its files lie; ext4, XFS \
                 and other file systems on one device do"
            ),
            Lost::Stack(name, slaves) => write!(
                f,
                "{name} is put together from {}, and such stacks (LVM, md, crypt) are not \
                 followed; put the file system on the volume itself, or on a partition of it",
                slaves.join(", ")
            ),
            Lost::Unclear(path) => {
                write!(f, "{} does not say what was expected", path.display())
            }
        }
    }
}

/// Folder in which the system describes its devices.
#[derive(Debug)]
pub struct Sys {
    sys: PathBuf,
    dev: PathBuf,
    mounts: Mounts,
}

impl Sys {
    /// `/sys`.
    pub fn of_this_system() -> Result<Sys, HintError> {
        Ok(Sys::new(Path::new("/sys"), Mounts::read()?))
    }

    pub(crate) fn new(sys: &Path, mounts: Mounts) -> Sys {
        Sys { sys: sys.to_path_buf(), dev: PathBuf::from("/dev"), mounts }
    }

    /// Device at the bottom of one with a file system of this kind.
    ///
    /// # Errors
    /// When it cannot be followed.
    pub fn ground(&self, device: (u32, u32), kind: &str) -> Result<Ground, Lost> {
        let entry = self.sys.join(format!("dev/block/{}:{}", device.0, device.1));
        if device.0 == 0 || kind == "btrfs" {
            return Err(Lost::NoDevice(kind.to_string()));
        }
        let unclear = |path: &Path| Lost::Unclear(path.to_path_buf());
        let mut at = entry.canonicalize().map_err(|_| unclear(&entry))?;
        let length = number(&at.join("size"))?.saturating_mul(SECTOR);
        let mut offset = 0_u64;
        for _ in 0..STEPS_MAX {
            if at.join("partition").exists() {
                offset = offset.saturating_add(number(&at.join("start"))?.saturating_mul(SECTOR));
                at = at.parent().ok_or_else(|| unclear(&entry))?.to_path_buf();
                continue;
            }
            return self.disk(&at, offset, length);
        }
        Err(unclear(&entry))
    }

    /// The same of a whole disk.
    fn disk(&self, at: &Path, offset: u64, length: u64) -> Result<Ground, Lost> {
        let name = at.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let slaves: Vec<String> = std::fs::read_dir(at.join("slaves"))
            .map(|found| found.flatten().map(|one| one.file_name().to_string_lossy().into()))
            .map(Iterator::collect)
            .unwrap_or_default();
        if !slaves.is_empty() {
            return Err(Lost::Stack(name, slaves));
        }
        let file = at.join("loop/backing_file");
        if let Ok(text) = std::fs::read_to_string(&file) {
            let below = PathBuf::from(text.trim_end_matches('\n'));
            let offset = offset.saturating_add(number(&at.join("loop/offset"))?);
            let mount = self.mounts.holding(&below);
            let of_client = mount.is_ok_and(|mount| mount.kind.starts_with("fuse"));
            return Ok(Ground { below, offset, length, of_client });
        }
        let of_client = name.starts_with("nbd");
        Ok(Ground { below: self.dev.join(name), offset, length, of_client })
    }
}

fn number(file: &Path) -> Result<u64, Lost> {
    let text = std::fs::read_to_string(file).ok();
    let found = text.and_then(|text| text.trim().parse().ok());
    found.ok_or_else(|| Lost::Unclear(file.to_path_buf()))
}
