//! Mappings as they are saved.

mod format;

pub use format::decode;
pub(crate) use format::encode;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use thermocline_admin::files;

/// States of NATs, by tenant and share.
pub type Saved = BTreeMap<(String, u64), Vec<u8>>;

/// A saved state that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// Another file, or one of another version.
    #[error("it does not begin as saved mappings of this version do")]
    Magic,
    /// The checksum is another.
    #[error("its checksum is wrong; it is damaged")]
    Checksum,
    /// A file that ends too early, or goes on.
    #[error("its parts do not fit together; it is damaged")]
    Parts,
}

/// Replaces a file that its owner alone may read.
///
/// # Errors
/// The system refuses; the old file is there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::replace(path, files::OWNER_ONLY, |mut file| file.write_all(bytes))
}

#[cfg(test)]
mod tests;
