//! The second tier of a cache: a file without a name, and a thread that reads and writes it.
//!
//! 1. The file is removed as soon as it is open: what is in it means nothing to another process,
//!    and nothing stays behind, however the process ends.
//! 2. Jobs are done in their order. Reads of chunks that lie one behind the other are one read:
//!    content that is sent again is asked for in the order in which it was written.
//! 3. The results go to the hub, which wakes whoever waits for them.

use crate::config::Severity;
use crate::core::Core;
use crate::hub::Hub;
use crate::keep::{KeepError, make_private};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use thermocline_admin::secret::random_number;
use thermocline_tunnel::{DiskDone, DiskJob, Ticket};
use thermocline_units::Bytes;

/// Jobs that are looked at together.
const BATCH_JOBS: usize = 256;
/// Bytes of one read, at most; a chunk is shorter.
const READ_BYTES_MAX: usize = 1 << 20;

/// A folder in which caches have files, and how large those may become.
#[derive(Debug, Clone)]
pub struct DiskTier {
    /// The folder, which only its owner may enter; it is made if it is not there.
    pub folder: PathBuf,
    /// Bytes of each file at most; below 1 TiB.
    pub bytes: Bytes,
}

impl DiskTier {
    /// Looks whether files can be made in the folder.
    ///
    /// # Errors
    /// They cannot, or others may enter it.
    pub(crate) fn check(&self) -> Result<(), KeepError> {
        make_private(&self.folder)?;
        let failed = |error| KeepError::Io { folder: self.folder.clone(), error };
        nameless_file(&self.folder).map(drop).map_err(failed)
    }

    /// Starts a thread for the cache of a hub; its jobs go to what is returned. The thread ends
    /// when that is dropped.
    ///
    /// # Errors
    /// The file cannot be made, or the thread not be started.
    pub(crate) fn begin(&self, core: &Arc<Core>, hub: &Arc<Hub>) -> io::Result<Sender<DiskJob>> {
        let file = nameless_file(&self.folder)?;
        let (sender, jobs) = channel();
        let folder = self.folder.clone();
        let (core, hub) = (core.clone(), Arc::downgrade(hub));
        let work = move || work(&file, &jobs, &hub, &|error| tell(&core, &folder, error));
        std::thread::Builder::new().name("tunnel-disk".into()).spawn(work)?;
        Ok(sender)
    }
}

fn tell(core: &Core, folder: &Path, error: &io::Error) {
    let folder = folder.display();
    let text = format!("{folder}: {error}; goes on without chunks on disk until the next start");
    core.tell(Severity::Warning, "cache", text);
}

fn nameless_file(folder: &Path) -> io::Result<File> {
    let path =
        folder.join(format!("tunnel-{}-{:016x}.chunks", std::process::id(), random_number()?));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Does jobs until nobody has any more.
fn work(file: &File, jobs: &Receiver<DiskJob>, hub: &Weak<Hub>, tell: &dyn Fn(&io::Error)) {
    let mut has_failed = false;
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        batch.extend(jobs.try_iter().take(BATCH_JOBS - 1));
        let mut failed = |error: &io::Error| {
            if !std::mem::replace(&mut has_failed, true) {
                tell(error);
            }
        };
        // One by one: a batch on a slow disk takes longer than a flow has patience.
        work_off(file, batch, &mut failed, &mut |done| {
            if let Some(hub) = hub.upgrade() {
                hub.disk_done(done);
            }
        });
    }
}

/// Reads that lie one behind the other.
#[derive(Default)]
struct Run {
    place: u64,
    bytes: usize,
    chunks: Vec<(Ticket, usize)>,
}

impl Run {
    fn takes(&self, place: u64, length: usize) -> bool {
        self.place + self.bytes as u64 == place && self.bytes + length <= READ_BYTES_MAX
    }

    fn read(&mut self, file: &File, answer: &mut dyn FnMut(DiskDone)) {
        let Run { place, bytes: length, chunks } = std::mem::take(self);
        let mut bytes = vec![0; length];
        let is_read = file.read_exact_at(&mut bytes, place).is_ok();
        let mut rest = &bytes[..];
        for (ticket, length) in chunks {
            let (chunk, behind) = rest.split_at(length);
            rest = behind;
            let bytes = is_read.then(|| chunk.to_vec());
            answer(DiskDone::Read { ticket, bytes });
        }
    }
}

/// Does jobs, in an order that nobody can tell from theirs, and answers each when it is done.
fn work_off(
    file: &File,
    jobs: Vec<DiskJob>,
    failed: &mut dyn FnMut(&io::Error),
    answer: &mut dyn FnMut(DiskDone),
) {
    let mut run = Run::default();
    for job in jobs {
        match job {
            DiskJob::Read { ticket, place, length } => {
                if !run.takes(place, length) {
                    run.read(file, answer);
                    run.place = place;
                }
                run.bytes += length;
                run.chunks.push((ticket, length));
            }
            DiskJob::Write { place, bytes } => {
                run.read(file, answer);
                let written = file.write_all_at(&bytes, place);
                if let Err(error) = &written {
                    failed(error);
                }
                answer(DiskDone::Written { is_written: written.is_ok() });
            }
        }
    }
    run.read(file, answer);
}

#[cfg(test)]
mod tests;
