//! Mappings as they are saved.

mod format;

pub use format::decode;
pub(crate) use format::encode;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// States of NATs, by tenant and share.
pub type Saved = BTreeMap<(String, u64), Vec<u8>>;

/// A saved state that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// It is another file, or of another version.
    #[error("it does not begin as saved mappings of this version do")]
    Magic,
    /// The checksum is another.
    #[error("its checksum is wrong; it is damaged")]
    Checksum,
    /// It ends too early, or goes on.
    #[error("its parts do not fit together; it is damaged")]
    Parts,
}

/// Puts a file, for its owner alone, in the place of another, so that a crash leaves the one or the
/// other.
///
/// # Errors
/// The system refuses.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    // One that a crash left may have another mode.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
