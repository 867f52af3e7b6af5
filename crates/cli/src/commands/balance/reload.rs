//! A configuration that changes while the balancer runs.
//!
//! 1. The file is looked at by its name, size, time and number: an editor that writes a new one in
//!    its place is noticed as one that overwrites it.
//! 2. It is read when it has stayed as it is for [`SETTLE`]: one that is still being written is
//!    waited for. SIGHUP reads it at once.
//! 3. What counts is what it says: a file that was only touched changes nothing.
//!
//! A file that is wrong is refused with its line, and is not tried again until it changes.

use crate::config::balance::BalanceConfig;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thermocline_admin::api::Severity;
use thermocline_proxy::Proxy;
use thermocline_proxy::config::Config;

/// Time that a file must stay as it is before it is read.
const SETTLE: Duration = Duration::from_secs(1);

/// Mark of a file's state: number, size, seconds and nanoseconds.
pub(super) type Mark = (u64, u64, i64, i64);

/// The mark of a file; `None` when there is none.
pub(super) fn mark(path: &Path) -> Option<Mark> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

/// Tells when a file that changes has come to rest.
#[derive(Debug)]
struct Rest {
    seen: Option<Mark>,
    /// Time from which on it has been as it was seen; `None`: it has been read since.
    changed: Option<Instant>,
}

impl Rest {
    /// Returns true, once, when a file that had changed has stayed the same for [`SETTLE`].
    fn look(&mut self, now: Instant, mark: Option<Mark>) -> bool {
        if mark != self.seen {
            (self.seen, self.changed) = (mark, Some(now));
        }
        // A file that is not there is being replaced.
        let is_still = |since: &mut Instant| mark.is_some() && now.duration_since(*since) >= SETTLE;
        self.changed.take_if(is_still).is_some()
    }
}

/// A configuration file that is looked at.
pub(super) struct Reload {
    path: PathBuf,
    rest: Rest,
    /// Text when it was read last, right or wrong.
    text: String,
    /// Settings that can only change at a start, as they run.
    started: Config,
}

impl Reload {
    /// Follows a file that said `text` when it was read after `mark` was taken: what changed since
    /// then is noticed.
    pub(super) fn new(path: PathBuf, mark: Option<Mark>, text: String, started: Config) -> Reload {
        Reload { path, rest: Rest { seen: mark, changed: None }, text, started }
    }

    /// Reads the file when it has changed and come to rest, or `asked` to, and has the proxy do as
    /// it says.
    pub(super) fn look(&mut self, proxy: &Proxy, asked: bool) {
        let is_due = self.rest.look(Instant::now(), mark(&self.path));
        if !asked && !is_due {
            return;
        }
        let admin = proxy.admin();
        let refused = |why: &dyn std::fmt::Display| {
            let text = format!("refused; the last good configuration goes on: {why}");
            admin.note(Severity::Error, "configuration", text);
        };
        let text = match BalanceConfig::text(&self.path) {
            Ok(text) => text,
            Err(error) => return refused(&error),
        };
        if !asked && text == self.text {
            return;
        }
        let config = BalanceConfig::read(&text, &self.path);
        self.text = text;
        let config = match config {
            Ok(config) => config.proxy,
            Err(error) => return refused(&error),
        };
        match proxy.reload(&config.live) {
            Ok(()) => admin.note(Severity::Info, "configuration", "read again".to_string()),
            Err(error) => refused(&error),
        }
        let started = &self.started;
        let same =
            (config.threads, config.connections_max) == (started.threads, started.connections_max);
        if config.listen != started.listen || !same {
            let text = "`listen`, `threads` and `connections` change at the next start only";
            admin.note(Severity::Warning, "configuration", text.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
