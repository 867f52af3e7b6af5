//! The fastest pool in memory: a link in the data folder to a file on tmpfs.
//!
//! What is only there is lost when the machine goes down, so nobody gets this without asking
//! (docs/decisions: a volume of the default configuration survives a reboot).

use super::StartError;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use thermocline_ports_os::lies_in_memory;

/// Folder of files in memory.
const TMPFS: &str = "/dev/shm";

/// Makes `link`, in the data folder, point to a file on tmpfs that only this user can reach; does
/// nothing when something is there already.
///
/// # Errors
/// When the folders cannot be made, or somebody else has the one in memory.
pub fn link_to_tmpfs(data: &Path, link: &Path) -> Result<(), StartError> {
    let failed = |path: &Path, error| StartError::Failed(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(data).map_err(|error| failed(data, error))?;
    if std::fs::symlink_metadata(link).is_ok() {
        return Ok(());
    }
    let data = data.canonicalize().map_err(|error| failed(data, error))?;
    let folder = Path::new(TMPFS).join(format!("thermocline-{:016x}", hash(&data)));
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed(&folder, error));
        }
        _ => {}
    }
    // Anybody may make folders there: one that is not ours, or is a link, is a trap.
    let found = std::fs::symlink_metadata(&folder).map_err(|error| failed(&folder, error))?;
    let ourselves = Path::new("/proc/self");
    let user = std::fs::metadata(ourselves).map_err(|error| failed(ourselves, error))?.uid();
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        let name = folder.display();
        let text = format!("{name} is not a folder that only you can use; have it removed");
        return Err(StartError::input(text));
    }
    symlink(folder.join("scm.pool"), link).map_err(|error| failed(link, error))
}

/// True if what is at `path`, or would be made there, is lost at a reboot.
pub fn is_on_tmpfs(path: &Path) -> bool {
    let is_named_so = std::fs::read_link(path).is_ok_and(|target| target.starts_with(TMPFS));
    let there = path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("."));
    is_named_so || path.starts_with(TMPFS) || lies_in_memory(there)
}

/// FNV-1a (Fowler, Noll and Vo, 1991): names a folder, no more.
fn hash(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Refuses to make a file where the system keeps its devices: the device is not there, and a file
/// in its place would be in memory, and in its way when it comes.
pub(crate) fn refuse_among_devices(path: &Path) -> Result<(), String> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let at = std::fs::read_link(path).map_or(path.to_path_buf(), |target| beside.join(target));
    let folder = at.parent().and_then(|folder| folder.canonicalize().ok());
    let is_among = |folder: &PathBuf| folder.starts_with("/dev") && !folder.starts_with(TMPFS);
    if path.exists() || !folder.as_ref().is_some_and(is_among) {
        return Ok(());
    }
    Err(format!(
        "{} is not there, and no file is made among the devices of the system: connect the \
         device, or name a file elsewhere",
        path.display()
    ))
}
