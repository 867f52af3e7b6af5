//! Where results go: the standard output, and files that appear whole or not at all.
//!
//! A regular file is written beside its name and renamed into place. What is not a regular file (a
//! device, a FIFO, a socket) and what a symbolic link leads to is opened and written in place: it
//! would otherwise be replaced by a file, and whoever reads it would get nothing.

use crate::error::CliError;
use serde::Serialize;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Prints to the standard output. A reader that has gone away (`… | head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints an answer: as JSON where that was asked for, else as `text` says it.
pub(crate) fn answer<T: Serialize>(
    json: bool,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), CliError> {
    let out = match json {
        true => serde_json::to_string_pretty(value).expect("answers are plain") + "\n",
        false => text(value),
    };
    print(&out)
}

/// An output under way: finished by [`OutputFile::finish`]; a part that was written beside its name
/// is removed when dropped before that.
pub(crate) struct OutputFile {
    path: PathBuf,
    /// The file beside `path` that is renamed at the end; `None` when written in place.
    part: Option<PathBuf>,
    /// True if the system can be asked to make the content durable.
    syncs: bool,
    writer: BufWriter<File>,
}

impl OutputFile {
    /// Begins `path`; a file or block device that exists is left alone unless `force`.
    pub(crate) fn create(path: &Path, force: bool) -> Result<OutputFile, CliError> {
        let name = path.display();
        // What the name leads to, and whether it is a link.
        let found = std::fs::metadata(path).ok().map(|met| met.file_type());
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|met| met.is_symlink());
        if found.is_some_and(|kind| kind.is_dir()) {
            return Err(CliError::input(format!("{name} is a directory; name a file in it")));
        }
        if !force && found.is_some_and(holds_content) {
            return Err(CliError::input(format!("{name} exists; choose another name or --force")));
        }
        let special = found.is_some_and(|kind| !kind.is_file());
        let syncs = found.is_none_or(holds_content);
        if special || is_link {
            // Cutting off what stood there is for files only.
            let mut options = OpenOptions::new();
            options.write(true).create(!special).truncate(!special);
            let file = options.open(path);
            let file = file.map_err(|error| CliError::failed(format!("{name}: {error}")))?;
            let writer = BufWriter::new(file);
            return Ok(OutputFile { path: path.to_path_buf(), part: None, syncs, writer });
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part)
            .map_err(|error| CliError::failed(format!("{}: {error}", part.display())))?;
        let writer = BufWriter::new(file);
        Ok(OutputFile { path: path.to_path_buf(), part: Some(part), syncs, writer })
    }

    /// Puts the file in place, its content synced first; on failure no part is left.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        let name = self.path.display().to_string();
        let mut done = self.writer.flush();
        if self.syncs {
            done = done.and_then(|()| self.writer.get_ref().sync_all());
        }
        if let Some(part) = &self.part {
            done = done.and_then(|()| std::fs::rename(part, &self.path));
        }
        done.map_err(|error| CliError::failed(format!("{name}: {error}")))?;
        self.part = None; // there is no part to remove any more
        Ok(())
    }
}

/// True for what keeps bytes that writing would destroy: files and block devices.
fn holds_content(kind: FileType) -> bool {
    kind.is_file() || kind.is_block_device()
}

impl OutputFile {
    /// Leaves out `length` zeroes: a hole in a file that was begun here; written elsewhere.
    pub(crate) fn skip(&mut self, length: u64) -> io::Result<()> {
        if self.part.is_some() {
            self.writer.flush()?;
            let end = self.writer.get_mut().seek(SeekFrom::Current(length as i64))?;
            return self.writer.get_ref().set_len(end);
        }
        io::copy(&mut io::repeat(0).take(length), &mut self.writer).map(|_| ())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // After `finish` there is no part to remove.
        if let Some(part) = &self.part {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Writes a whole text file; an existing one is left alone unless `force`.
pub(crate) fn write_text(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    let mut file = OutputFile::create(path, force)?;
    file.write_all(text.as_bytes())
        .map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
    file.finish()
}
