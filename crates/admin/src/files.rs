//! Files that a program keeps over restarts, replaced as a whole.

pub use crate::unix_socket::OWNER_ONLY;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Mode of a file that everybody may read.
pub const EVERYBODY_READS: u32 = 0o644;

/// Puts a file in the place of another, or where none was, durably: a crash at any moment leaves
/// the old one or the new one, whole.
///
/// `write` fills the new file, which lies beside `path` under its name with `.new` behind it. The
/// new file has the permissions `mode`, as far as the process's umask lets it. If anything fails it
/// is removed, since on a full disk it would keep room from others, and the old file stays.
///
/// # Errors
/// The system refuses, or `write` fails. If only the last step fails, which forces the folder, the
/// new file is in place and may be gone after a loss of power.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let beside = beside(path);
    // What an interrupted call left may have another mode, or be a link to somewhere else.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let filled = write(&file).and_then(|()| file.sync_all());
    let renamed = filled.and_then(|()| fs::rename(&beside, path));
    if renamed.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    renamed?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The name of the new file while it is written.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
