//! Free space on the disk that the gate builds on.
//!
//! A gate that runs out of space fails after a quarter of an hour, in the middle of a test that has
//! nothing to do with it. So a start that is short of space says so, the folders that tests left
//! behind are deleted before and after they run, and a step that fails on a full disk names it.

use crate::workspace;
use std::process::Command;

/// Space that the gate takes on a checkout that has never been built, in bytes; measured, and
/// rounded up.
const COLD: u64 = 14 << 30;
/// Space that it takes on a checkout that has been built, in bytes.
const WARM: u64 = 5 << 30;
/// A failure with less than this left, in bytes, is put down to the full disk.
const FULL: u64 = 1 << 30;

/// Free bytes on the disk of the target folder; none if `df` cannot tell.
pub(super) fn free() -> Option<u64> {
    let target = workspace::target();
    std::fs::create_dir_all(&target).ok()?;
    let output = Command::new("df").arg("-Pk").arg(&target).output().ok()?;
    available(&String::from_utf8_lossy(&output.stdout))
}

/// The fourth column of the second line of `df -Pk` (POSIX), in bytes.
pub(super) fn available(table: &str) -> Option<u64> {
    let kibibytes: u64 = table.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kibibytes << 10)
}

/// A warning if less is free than the gate needs.
pub(super) fn warning() -> Option<String> {
    let is_built = workspace::target().join("debug/deps").exists();
    short_of(free()?, if is_built { WARM } else { COLD })
}

pub(super) fn short_of(free: u64, needed: u64) -> Option<String> {
    (free < needed).then(|| {
        format!(
            "{} GiB are free on the disk of {}; tests need {} GiB: delete something, or set \
             CARGO_TARGET_DIR to another disk",
            free >> 30,
            workspace::target().display(),
            needed >> 30
        )
    })
}

/// A step's failure, and the full disk if that is why.
pub(super) fn explained(message: String) -> String {
    match free() {
        Some(free) if free < FULL => format!(
            "the disk of {} is full ({} MiB are left); {message}",
            workspace::target().display(),
            free >> 20
        ),
        _ => message,
    }
}

/// Deletes what tests left behind (`CARGO_TARGET_TMPDIR`): some gigabytes after a whole run.
pub(super) fn delete_folders_of_tests() {
    let folder = workspace::target().join("tmp");
    // A mount that a killed test left behind cannot be deleted; the next test that needs its place
    // says so.
    let _ = std::fs::remove_dir_all(folder);
}
