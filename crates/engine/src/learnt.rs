//! The learnt state of a policy, kept over restarts in a file of the data folder.
//!
//! Written every [`EVERY`], and when the engine stops; read when a policy begins that is the same,
//! with the same settings, on the same group. A file that cannot be used is left out with an event,
//! never an obstacle: the policy learns anew. Hints are kept beside it (`kept_hints`). Not kept:
//! the heat of the dashboard.

mod format;
#[cfg(test)]
mod tests;

use crate::mailbox::Mailbox;
use format::FILE_BYTES_MAX;
pub(crate) use format::Learnt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thermocline_admin::files;

/// Time between two writes of the file.
const EVERY: Duration = Duration::from_secs(300);

/// Reads a file; `None`: there is none.
///
/// # Errors
/// When it cannot be read, or is longer than such files are.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is longer than such a file can be"));
    }
    Ok(Some(bytes))
}

/// Replaces a file of the data folder.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::replace(path, files::EVERYBODY_READS, |mut file| file.write_all(bytes))
}

/// Puts a file that cannot be used beside its place, under the name with `.unread` behind it, where
/// the next write does not go over it. True if it is there now.
pub(crate) fn set_aside(path: &Path) -> bool {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".unread");
    std::fs::rename(path, aside).is_ok()
}

/// Files that are kept over restarts, in the data folder.
#[derive(Debug, Clone)]
pub struct Kept {
    /// State that the policy learnt.
    pub learnt: PathBuf,
    /// Hints.
    pub hints: PathBuf,
    /// Held while they are written: the engine that stops writes beside the thread that does it
    /// now and then.
    writing: Arc<Mutex<()>>,
}

impl Kept {
    /// The files of a data folder.
    pub fn of(data: &Path) -> Kept {
        let (learnt, hints) = (data.join("learnt"), data.join("hints.json"));
        Kept { learnt, hints, writing: Arc::default() }
    }

    /// Writes both, or removes the hints where there are none any more. Each is written also where
    /// the other cannot be.
    ///
    /// # Errors
    /// When the folder takes no file; the message names it.
    pub fn write(&self, learnt: Option<&[u8]>, hints: Option<&[u8]>) -> Result<(), String> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let learnt = learnt.map_or(Ok(()), |bytes| replace(&self.learnt, bytes));
        let hints = match hints {
            Some(bytes) => replace(&self.hints, bytes),
            None => match std::fs::remove_file(&self.hints) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        };
        let failed = [(&self.learnt, learnt), (&self.hints, hints)]
            .into_iter()
            .filter_map(|(path, done)| Some(format!("{}: {}", path.display(), done.err()?)))
            .collect::<Vec<_>>();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}

/// Writes the files now and then, from a thread of its own that ends with the engine.
///
/// # Errors
/// When the system gives no thread.
pub fn keep(mailbox: Mailbox, kept: Kept) -> io::Result<()> {
    let round = move || {
        let (tell, told) = channel();
        mailbox.send(move |admin| {
            // The thread waits for it.
            let _ = tell.send((admin.learnt(), admin.kept_hints()));
        });
        // An engine that has stopped drops the task, and with it the way to tell.
        let Ok((learnt, hints)) = told.recv() else { return false };
        if let Err(error) = kept.write(learnt.as_deref(), hints.as_deref()) {
            let text = format!("what is learnt and hinted cannot be kept: {error}");
            mailbox.send(move |admin| admin.note_forgetting(text));
        }
        true
    };
    let work = move || {
        while {
            std::thread::sleep(EVERY);
            round()
        } {}
    };
    std::thread::Builder::new().name("learnt".to_string()).spawn(work).map(|_| ())
}
