//! A configuration that changes while the balancer runs.
//!
//! The file is looked at by its name, size, time and number: an editor that writes a new one in its
//! place is noticed as one that overwrites it. A file that is wrong is refused with its line, and
//! is not tried again until it changes.

use crate::config::balance::BalanceConfig;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use thermocline_serve::api::Severity;
use thermocline_serve::balance::Proxy;
use thermocline_serve::balance::config::Config;

/// What tells one state of a file from another: number, size, seconds and nanoseconds.
type Mark = (u64, u64, i64, i64);

/// A configuration file that is looked at.
pub(super) struct Reload {
    path: PathBuf,
    mark: Option<Mark>,
    /// What can only change at a start, as it runs.
    started: Config,
}

impl Reload {
    pub(super) fn new(path: PathBuf, started: Config) -> Reload {
        let mut reload = Reload { path, mark: None, started };
        reload.mark = reload.mark();
        reload
    }

    fn mark(&self) -> Option<Mark> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Reads the file when it has changed, or `asked` to, and has the proxy do as it says.
    pub(super) fn look(&mut self, proxy: &Proxy, asked: bool) {
        let mark = self.mark();
        // A file that is not there for a moment is being replaced.
        if !asked && (mark.is_none() || mark == self.mark) {
            return;
        }
        self.mark = mark;
        let desk = proxy.desk();
        let config = match BalanceConfig::load(&self.path) {
            Ok(config) => config.proxy,
            Err(error) => {
                let text = format!("refused; the last good configuration goes on: {error}");
                return desk.note(Severity::Error, "configuration", text);
            }
        };
        match proxy.reload(&config.live) {
            Ok(()) => desk.note(Severity::Info, "configuration", "read again".to_string()),
            Err(error) => {
                let text = format!("refused; the last good configuration goes on: {error}");
                desk.note(Severity::Error, "configuration", text);
            }
        }
        let started = &self.started;
        let same =
            (config.threads, config.connections_max) == (started.threads, started.connections_max);
        if config.listen != started.listen || !same {
            let text = "`listen`, `threads` and `connections` change at the next start only";
            desk.note(Severity::Warning, "configuration", text.to_string());
        }
    }
}
