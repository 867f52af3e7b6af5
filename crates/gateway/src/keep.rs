//! Caches that outlive the process: a file each, in a folder that only its owner can read.
//!
//! 1. A file is taken away before what was in it is used: were it read twice, names would be given
//!    twice. So an end that is killed begins with an empty cache. While it is being read it stays:
//!    an end that is stopped meanwhile keeps it.
//! 2. A stopping end replaces the file as a whole: there is one or none.

use rustix::fs::OFlags;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thermocline_admin::files;
use thermocline_tunnel::{Cache, SavedError};
use thermocline_units::Bytes;

/// Bytes that are read or written at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// A reason that a folder cannot keep caches.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Others could read chunks there, or put other ones in their place.
    #[error("{}: others may enter it; chmod 700 it, or name another folder", .0.display())]
    Open(PathBuf),
    /// Not a folder, or it cannot be made or looked into.
    #[error("{}: {error}", .folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The system's word.
        error: io::Error,
    },
}

/// Makes a folder, or looks whether one that is there is its owner's alone.
pub(crate) fn make_private(folder: &Path) -> Result<(), KeepError> {
    let failed = |error| KeepError::Io { folder: folder.to_path_buf(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    if fs::metadata(folder).map_err(failed)?.mode() & 0o077 != 0 {
        return Err(KeepError::Open(folder.to_path_buf()));
    }
    Ok(())
}

/// A folder of caches.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    folder: PathBuf,
}

impl Keep {
    /// Makes the folder, or looks whether one that is there is its owner's alone.
    pub(crate) fn new(folder: &Path) -> Result<Keep, KeepError> {
        make_private(folder)?;
        Ok(Keep { folder: folder.to_path_buf() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.cache"))
    }

    /// The cache that was saved under `name`; `None` if none was. Before it is used, its file has
    /// to go ([`Keep::is_used`]).
    ///
    /// # Errors
    /// The file cannot be read, or was damaged; it is gone then, unless it could not be taken away.
    pub(crate) fn read(&self, name: &str, capacity: Bytes) -> Result<Option<Cache>, SavedError> {
        let path = self.path(name);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if !file.metadata()?.is_file() {
            let text = "not a regular file; move it away";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
        }
        let read = Cache::read_saved(BufReader::with_capacity(BUFFER_BYTES, file), capacity);
        if read.is_err() {
            self.is_used(name)?;
        }
        read.map(Some)
    }

    /// The cache that was saved under `name`, if any, is in use: its file goes, for good.
    pub(crate) fn is_used(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Ok(()) => self.force(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Saves a cache under `name`.
    pub(crate) fn save(&self, name: &str, cache: &Cache) -> io::Result<()> {
        files::replace(&self.path(name), files::OWNER_ONLY, |file| {
            cache.write_saved(BufWriter::with_capacity(BUFFER_BYTES, file))
        })
    }

    /// Forces the folder's own changes to the device.
    fn force(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}
