//! Watching a mount and telling an engine of it, from begin to end.
//!
//! What fails on the way is said once on stderr and holds nothing up.

use super::processes::Processes;
use super::telling::{Said, Telling};
use super::watch::{Note, Watch};
use crate::error::CliError;
use crate::files::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use thermocline_serve::api::NewHint;
use thermocline_serve::client::Client;

/// A hint holds so long when nothing else is said.
const LASTS: Duration = Duration::from_secs(3600);
/// How long nothing need happen before files that wait are looked at again.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };
/// Notes are read at most so often: those of one file and process that come between are one.
const NAP: Duration = Duration::from_millis(2);

/// Says what the user should know; the work goes on.
#[allow(clippy::print_stderr)]
pub(crate) fn say(text: impl std::fmt::Display) {
    eprintln!("note: {text}");
}

/// See the module.
pub(crate) struct Session {
    watch: Watch,
    telling: Telling,
    processes: Processes,
    lost: bool,
    has_failed: bool,
}

impl Session {
    /// Begins to watch the mount of `place`; the hints come from `source`.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub(crate) fn new(place: Place, client: Client, source: &str) -> Result<Session, CliError> {
        let watch = Watch::new(&place.mount.point)?;
        let telling = Telling::new(place, client, source.to_string(), LASTS);
        let processes = Processes::default();
        Ok(Session { watch, telling, processes, lost: false, has_failed: false })
    }

    /// Takes note of what happened, and tells of what is due. `hint` says what holds for a note;
    /// `None`: nothing is to be said of it.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        hint: &mut dyn FnMut(&mut Processes, &Note) -> Option<NewHint>,
    ) {
        self.read(now, hint);
        let outcome = self.telling.turn(now, false);
        self.tell_failure(outcome.err());
    }

    fn read(
        &mut self,
        now: Instant,
        hint: &mut dyn FnMut(&mut Processes, &Note) -> Option<NewHint>,
    ) {
        let us = std::process::id() as i32;
        let Session { watch, telling, processes, .. } = self;
        self.lost |= watch.read(|note| {
            let hint = if note.process == us { None } else { hint(processes, &note) };
            if let Some(mut hint) = hint {
                hint.process = processes.get(now, note.process).map(|found| found.name);
                hint.prefetch &= !note.written;
                telling.note(now, note.file, Said { hint, within: 0..u64::MAX });
            }
        });
    }

    fn tell_failure(&mut self, error: Option<impl std::fmt::Display>) {
        if let Some(error) = error.filter(|_| !self.has_failed) {
            self.has_failed = true;
            say(format!("hints were not given: {error}"));
        }
    }

    /// Tells of what waits, then withdraws it all unless it is to be kept.
    pub(crate) fn finish(
        mut self,
        keep: bool,
        hint: &mut dyn FnMut(&mut Processes, &Note) -> Option<NewHint>,
    ) {
        let now = Instant::now();
        self.read(now, hint);
        let outcome = self.telling.turn(now, true);
        self.tell_failure(outcome.err());
        if !keep {
            let outcome = self.telling.withdraw();
            self.tell_failure(outcome.err());
        }
        let counts = self.telling.counts;
        if counts.refused > 0 || counts.left_out > 0 || self.lost {
            let lost = if self.lost { "; some files were not seen" } else { "" };
            say(format!(
                "{} files told of; {} hints taken, {} refused, {} left out{lost}",
                counts.files, counts.taken, counts.refused, counts.left_out
            ));
        }
    }
}

/// Waits until one of `pipes` can be read, something happened to files, or it is time for another
/// turn.
pub(crate) fn wait<'a>(pipes: impl Iterator<Item = BorrowedFd<'a>>, session: Option<&'a Session>) {
    std::thread::sleep(NAP);
    let watched = session.map(|session| session.watch.as_fd());
    let mut all: Vec<PollFd<'_>> =
        pipes.chain(watched).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // A signal that interrupts it has happened.
    let _ = poll(&mut all, Some(&TURN));
}
