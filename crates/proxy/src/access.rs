//! The access log: a JSON object a request, a line each, written on a thread of its own.
//!
//! Requests never wait for a disk: lines go into a queue of [`QUEUE_MAX`]; what finds no room is
//! dropped and counted. Fields of requests and queries of targets are not logged: secrets are
//! there.

use super::config::AccessLog;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Lines that wait to be written.
const QUEUE_MAX: usize = 8192;

/// A request that has ended.
#[derive(Debug, Serialize)]
pub(super) struct Entry<'a> {
    /// Milliseconds since 1970, when it came.
    pub(super) at_ms: u64,
    pub(super) client: std::net::IpAddr,
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) protocol: &'static str,
    pub(super) status: u16,
    pub(super) backend: Option<&'a str>,
    pub(super) tries: u32,
    /// Bytes of the answer's body.
    pub(super) bytes: u64,
    pub(super) took_ms: f64,
    /// The reason that it went wrong, where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a str>,
    /// The reason that the last try failed that did; there after a retry, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<&'a str>,
}

/// Destination of lines.
#[derive(Default)]
pub(super) struct Log {
    is_on: AtomicBool,
    sender: Mutex<Option<SyncSender<Vec<u8>>>>,
    dropped: AtomicU64,
}

impl Log {
    /// True if entries are wanted: making one costs something.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Lines that found no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Writes to another place from now on; a file is opened anew, also under the same name.
    ///
    /// # Errors
    /// When the file or the thread cannot be had; nothing has changed then.
    pub(super) fn open(&self, to: Option<&AccessLog>) -> io::Result<()> {
        let sender = match to {
            None => None,
            Some(AccessLog::Stdout) => Some(writer(io::stdout())?),
            Some(AccessLog::File(path)) => {
                let file: File = OpenOptions::new().create(true).append(true).open(path)?;
                Some(writer(file)?)
            }
        };
        self.is_on.store(sender.is_some(), Relaxed);
        *self.sender.lock().unwrap_or_else(PoisonError::into_inner) = sender;
        Ok(())
    }

    pub(super) fn write(&self, entry: &Entry<'_>) {
        let mut line = serde_json::to_vec(entry).expect("entries are plain");
        line.push(b'\n');
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.as_ref().is_some_and(|sender| sender.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// A thread that writes lines until nobody sends any more.
fn writer(to: impl Write + Send + 'static) -> io::Result<SyncSender<Vec<u8>>> {
    let (sender, lines) = sync_channel(QUEUE_MAX);
    let thread = std::thread::Builder::new().name("access-log".to_string());
    thread.spawn(move || write_all(BufWriter::new(to), &lines))?;
    Ok(sender)
}

fn write_all(mut to: BufWriter<impl Write>, lines: &Receiver<Vec<u8>>) {
    loop {
        let line = match lines.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                // A full disk is not the requests' fault; lines are lost until there is room.
                let _ = to.flush();
                match lines.recv() {
                    Ok(line) => line,
                    Err(_) => break,
                }
            }
        };
        let _ = to.write_all(&line);
    }
    let _ = to.flush();
}
