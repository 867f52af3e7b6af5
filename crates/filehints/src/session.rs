//! Hints of a mount's files, from the first event to the last: events in, hints to an engine out.
//!
//! There are two sources: the kernel's events about who opens and writes which file, which need
//! CAP_SYS_ADMIN, and what programs say themselves through the preloaded library. Either may be
//! missing. A failure on the way is reported once and delays nothing.

use super::advice_socket::{AdviceSocket, Received, hint_of};
use super::file_events::FileEvents;
use super::processes::Processes;
use super::sender::{HintSender, PendingHint};
use crate::files::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use thermocline_admin::client::Client;
use thermocline_advice::{Priority, Said as Words};
use thermocline_engine::api::NewHint;

/// Time that a hint holds unless something else is said.
pub const LASTS: Duration = Duration::from_secs(3600);
/// Time without events after which files that wait are looked at again.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };
/// Notes are read at most so often: those of one file and process that come between are one.
const NAP: Duration = Duration::from_millis(2);

/// Receiver of what the user should know while the work goes on, a line each.
pub type Report = fn(&str);

/// A process that used or described a file.
#[derive(Debug, Clone, Copy)]
pub struct Actor {
    /// Its number.
    pub process: i32,
    /// True if it said so itself, on a socket whose path it was given.
    pub spoke: bool,
}

/// The hint for files that a process uses; `None`: they get no hint.
pub type HintRule<'a> = dyn FnMut(&mut Processes, Actor) -> Option<NewHint> + 'a;

/// Hints of a mount's files, while somebody watches.
pub struct Session {
    events: Option<FileEvents>,
    advice: Option<AdviceSocket>,
    sender: HintSender,
    processes: Processes,
    lost: bool,
    has_failed: bool,
    report: Report,
}

impl Session {
    /// Hints of files of `place` that `events` and `advice` report; the hints come from `source`.
    pub fn new(
        place: Place,
        client: Client,
        source: &str,
        (events, advice): (Option<FileEvents>, Option<AdviceSocket>),
        report: Report,
    ) -> Session {
        let sender = HintSender::new(place, client, source.to_string(), LASTS);
        let processes = Processes::default();
        Session { events, advice, sender, processes, lost: false, has_failed: false, report }
    }

    /// Socket on which programs say what they know, if there is one.
    pub fn socket(&self) -> Option<&Path> {
        self.advice.as_ref().map(AdviceSocket::path)
    }

    /// Reads what happened, and sends the hints that are due.
    pub fn turn(&mut self, now: Instant, rule: &mut HintRule<'_>) {
        self.read(now, rule);
        let received: Vec<Received> = self.advice.iter().flat_map(AdviceSocket::received).collect();
        self.take_all(now, received, rule);
        let outcome = self.sender.turn(now, false);
        self.report_failure(outcome.err());
    }

    fn read(&mut self, now: Instant, rule: &mut HintRule<'_>) {
        let us = std::process::id() as i32;
        let Session { events, sender, processes, .. } = self;
        let lost = events.as_ref().map(|events| {
            events.read(|event| {
                let actor = Actor { process: event.process, spoke: false };
                let hint = if event.process == us { None } else { rule(processes, actor) };
                if let Some(mut hint) = hint {
                    hint.process = processes.get(now, event.process).map(|found| found.name);
                    hint.prefetch &= !event.written;
                    let said = PendingHint { hint, within: 0..u64::MAX, is_advice: false };
                    sender.note(now, event.file, said);
                }
            })
        });
        self.lost |= lost.unwrap_or(false);
    }

    /// Takes messages of programs. They come after events, because they hold over them.
    fn take_all(&mut self, now: Instant, received: Vec<Received>, rule: &mut HintRule<'_>) {
        for message in received {
            self.take(now, message, rule);
        }
    }

    /// Takes a message of a program.
    fn take(&mut self, now: Instant, message: Received, rule: &mut HintRule<'_>) {
        let Session { sender, processes, .. } = self;
        let Received { process, file, may_write, datagram } = message;
        if let Words::Priority(class) = datagram.said {
            processes.note_idle(process, class == Priority::Idle);
        }
        let Some(file) = file else { return };
        let anyway = rule(processes, Actor { process, spoke: true });
        let hint = anyway.and_then(|anyway| hint_of(datagram.said, may_write, anyway));
        if let Some(mut hint) = hint {
            hint.process = processes.get(now, process).map(|found| found.name);
            let end = match datagram.length {
                0 => u64::MAX,
                length => datagram.offset.saturating_add(length),
            };
            let said = PendingHint { hint, within: datagram.offset..end, is_advice: true };
            sender.note(now, file, said);
        }
    }

    fn report_failure(&mut self, error: Option<impl std::fmt::Display>) {
        if let Some(error) = error.filter(|_| !self.has_failed) {
            self.has_failed = true;
            (self.report)(&format!("hints were not given: {error}"));
        }
    }

    /// Sends the hints of files that still wait, then withdraws all hints unless `keep` is true.
    pub fn finish(mut self, keep: bool, rule: &mut HintRule<'_>) {
        let now = Instant::now();
        self.read(now, rule);
        let received = self.advice.as_ref().map(AdviceSocket::drain).unwrap_or_default();
        self.take_all(now, received, rule);
        let outcome = self.sender.turn(now, true);
        self.report_failure(outcome.err());
        if !keep {
            let outcome = self.sender.withdraw();
            self.report_failure(outcome.err());
        }
        let counts = self.sender.counts;
        let unread = self.advice.as_ref().map_or(0, AdviceSocket::lost);
        if counts.refused > 0 || counts.left_out > 0 || self.lost || unread > 0 {
            let lost = if self.lost { "; some files were not seen" } else { "" };
            let unread = match unread {
                0 => String::new(),
                count => format!("; {count} messages of programs were lost"),
            };
            (self.report)(&format!(
                "{} files had hints; {} hints taken, {} refused, {} left out{lost}{unread}",
                counts.files, counts.taken, counts.refused, counts.left_out
            ));
        }
    }
}

/// Waits until one of `pipes` can be read, an event came, or it is time for another turn.
pub fn wait<'a>(pipes: impl Iterator<Item = BorrowedFd<'a>>, session: Option<&'a Session>) {
    std::thread::sleep(NAP);
    let events = session.and_then(|session| session.events.as_ref()).map(AsFd::as_fd);
    let mut all: Vec<PollFd<'_>> =
        pipes.chain(events).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // A signal that interrupts it has happened.
    let _ = poll(&mut all, Some(&TURN));
}
