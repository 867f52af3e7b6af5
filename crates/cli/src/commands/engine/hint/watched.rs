//! `thermocline hint send --watch`: a document that is sent whenever its file changes.
//!
//! The file is looked at, not listened to: that works on every file system, and however it is
//! replaced. That a document is wrong, or the engine away, is said; then the next change counts.

use super::{EngineArgs, document, note, send};
use crate::error::CliError;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// Time between two looks at the file.
const LOOK: Duration = Duration::from_millis(500);

/// State of a file: its inode, its size, when it was written.
type State = (u64, u64, i64, i64);

pub(super) fn run(engine: &EngineArgs, file: &PathBuf) -> Result<(), CliError> {
    if file.as_os_str() == "-" {
        return Err(CliError::input("the standard input cannot be watched; name a file"));
    }
    let mut seen: Option<State> = None;
    loop {
        let status = file.metadata().ok();
        let state = status.map(|one| (one.ino(), one.size(), one.mtime(), one.mtime_nsec()));
        if state.is_some() && state != seen {
            match document(file).and_then(|document| send(engine, &document)) {
                Ok(()) => {}
                Err(error) => note(&error.to_string()),
            }
        }
        seen = state;
        std::thread::sleep(LOOK);
    }
}
