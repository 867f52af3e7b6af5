//! Hints of files that were opened or written, sent in batches.
//!
//! 1. A noted file waits a moment, so that events that follow at once are merged with it.
//! 2. Then it is asked where it lies. What has no place yet (delayed allocation) is asked again,
//!    after pauses that grow, for about half a minute.
//!    A file that is deleted meanwhile is let go: its room would not be free while it is open here.
//! 3. What was found is sent, at most [`HINTS_A_TURN`] hints a turn. The same ranges of the same
//!    process are not sent again before half of their time is over.
//!
//! What a program itself said of ranges of a file holds over the hint of all files that it opens:
//! it is sent after that one, each time.
//!
//! State: an open descriptor a waiting file, [`WAITING_MAX`] at most; about 100 B and 16 B a range
//! for each file that had hints, [`SENT_MAX`] at most; what programs said, [`ADVICE_MAX`] ranges of
//! a file. What is beyond gets no hints.

use crate::files::{FileFacts, Place, ranges_of};
use hyper::Method;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime};
use thermocline_admin::client::{CallError, Client, segment};
use thermocline_engine::api::{
    HINTS_AT_ONCE, HINTS_VERSION, HintLevel, HintsTaken, NewHint, NewHints,
};

/// A file waits so long for more notes of it.
const MOMENT: Duration = Duration::from_millis(50);
/// The first pause before a file is asked again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(16));
/// An engine that has not answered by then is not waited for: it is alone for [`SILENCE`].
const ANSWER: Duration = Duration::from_secs(3);
/// See [`ANSWER`].
const SILENCE: Duration = Duration::from_secs(30);
/// Files that wait at once; below the usual bound on open descriptors.
const WAITING_MAX: usize = 512;
/// Files whose last hints are remembered.
const SENT_MAX: usize = 1 << 14;
/// Ranges of a file of which it is remembered what a program said; the oldest goes first.
const ADVICE_MAX: usize = 32;
/// Hints of a turn; of a file in more ranges the first ones get hints.
const HINTS_A_TURN: usize = 2000;

/// A hint of a part of a file, before its place on the volume is known.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingHint {
    /// The program's name and whatever else holds, but for the range.
    pub hint: NewHint,
    /// Bytes of the file.
    pub within: Range<u64>,
    /// True if the program said so itself, of these bytes.
    pub is_advice: bool,
}

/// An inode's number, and when it was made: numbers are used again.
type InodeLife = (u64, Option<SystemTime>);

struct Waiting {
    file: File,
    inode: u64,
    life: InodeLife,
    pending: PendingHint,
    due: Instant,
    pause: Duration,
}

struct Sent {
    hint: NewHint,
    ranges: Vec<Range<u64>>,
    again: Instant,
}

/// Counts of what was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that had hints, each time counted.
    pub files: u64,
    /// Hints that the engine took.
    pub taken: u64,
    /// Hints that it did not take.
    pub refused: u64,
    /// Files or hints left out because there were too many.
    pub left_out: u64,
}

/// Hints of files, sent in batches.
pub struct HintSender {
    place: Place,
    client: Client,
    source: String,
    /// Time that a hint holds.
    lasts: Duration,
    waiting: VecDeque<Waiting>,
    /// Hints that were sent last, by inode, part of the file, and whether a program gave them.
    sent: HashMap<(u64, Range<u64>, bool), Sent>,
    /// Advice of programs.
    advice: HashMap<InodeLife, VecDeque<PendingHint>>,
    /// Until then nothing is sent.
    silent_until: Option<Instant>,
    /// Counts of what was done so far.
    pub counts: Counts,
}

impl HintSender {
    /// Hints of files of `place`, said by `source`, for so long.
    pub fn new(place: Place, client: Client, source: String, lasts: Duration) -> HintSender {
        HintSender {
            place,
            client: client.within(ANSWER),
            source,
            lasts,
            waiting: VecDeque::new(),
            sent: HashMap::new(),
            advice: HashMap::new(),
            silent_until: None,
            counts: Counts::default(),
        }
    }

    /// Takes note of a file; of what is no file of the place nothing is noted.
    pub fn note(&mut self, now: Instant, file: OwnedFd, said: PendingHint) {
        let file = File::from(file);
        let Ok(status) = file.metadata() else { return };
        if !status.is_file() || status.dev() != self.place.device {
            return;
        }
        let inode = status.ino();
        let life = (inode, status.created().ok());
        self.remember(life, &said);
        let same = |one: &&mut Waiting| {
            one.inode == inode
                && one.pending.within == said.within
                && one.pending.is_advice == said.is_advice
        };
        if let Some(waiting) = self.waiting.iter_mut().find(same) {
            // Whoever comes last decides; that it was wished once to have it near holds, unless
            // the program itself thought better of it.
            let wished = waiting.pending.hint.prefetch && !said.is_advice;
            let prefetch = wished || said.hint.prefetch;
            waiting.pending = said;
            waiting.pending.hint.prefetch = prefetch;
            return;
        }
        if self.waiting.len() == WAITING_MAX {
            self.counts.left_out += 1;
            return;
        }
        let due = now + MOMENT;
        self.waiting.push_back(Waiting { file, inode, life, pending: said, due, pause: PAUSES.0 });
    }

    /// Keeps what a program said, to be sent again with the hint of the whole file.
    fn remember(&mut self, life: InodeLife, said: &PendingHint) {
        if !said.is_advice {
            return;
        }
        if self.advice.len() >= SENT_MAX {
            self.advice.clear();
        }
        let kept = self.advice.entry(life).or_default();
        // What lies within is said anew.
        kept.retain(|old| old.within.start < said.within.start || old.within.end > said.within.end);
        if kept.len() == ADVICE_MAX {
            kept.pop_front();
        }
        let hint = NewHint { prefetch: false, ..said.hint.clone() }; // That is done once.
        kept.push_back(PendingHint { hint, ..said.clone() });
    }

    /// Sends hints of files whose time has come; with `all`, of all.
    ///
    /// # Errors
    /// When the engine does not answer; what was to be sent then is dropped.
    pub fn turn(&mut self, now: Instant, all: bool) -> Result<(), CallError> {
        let has_name = |file: &File| file.metadata().is_ok_and(|status| status.nlink() > 0);
        self.waiting.retain(|one| has_name(&one.file));
        loop {
            let hints = self.due(now, all);
            self.send(now, &hints)?;
            // Whoever ends has no other turn.
            if !all || self.waiting.is_empty() {
                return Ok(());
            }
        }
    }

    /// Hints of files whose time has come, of all with `all`, as many as a turn may have.
    fn due(&mut self, now: Instant, all: bool) -> Vec<NewHint> {
        let mut hints = Vec::new();
        for _ in 0..self.waiting.len() {
            let Some(mut one) = self.waiting.pop_front() else { break };
            if hints.len() >= HINTS_A_TURN || !(all || one.due <= now) {
                self.waiting.push_back(one);
                continue;
            }
            let (found, is_whole) = self.hints(now, &one);
            hints.extend(found);
            if !is_whole && !all && one.pause <= PAUSES.1 {
                one.due = now + one.pause;
                one.pause *= 2;
                one.pending.hint.prefetch = false; // It has just been in memory.
                self.waiting.push_back(one);
            }
        }
        hints
    }

    /// Hints about a file, and true if all of it has its place.
    fn hints(&mut self, now: Instant, one: &Waiting) -> (Vec<NewHint>, bool) {
        // Where the file system does not say, there is nothing to tell.
        let Ok((mut ranges, left_out)) =
            ranges_of(&self.place, &one.file, one.pending.within.clone())
        else {
            return (Vec::new(), true);
        };
        let is_whole = left_out.delayed_bytes == 0;
        let beyond = ranges.len().saturating_sub(HINTS_A_TURN) as u64;
        ranges.truncate(HINTS_A_TURN);
        let part = (one.inode, one.pending.within.clone(), one.pending.is_advice);
        let is_old = self.sent.get(&part).is_some_and(|sent| {
            sent.hint == one.pending.hint && sent.ranges == ranges && now < sent.again
        });
        let facts = self.facts(&one.file);
        let (false, Some(facts)) = (is_old || ranges.is_empty(), facts) else {
            return (Vec::new(), is_whole);
        };
        self.counts.left_out += beyond;
        self.counts.files += 1;
        let mut saying = one.pending.hint.clone();
        saying.expires_seconds.get_or_insert(self.lasts.as_secs_f64());
        let mut hints = self.place.hints(HintLevel::Process, &saying, &facts, &ranges);
        if !one.pending.is_advice {
            hints.extend(self.advised(one, &facts));
        }
        if self.sent.len() >= SENT_MAX {
            self.sent.clear();
        }
        let again = now + self.lasts / 2;
        self.sent.insert(part, Sent { hint: one.pending.hint.clone(), ranges, again });
        (hints, is_whole)
    }

    /// Earlier advice of programs on a file.
    fn advised(&self, one: &Waiting, facts: &FileFacts) -> Vec<NewHint> {
        let mut hints = Vec::new();
        for said in self.advice.get(&one.life).into_iter().flatten() {
            let found = ranges_of(&self.place, &one.file, said.within.clone());
            let Ok((mut ranges, _)) = found else { continue };
            ranges.truncate(HINTS_A_TURN.saturating_sub(hints.len()));
            let mut saying = said.hint.clone();
            saying.expires_seconds.get_or_insert(self.lasts.as_secs_f64());
            hints.extend(self.place.hints(HintLevel::Process, &saying, facts, &ranges));
        }
        hints
    }

    /// Facts about a file by itself; `None` when it has no name any more.
    fn facts(&self, file: &File) -> Option<FileFacts> {
        let status = file.metadata().ok().filter(|status| status.nlink() > 0)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        FileFacts::new(&self.place.mount, &path, status.len())
    }

    /// Sends hints; an engine that does not answer in time is left alone for a while, since whoever
    /// calls has a command to look after.
    fn send(&mut self, now: Instant, hints: &[NewHint]) -> Result<(), CallError> {
        for part in hints.chunks(HINTS_AT_ONCE) {
            if self.silent_until.is_some_and(|until| now < until) {
                self.counts.left_out += part.len() as u64;
                continue;
            }
            let (source, hints) = (self.source.clone(), part.to_vec());
            let document = NewHints { version: HINTS_VERSION, source, hints };
            let sent = self.client.send(Method::POST, "/v1/hints", &document);
            if let Err(CallError::Late { .. }) = &sent {
                self.silent_until = Some(now + SILENCE);
            }
            let taken: HintsTaken = sent?;
            self.counts.taken += taken.taken;
            self.counts.refused += taken.refused;
        }
        Ok(())
    }

    /// Withdraws everything that was said.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub fn withdraw(&mut self) -> Result<(), CallError> {
        self.sent.clear();
        self.advice.clear();
        if self.counts.taken == 0 {
            return Ok(());
        }
        self.client.order(Method::DELETE, &format!("/v1/hints/{}", segment(&self.source)))
    }
}

#[cfg(test)]
mod tests;
