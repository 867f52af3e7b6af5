//! Room for what was promised: to volumes by pools, and to sparse files by their file systems.
//!
//! 1. A thread of its own asks the system every [`LOOK`] what each pool's file may still take and
//!    what its file system has left: a file system may hang, and the loop must not hang with it.
//! 2. The files of all pools on a file system together may want more than is left there. That is an
//!    event with its numbers when it is first seen, and again when little is left, and nothing.
//! 3. The same for volumes and pools: volumes may be larger than all pools together. Once they are,
//!    pools that fill up are events; a volume that has a place for every chunk never runs out.
//!
//! Nothing is decided here. A device that is full answers with an error, and the machine goes on.

use super::Engine;
use crate::api::Backing;
use crate::mailbox::Mailbox;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
use thermocline_admin::api::Severity;
use thermocline_units::{Bytes, PoolId};

/// Time between two looks at the file systems.
const LOOK: Duration = Duration::from_secs(10);

/// Level of room for what was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Level {
    /// All of it fits.
    #[default]
    Enough,
    /// Not all of it fits.
    Overcommitted,
    /// And less than a tenth of the room is left.
    Filling,
    /// And less than a hundredth is left.
    Full,
}

impl Level {
    /// The level with `wanted` still to come where `free` of `total` is left.
    fn of(wanted: u64, free: u64, total: u64) -> Level {
        match () {
            () if wanted <= free => Level::Enough,
            () if free < total / 100 => Level::Full,
            () if free < total / 10 => Level::Filling,
            () => Level::Overcommitted,
        }
    }

    fn severity(self) -> Severity {
        match self {
            Level::Enough => Severity::Info,
            Level::Overcommitted | Level::Filling => Severity::Warning,
            Level::Full => Severity::Error,
        }
    }
}

/// A file of a pool, and the file system that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileRoom {
    pool: PoolId,
    path: PathBuf,
    file_system: u64,
    /// Bytes that the file may still take.
    grows: u64,
    /// Bytes left on the file system, and bytes that it has.
    free: u64,
    total: u64,
}

/// Findings about room, and what was told of them.
#[derive(Debug, Default)]
pub(super) struct Room {
    files: Vec<FileRoom>,
    file_systems: BTreeMap<u64, Level>,
    volumes: Level,
}

impl Room {
    /// Room under the files of a pool; `None` when it is on no file system, or nobody has looked.
    pub(super) fn of_pool(&self, pool: PoolId) -> Option<Backing> {
        let files = || self.files.iter().filter(|file| file.pool == pool);
        Some(Backing {
            may_grow_bytes: files().map(|file| file.grows).sum(),
            free_bytes: files().map(|file| file.free).min()?,
        })
    }

    /// Takes what was found; what is new about it, for people.
    pub(super) fn note(&mut self, files: Vec<FileRoom>) -> Vec<(Severity, String)> {
        self.files = files;
        let mut by_system: BTreeMap<u64, Vec<&FileRoom>> = BTreeMap::new();
        for file in &self.files {
            by_system.entry(file.file_system).or_default().push(file);
        }
        let mut news = Vec::new();
        let mut levels = BTreeMap::new();
        for (system, files) in by_system {
            let grows: u64 = files.iter().map(|file| file.grows).sum();
            let (free, total) = (files[0].free, files[0].total);
            let level = Level::of(grows, free, total);
            let was = self.file_systems.get(&system).copied().unwrap_or_default();
            if level != was {
                news.push((level.severity(), file_system_text(level, &files, grows)));
            }
            levels.insert(system, level);
        }
        self.file_systems = levels;
        news
    }

    /// Takes how much room volumes have in pools: bytes of all volumes, of all pools, and of these
    /// the bytes in use. What is new about it, for people.
    fn note_volumes(&mut self, promised: u64, total: u64, used: u64) -> Option<(Severity, String)> {
        let free = total.saturating_sub(used);
        let level = match Level::of(promised, total, total) {
            Level::Enough => Level::Enough,
            _ => Level::of(u64::MAX, free, total),
        };
        if std::mem::replace(&mut self.volumes, level) == level {
            return None;
        }
        let (promised, total, free) = (Bytes(promised), Bytes(total), Bytes(free));
        let text = match level {
            Level::Enough => format!("volumes of {promised} have room in pools of {total}"),
            Level::Overcommitted => format!(
                "volumes of {promised} are larger than their pools, {total}; {free} are free: add \
                 a pool before they are used up"
            ),
            Level::Filling | Level::Full => format!(
                "pools fill up: {free} of {total} are free, and volumes of {promised} may want \
                 more; add a pool, or discard what is not needed"
            ),
        };
        Some((level.severity(), text))
    }
}

/// Sentence about the files on one file system.
fn file_system_text(level: Level, files: &[&FileRoom], grows: u64) -> String {
    let names: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    let (names, grows) = (names.join(", "), Bytes(grows));
    let (free, total) = (Bytes(files[0].free), Bytes(files[0].total));
    match level {
        Level::Enough => format!("{names}: the file system has room for {grows} more again"),
        Level::Overcommitted => format!(
            "{names} may grow by {grows}, and the file system has {free} left of {total}: writes \
             fail when it is full"
        ),
        Level::Filling | Level::Full => format!(
            "the file system under {names} fills up: {free} of {total} are left, and the files may \
             grow by {grows}; make room"
        ),
    }
}

/// Bytes that a file may still take, and those that its file system has; `None`: it is no file, or
/// nobody tells.
fn look_at(pool: PoolId, path: &Path) -> Option<FileRoom> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let system = rustix::fs::statvfs(path).ok()?;
    Some(FileRoom {
        pool,
        path: path.to_path_buf(),
        file_system: metadata.dev(),
        grows: metadata.len().saturating_sub(metadata.blocks() * 512),
        free: system.f_bavail.saturating_mul(system.f_frsize),
        total: system.f_blocks.saturating_mul(system.f_frsize),
    })
}

/// Looks after the file systems under an engine's pools, from a thread of its own that ends with
/// the engine.
///
/// # Errors
/// When the system gives no thread.
pub fn watch_room(mailbox: Mailbox) -> std::io::Result<()> {
    let round = move || {
        let (tell, told) = channel();
        mailbox.send(move |admin| {
            let _ = tell.send(admin.pool_files()); // The thread waits for it.
        });
        // An engine that has stopped drops the order, and with it the way to tell.
        let Ok(files) = told.recv() else { return false };
        let files = files.iter().filter_map(|(pool, path)| look_at(*pool, path)).collect();
        mailbox.send(move |admin| admin.note_room(files));
        true
    };
    let work = move || {
        while round() {
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("room".to_string()).spawn(work).map(|_| ())
}

impl Engine {
    /// Compares what volumes were promised with what pools have.
    pub(super) fn judge_room(&mut self) {
        let promised = self.group.volumes().map(|volume| volume.size.0).sum();
        let (mut total, mut used) = (0, 0);
        for id in 0..self.group.pool_count() {
            let status = self.group.pool_status(PoolId(id)).expect("ids below the count exist");
            if status.state == thermocline_volume::PoolState::Active {
                total += u64::from(status.slots_total);
                used += u64::from(status.slots_used - status.prefetched - status.kept);
            }
        }
        let chunk = self.group.chunk_size().0;
        let news = self.room.note_volumes(promised, total * chunk, used * chunk);
        if let Some((severity, text)) = news {
            self.event(severity, "room", text);
        }
    }
}

#[cfg(test)]
mod tests;
