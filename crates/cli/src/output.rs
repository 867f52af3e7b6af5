//! Where results go: the standard output, and files that appear whole or not at all.

use crate::error::CliError;
use std::fs::File;
use std::io::{self, BufWriter, Write};
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

/// A file under way: written beside its name, renamed into place by [`OutputFile::finish`], removed
/// when dropped before that.
pub(crate) struct OutputFile {
    path: PathBuf,
    part: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl OutputFile {
    /// Begins `path`; an existing file is left alone unless `force`.
    pub(crate) fn create(path: &Path, force: bool) -> Result<OutputFile, CliError> {
        if !force && path.exists() {
            let name = path.display();
            return Err(CliError::input(format!("{name} exists; choose another name or --force")));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part)
            .map_err(|error| CliError::failed(format!("{}: {error}", part.display())))?;
        Ok(OutputFile { path: path.to_path_buf(), part, writer: Some(BufWriter::new(file)) })
    }

    /// Puts the file in place, its content synced first; on failure nothing is left.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        let name = self.path.display().to_string();
        let writer = self.writer.as_mut().expect("only finishing takes the writer");
        let synced = writer.flush().and_then(|()| writer.get_ref().sync_all());
        synced
            .and_then(|()| std::fs::rename(&self.part, &self.path))
            .map_err(|error| CliError::failed(format!("{name}: {error}")))?;
        self.writer = None; // there is no part to remove any more
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().expect("only finishing takes the writer").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().expect("only finishing takes the writer").flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // After `finish` the part is gone and there is nothing to remove.
        if self.writer.is_some() {
            let _ = std::fs::remove_file(&self.part);
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
