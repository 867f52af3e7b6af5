//! A file that is made for measuring, full of bytes that are on the medium, and gone afterwards.
//!
//! It has no name where the file system allows that, so that nothing is left however the command
//! ends.

use crate::error::CliError;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use thermocline_ports::Payload;
use thermocline_units::Bytes;

/// A file that is made for measuring, and gone afterwards.
pub(super) struct Scratch {
    file: File,
    /// Its name, where it has to have one.
    name: Option<PathBuf>,
}

impl Scratch {
    /// Makes a file of `size` in `folder` and fills it, so that nothing of it is a hole.
    ///
    /// # Errors
    /// When it cannot be made or does not fit; nothing is left then.
    pub(super) fn make(
        folder: &Path,
        size: Bytes,
        contents: &Payload,
    ) -> Result<Scratch, CliError> {
        let failed = |error: io::Error| CliError::failed(format!("{}: {error}", folder.display()));
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let scratch = match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Scratch { file: File::from(file), name: None },
            // Not every file system has files without a name.
            Err(_) => Scratch::named(folder).map_err(failed)?,
        };
        // Before a byte is written: others may need the room that is left.
        let room = fallocate(&scratch.file, FallocateFlags::empty(), 0, size.0);
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = room {
            let name = folder.display();
            return Err(CliError::failed(format!("{name} has no room for {size}: {error}")));
        }
        fill(&scratch.file, size, &contents.to_vec()).map_err(failed)?;
        Ok(scratch)
    }

    fn named(folder: &Path) -> io::Result<Scratch> {
        let name = folder.join(format!(".thermocline-calibrate-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&name)?;
        Ok(Scratch { file, name: Some(name) })
    }

    /// A path that leads to it as long as this is kept.
    pub(super) fn path(&self) -> PathBuf {
        let by_number = || PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        self.name.clone().unwrap_or_else(by_number)
    }
}

fn fill(mut file: &File, size: Bytes, contents: &[u8]) -> io::Result<()> {
    let mut left = size.0;
    while left > 0 {
        let length = left.min(contents.len() as u64) as usize;
        file.write_all(&contents[..length])?;
        left -= length as u64;
    }
    file.sync_all()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}
