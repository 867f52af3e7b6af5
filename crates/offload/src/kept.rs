//! Requests of administrators and tenants, as they are kept over a restart: `pool.json`.

use crate::OffloadError;
use crate::api::{DeviceProfile, Request};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use thermocline_admin::secret::random_bytes;

/// Makes the state folder where it is missing, for its owner alone, and locks it: one pool at a
/// time has it.
pub(crate) fn lock(path: &Path) -> Result<File, OffloadError> {
    if !path.is_dir() {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    let folder = File::open(path)?;
    // A folder that was there keeps its mode: it may hold what others read. Its files are for their
    // owner alone. Who may write to the folder could put others in their place.
    if folder.metadata()?.mode() & 0o022 != 0 {
        return Err(OffloadError::Open(path.to_path_buf()));
    }
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(OffloadError::Busy(path.to_path_buf())),
        // File systems without locks.
        _ => Ok(folder),
    }
}

/// Everything that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    /// Chains that were changed, by tenant.
    pub(crate) chains: BTreeMap<String, Vec<String>>,
    /// Numbers of slots, by function.
    pub(crate) counts: BTreeMap<String, usize>,
    /// Functions of slots that an administrator loaded.
    pub(crate) loads: BTreeMap<usize, String>,
    /// Cards that are drained.
    pub(crate) drained: BTreeSet<String>,
    /// Names of cards and slots for the rest of the world.
    pub(crate) ids: BTreeMap<String, String>,
    /// Device profiles.
    pub(crate) profiles: Vec<DeviceProfile>,
    /// Accelerator requests.
    pub(crate) requests: Vec<Request>,
}

impl Kept {
    /// Reads what is kept; nothing, if there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Kept, String> {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The name of a thing for the rest of the world, which it keeps.
    pub(crate) fn id(&mut self, thing: &str) -> String {
        let fresh = || uuid().unwrap_or_else(|_| thing.to_string());
        self.ids.entry(thing.to_string()).or_insert_with(fresh).clone()
    }
}

/// A random UUID (RFC 9562, version 4).
pub(crate) fn uuid() -> std::io::Result<String> {
    let mut bytes = random_bytes::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(parts.join("-"))
}

#[cfg(test)]
mod tests;
