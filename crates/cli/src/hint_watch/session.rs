//! Listening to what is done with files of a mount, and telling an engine of it, from begin to end.
//!
//! Two ears: the kernel's notes of who opens and writes what, which need CAP_SYS_ADMIN, and what
//! programs say themselves through the preloaded library. Either may be missing. What fails on the
//! way is said once on stderr and holds nothing up.

use super::advice::{Ear, Heard, hint_of};
use super::processes::Processes;
use super::telling::{Said, Telling};
use super::watch::Watch;
use crate::files::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use thermocline_admin::client::Client;
use thermocline_advice::{Priority, Said as Words};
use thermocline_engine::api::NewHint;

/// A hint holds so long when nothing else is said.
pub(crate) const LASTS: Duration = Duration::from_secs(3600);
/// Time without events after which files that wait are looked at again.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };
/// Notes are read at most so often: those of one file and process that come between are one.
const NAP: Duration = Duration::from_millis(2);

/// Says what the user should know; the work goes on.
#[allow(clippy::print_stderr)]
pub(crate) fn say(text: impl std::fmt::Display) {
    eprintln!("note: {text}");
}

/// Process that did something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doer {
    /// Its number.
    pub(crate) process: i32,
    /// True if it said so itself, on a socket that it was told of.
    pub(crate) told_us: bool,
}

/// Hint for the files of who did something; `None`: nothing is to be said of them.
pub(crate) type Judge<'a> = dyn FnMut(&mut Processes, Doer) -> Option<NewHint> + 'a;

/// Listening to what is done with files of a mount, and telling an engine of it.
pub(crate) struct Session {
    watch: Option<Watch>,
    ear: Option<Ear>,
    telling: Telling,
    processes: Processes,
    lost: bool,
    has_failed: bool,
}

impl Session {
    /// Tells of files of `place` that `watch` and `ear` hear of; the hints come from `source`.
    pub(crate) fn new(
        place: Place,
        client: Client,
        source: &str,
        (watch, ear): (Option<Watch>, Option<Ear>),
    ) -> Session {
        let telling = Telling::new(place, client, source.to_string(), LASTS);
        let processes = Processes::default();
        Session { watch, ear, telling, processes, lost: false, has_failed: false }
    }

    /// Socket on which programs say what they know, if there is one.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.ear.as_ref().map(Ear::path)
    }

    /// Takes note of what happened, and tells of what is due.
    pub(crate) fn turn(&mut self, now: Instant, judge: &mut Judge<'_>) {
        self.read(now, judge);
        let heard: Vec<Heard> = self.ear.iter().flat_map(Ear::heard).collect();
        self.hear_all(now, heard, judge);
        let outcome = self.telling.turn(now, false);
        self.tell_failure(outcome.err());
    }

    fn read(&mut self, now: Instant, judge: &mut Judge<'_>) {
        let us = std::process::id() as i32;
        let Session { watch, telling, processes, .. } = self;
        let lost = watch.as_ref().map(|watch| {
            watch.read(|note| {
                let doer = Doer { process: note.process, told_us: false };
                let hint = if note.process == us { None } else { judge(processes, doer) };
                if let Some(mut hint) = hint {
                    hint.process = processes.get(now, note.process).map(|found| found.name);
                    hint.prefetch &= !note.written;
                    let said = Said { hint, within: 0..u64::MAX, is_advice: false };
                    telling.note(now, note.file, said);
                }
            })
        });
        self.lost |= lost.unwrap_or(false);
    }

    /// Takes note of what programs said: after what merely happened, over which it holds.
    fn hear_all(&mut self, now: Instant, heard: Vec<Heard>, judge: &mut Judge<'_>) {
        for heard in heard {
            self.hear(now, heard, judge);
        }
    }

    /// Takes note of what a program said.
    fn hear(&mut self, now: Instant, heard: Heard, judge: &mut Judge<'_>) {
        let Session { telling, processes, .. } = self;
        let Heard { process, file, may_write, datagram } = heard;
        if let Words::Priority(class) = datagram.said {
            processes.note_idle(process, class == Priority::Idle);
        }
        let Some(file) = file else { return };
        let anyway = judge(processes, Doer { process, told_us: true });
        let hint = anyway.and_then(|anyway| hint_of(datagram.said, may_write, anyway));
        if let Some(mut hint) = hint {
            hint.process = processes.get(now, process).map(|found| found.name);
            let end = match datagram.length {
                0 => u64::MAX,
                length => datagram.offset.saturating_add(length),
            };
            let said = Said { hint, within: datagram.offset..end, is_advice: true };
            telling.note(now, file, said);
        }
    }

    fn tell_failure(&mut self, error: Option<impl std::fmt::Display>) {
        if let Some(error) = error.filter(|_| !self.has_failed) {
            self.has_failed = true;
            say(format!("hints were not given: {error}"));
        }
    }

    /// Tells of what waits, then withdraws it all unless it is to be kept.
    pub(crate) fn finish(mut self, keep: bool, judge: &mut Judge<'_>) {
        let now = Instant::now();
        self.read(now, judge);
        let heard = self.ear.as_ref().map(Ear::last_words).unwrap_or_default();
        self.hear_all(now, heard, judge);
        let outcome = self.telling.turn(now, true);
        self.tell_failure(outcome.err());
        if !keep {
            let outcome = self.telling.withdraw();
            self.tell_failure(outcome.err());
        }
        let counts = self.telling.counts;
        let unheard = self.ear.as_ref().map_or(0, Ear::lost);
        if counts.refused > 0 || counts.left_out > 0 || self.lost || unheard > 0 {
            let lost = if self.lost { "; some files were not seen" } else { "" };
            let unheard = match unheard {
                0 => String::new(),
                count => format!("; {count} times what programs said was lost"),
            };
            say(format!(
                "{} files told of; {} hints taken, {} refused, {} left out{lost}{unheard}",
                counts.files, counts.taken, counts.refused, counts.left_out
            ));
        }
    }
}

/// Waits until one of `pipes` can be read, something happened to files, or it is time for another
/// turn.
pub(crate) fn wait<'a>(pipes: impl Iterator<Item = BorrowedFd<'a>>, session: Option<&'a Session>) {
    std::thread::sleep(NAP);
    let watched = session.and_then(|session| session.watch.as_ref()).map(AsFd::as_fd);
    let mut all: Vec<PollFd<'_>> =
        pipes.chain(watched).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // A signal that interrupts it has happened.
    let _ = poll(&mut all, Some(&TURN));
}
