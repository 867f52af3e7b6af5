//! The kernel's events about opened and written files: fanotify(7) on one mount.
//!
//! Notification only: no process waits for this one. The kernel merges events of one file, process
//! and kind that were not read yet, so that reading now and then bounds their number. Needs
//! CAP_SYS_ADMIN.

use crate::HintError;
use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::fs::CWD;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Reads of at most 170 events each before somebody else gets a turn.
const READS_MAX: usize = 64;

/// A file that was opened or written.
pub struct FileEvent {
    /// The file, open for reading.
    pub file: OwnedFd,
    /// Process that did it.
    pub process: i32,
    /// True if it was written.
    pub written: bool,
}

/// The kernel's events about opened and written files.
pub struct FileEvents(Fanotify);

impl FileEvents {
    /// Listens to the mount that `path` lies on.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn new(path: &Path) -> Result<FileEvents, HintError> {
        let failed = |errno: Errno| {
            let why = match errno {
                Errno::EPERM | Errno::EACCES => {
                    "watching files needs CAP_SYS_ADMIN: run as root".to_string()
                }
                Errno::ENOSYS => "this kernel has no fanotify".to_string(),
                other => other.desc().to_string(),
            };
            HintError::Failed(format!("{}: {why}", path.display()))
        };
        let kind = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let files = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC | EventFFlags::O_LARGEFILE;
        let group = Fanotify::init(kind, files).map_err(failed)?;
        let what = MaskFlags::FAN_OPEN | MaskFlags::FAN_MODIFY | MaskFlags::FAN_CLOSE_WRITE;
        let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_MOUNT;
        group.mark(how, what, CWD, Some(path)).map_err(failed)?;
        Ok(FileEvents(group))
    }

    /// Hands over the events since the last call; true if some were lost because of their number.
    pub fn read(&self, mut take: impl FnMut(FileEvent)) -> bool {
        let mut lost = false;
        for _ in 0..READS_MAX {
            // Nothing to read, or no descriptor to open a file with: the rest comes next time.
            let Ok(events) = self.0.read_events() else { break };
            for event in events {
                let file = event.fd().map(|file| file.try_clone_to_owned());
                lost |= !matches!(file, Some(Ok(_)));
                if let Some(Ok(file)) = file {
                    let changes = MaskFlags::FAN_MODIFY | MaskFlags::FAN_CLOSE_WRITE;
                    let written = event.mask().intersects(changes);
                    take(FileEvent { file, process: event.pid(), written });
                }
            }
        }
        lost
    }
}

impl AsFd for FileEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
