//! The kernel's notes of opened and written files: fanotify(7) on one mount.
//!
//! Notification only: nobody waits for us. Notes of one file, process and kind that nobody has read
//! yet are one note, so that reading them now and then bounds their number. Needs CAP_SYS_ADMIN.

use crate::error::CliError;
use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::fs::CWD;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Reads of at most 170 notes each before somebody else gets a turn.
const READS_MAX: usize = 64;

/// A file that was opened or written.
pub(crate) struct Note {
    /// The file, open for reading.
    pub(crate) file: OwnedFd,
    /// Process that did it.
    pub(crate) process: i32,
    /// True if it was written.
    pub(crate) written: bool,
}

/// The kernel's notes of opened and written files.
pub(crate) struct Watch(Fanotify);

impl Watch {
    /// Of the mount that `path` lies on.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub(crate) fn new(path: &Path) -> Result<Watch, CliError> {
        let failed = |errno: Errno| {
            let why = match errno {
                Errno::EPERM | Errno::EACCES => {
                    "watching files needs CAP_SYS_ADMIN: run as root".to_string()
                }
                Errno::ENOSYS => "this kernel has no fanotify".to_string(),
                other => other.desc().to_string(),
            };
            CliError::failed(format!("{}: {why}", path.display()))
        };
        let kind = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let files = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC | EventFFlags::O_LARGEFILE;
        let group = Fanotify::init(kind, files).map_err(failed)?;
        let what = MaskFlags::FAN_OPEN | MaskFlags::FAN_MODIFY | MaskFlags::FAN_CLOSE_WRITE;
        let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_MOUNT;
        group.mark(how, what, CWD, Some(path)).map_err(failed)?;
        Ok(Watch(group))
    }

    /// Tells what has been noted since; whether notes were lost because there were too many.
    pub(crate) fn read(&self, mut tell: impl FnMut(Note)) -> bool {
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
                    tell(Note { file, process: event.pid(), written });
                }
            }
        }
        lost
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
