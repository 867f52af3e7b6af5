//! A recording being written: blocks come from the engine's loop, a thread packs and writes them.
//!
//! The loop never waits: it hands a block over or, when [`BLOCKS_WAITING_MAX`] are waiting already,
//! gives the recording up. So does the thread when the file cannot be written; what is whole in it
//! stays. Either way the reason is said once, and the volume goes on.

use crate::error::CliError;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use thermocline_engine::pools::refuse_own_file;
use thermocline_recording::Sink;
use thermocline_trace::recording::Packer;
use thermocline_units::Bytes;

/// Blocks of at most 512 KiB that may wait for the file: seconds of a busy engine.
const BLOCKS_WAITING_MAX: usize = 256;

/// Told once why a recording ended before its time.
pub(crate) type Trouble = Arc<dyn Fn(&str) + Send + Sync>;

/// A recording under way.
pub(crate) struct Recording {
    path: PathBuf,
    writer: JoinHandle<io::Result<u64>>,
    failed: Arc<OnceLock<()>>,
}

/// Queue in which the engine's loop puts blocks.
pub(crate) struct Blocks {
    path: PathBuf,
    waiting: SyncSender<Vec<u8>>,
    failed: Arc<OnceLock<()>>,
    trouble: Trouble,
}

impl Recording {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub(crate) fn begin(path: &Path, trouble: Trouble) -> Result<(Recording, Blocks), CliError> {
        let failed = |error| CliError::failed(format!("{}: {error}", path.display()));
        Recording::check(path)?;
        let file = File::create_new(path).map_err(failed)?;
        Recording::on(file, path, trouble).map_err(failed)
    }

    /// Refuses a place that the engine keeps for itself in its data folder, and one whose folder
    /// is not there. The data folder is made by a first start.
    pub(crate) fn check_place(path: &Path, data: &Path) -> Result<(), CliError> {
        refuse_own_file(data, path).map_err(CliError::input)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder.filter(|folder| !folder.is_dir() && *folder != data) {
            None => Ok(()),
            Some(folder) => Err(CliError::input(format!(
                "{}: {} is no folder; make it first",
                path.display(),
                folder.display()
            ))),
        }
    }

    /// Refuses a file that exists, before anything is started for it.
    pub(crate) fn check(path: &Path) -> Result<(), CliError> {
        let name = path.display();
        match path.exists() {
            true => Err(CliError::input(format!(
                "{name} exists; choose another name for the recording"
            ))),
            false => Ok(()),
        }
    }

    fn on(mut file: File, path: &Path, trouble: Trouble) -> io::Result<(Recording, Blocks)> {
        let (waiting, blocks) = sync_channel(BLOCKS_WAITING_MAX);
        let failed = Arc::new(OnceLock::new());
        let (name, flag, tell) = (path.to_path_buf(), Arc::clone(&failed), Arc::clone(&trouble));
        let write = move || {
            let written = write(&mut file, &blocks);
            if let Err(error) = &written
                && flag.set(()).is_ok()
            {
                tell(&stopped(&name, &error.to_string()));
            }
            written
        };
        let writer = std::thread::Builder::new().name("recording".to_string()).spawn(write)?;
        let path = path.to_path_buf();
        let recording = Recording { path: path.clone(), writer, failed: Arc::clone(&failed) };
        Ok((recording, Blocks { path, waiting, failed, trouble }))
    }

    /// Removes the file of an engine that served nobody.
    pub(crate) fn discard(self) {
        // The error that ended the start is the one to report.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Waits for the last block; the engine, and with it the recorder, must be gone. What was
    /// recorded, in words; nothing when recording ended before.
    pub(crate) fn finish(self) -> String {
        let written = self.writer.join().expect("the writer does not panic");
        match written {
            Ok(bytes) if self.failed.get().is_none() => {
                format!("recorded {} to {}\n", Bytes(bytes), self.path.display())
            }
            _ => String::new(),
        }
    }
}

impl Sink for Blocks {
    fn take(&mut self, block: Vec<u8>) -> bool {
        match self.waiting.try_send(block) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                if self.failed.set(()).is_ok() {
                    (self.trouble)(&stopped(&self.path, "the file is not written fast enough"));
                }
                false
            }
            // The writer has said why.
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    fn ended(&mut self, why: &str) {
        if self.failed.set(()).is_ok() {
            (self.trouble)(&stopped(&self.path, why));
        }
    }
}

fn stopped(path: &Path, why: &str) -> String {
    format!("recording to {} stopped: {why}; the volume goes on", path.display())
}

/// Writes blocks until no more come; the bytes written. What was written of a block that does not
/// fit is taken back, so that the file ends with a whole one.
fn write(file: &mut File, blocks: &Receiver<Vec<u8>>) -> io::Result<u64> {
    let mut packer = Packer::default();
    let mut written = 0;
    let mut put = |bytes: &[u8]| {
        file.write_all(bytes).inspect_err(|_| {
            let _ = file.set_len(written);
        })?;
        written += bytes.len() as u64;
        Ok::<_, io::Error>(())
    };
    put(&packer.head())?;
    for block in blocks {
        put(&packer.pack(&block))?;
    }
    file.sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests;
