//! Output of commands: the standard output, and files that appear whole or not at all.
//!
//! A regular file is written beside its name and renamed into place; where the name is a symbolic
//! link, beside what it leads to, and the link stays. What is not a regular file (a device, a FIFO,
//! a socket), and what is reached through `/proc` (`/dev/stdout`), is opened and written in place:
//! it would otherwise be replaced by a file, and whoever reads it would get nothing.
//!
//! What is in use is refused, `--force` or not: a block device that is mounted, part of another
//! one or a pool; a file that an engine has locked, that is swap, or below a loop device.

use crate::error::CliError;
use crate::in_use::refuse_used;
use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::Serialize;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thermocline_ports_os::lock_backing_file;

/// Symbolic links that are followed; the kernel follows as many.
const LINKS_MAX: usize = 40;

/// The command that this process carries out, as the origin of what it writes. Names in it need not
/// be UTF-8; what is not shows as such.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    format!("thermocline {}", words.join(" "))
}

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
    /// The file that is written, and where it is renamed to; `None` when written in place.
    part: Option<Part>,
    /// True if the system can be asked to make the content durable.
    syncs: bool,
    writer: BufWriter<File>,
    /// The file below a loop device that is written, locked meanwhile.
    _backing: Option<OwnedFd>,
}

/// A file that is written beside the one that it shall become.
struct Part {
    at: PathBuf,
    becomes: PathBuf,
    /// True if it may take the place of a file that is there.
    replaces: bool,
}

impl Part {
    /// Puts the file in place. What came there meanwhile stays, or, where it may be replaced, is
    /// looked at again: writing may have taken hours.
    fn put_in_place(&self) -> Result<(), CliError> {
        let name = self.becomes.display();
        let failed = |error: io::Error| CliError::failed(format!("{name}: {error}"));
        if self.replaces {
            if self.becomes.is_file() {
                refuse_file_in_use(&self.becomes)?;
            }
            return std::fs::rename(&self.at, &self.becomes).map_err(failed);
        }
        let came = || {
            CliError::failed(format!(
                "{name} came to be while this was written, and stays as it is; choose another \
                 name or --force"
            ))
        };
        match renameat_with(CWD, &self.at, CWD, &self.becomes, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(came()),
            // File systems that do not know the flag.
            Err(Errno::INVAL | Errno::NOSYS) if !self.becomes.exists() => {
                std::fs::rename(&self.at, &self.becomes).map_err(failed)
            }
            Err(Errno::INVAL | Errno::NOSYS) => Err(came()),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// Users that may read an output that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Everybody whom the process's umask allows.
    Anyone,
    /// Its owner alone: it holds what is on a volume.
    Owner,
}

impl OutputFile {
    /// Begins `path`; a file or block device that exists is left alone unless `force`, and one that
    /// is in use always.
    pub(crate) fn create(
        path: &Path,
        force: bool,
        readers: Readers,
    ) -> Result<OutputFile, CliError> {
        let name = path.display();
        // What the name leads to.
        let found = std::fs::metadata(path).ok().map(|met| met.file_type());
        if found.is_some_and(|kind| kind.is_dir()) {
            return Err(CliError::input(format!("{name} is a directory; name a file in it")));
        }
        if !force && found.is_some_and(holds_content) {
            return Err(CliError::input(format!("{name} exists; choose another name or --force")));
        }
        if found.is_some_and(|kind| kind.is_file()) {
            refuse_file_in_use(path)?;
        }
        let syncs = found.is_none_or(holds_content);
        let (file, part) = match found {
            Some(kind) if !kind.is_file() => (open_special(path, kind)?, None),
            _ => match end_of_links(path)? {
                None => {
                    let mut options = OpenOptions::new();
                    options.write(true).create(true).truncate(true);
                    (opened(path, options.open(path))?, None)
                }
                Some(becomes) => {
                    let at = part_of(&becomes);
                    (create_part(&at, readers)?, Some(Part { at, becomes, replaces: force }))
                }
            },
        };
        let backing = lock_backing_file(&file).map_err(|file| {
            let file = file.display();
            CliError::input(format!("{name} is a loop device on {file}, which is in use"))
        })?;
        let path = path.to_path_buf();
        Ok(OutputFile { path, part, syncs, writer: BufWriter::new(file), _backing: backing })
    }

    /// Puts the file in place, its content synced first; on failure no part is left.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        let name = self.path.display().to_string();
        let mut done = self.writer.flush();
        if self.syncs {
            done = done.and_then(|()| self.writer.get_ref().sync_all());
        }
        done.map_err(|error| CliError::failed(format!("{name}: {error}")))?;
        if let Some(part) = &self.part {
            part.put_in_place()?;
        }
        self.part = None; // there is no part to remove any more
        Ok(())
    }
}

/// Refuses a file that somebody uses.
fn refuse_file_in_use(path: &Path) -> Result<(), CliError> {
    let name = path.display();
    refuse_used(path, "choose another name")?;
    // Engines lock their pools, and so does this process those that it reads.
    let locked = |file: &File| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    if File::open(path).is_ok_and(|file| locked(&file) == Err(Errno::WOULDBLOCK)) {
        let text = format!("{name} is in use: a pool, or locked by a program; choose another name");
        return Err(CliError::input(text));
    }
    Ok(())
}

/// Opens a device, a FIFO or a socket for writing. A block device is opened exclusively, so that
/// what is mounted, part of another device or a pool that is open is refused.
fn open_special(path: &Path, kind: FileType) -> Result<File, CliError> {
    let mut options = OpenOptions::new();
    options.write(true);
    if kind.is_block_device() {
        // Virtual machines lock ranges of their disks, and do not open them exclusively.
        refuse_used(path, "name another one")?;
        options.custom_flags(OFlags::EXCL.bits() as i32);
    }
    match options.open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            let name = path.display();
            Err(CliError::input(format!(
                "{name} is in use: it is mounted, part of another device (lsblk shows of which), or \
                 a pool; name another one"
            )))
        }
        file => opened(path, file),
    }
}

/// The file that a name leads to through symbolic links, which need not be there; `None`: one of
/// the links is into `/proc`, where names stand for what is open.
fn end_of_links(path: &Path) -> Result<Option<PathBuf>, CliError> {
    let mut at = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&at) else { return Ok(Some(at)) };
        at = at.parent().unwrap_or(Path::new("")).join(target);
        if at.starts_with("/proc") {
            return Ok(None);
        }
    }
    Err(CliError::input(format!("{}: too many symbolic links", path.display())))
}

/// Name of the file beside `path` that is written first.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    PathBuf::from(part)
}

/// Makes the file beside an output. What is there under its name is somebody's, and a link there
/// could lead anywhere: both are left alone.
fn create_part(part: &Path, readers: Readers) -> Result<File, CliError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if readers == Readers::Owner {
        options.mode(0o600);
    }
    match options.open(part) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let part = part.display();
            Err(CliError::input(format!(
                "{part} exists: another run writes it, or one that was cut off left it; remove it, \
                 or choose another name"
            )))
        }
        file => opened(part, file),
    }
}

fn opened(path: &Path, file: io::Result<File>) -> Result<File, CliError> {
    file.map_err(|error| CliError::failed(format!("{}: {error}", path.display())))
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
            let _ = std::fs::remove_file(&part.at);
        }
    }
}

/// Writes a whole text file; an existing one is left alone unless `force`.
pub(crate) fn write_text(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    let mut file = OutputFile::create(path, force, Readers::Anyone)?;
    file.write_all(text.as_bytes())
        .map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
    file.finish()
}

#[cfg(test)]
mod tests;
