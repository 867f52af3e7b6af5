//! A file that is made for measuring, full of bytes that are on the medium, and removed afterwards.

use crate::error::CliError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thermocline_ports::Payload;
use thermocline_units::Bytes;

/// A file that is made for measuring, and removed afterwards.
pub(super) struct Scratch {
    path: PathBuf,
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
        let path = folder.join(format!(".thermocline-calibrate-{}", std::process::id()));
        let failed = |error: io::Error| CliError::failed(format!("{}: {error}", path.display()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        let scratch = Scratch { path: path.clone() };
        fill(file, size, &contents.to_vec()).map_err(failed)?;
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn fill(mut file: File, size: Bytes, contents: &[u8]) -> io::Result<()> {
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
        let _ = std::fs::remove_file(&self.path);
    }
}
