//! Hints of files that were opened or written, sent in batches.
//!
//! 1. A noted file waits a moment, so that what follows at once is one note with it.
//! 2. Then it is asked where it lies. What has no place yet (delayed allocation) is asked again,
//!    after pauses that grow, for about half a minute.
//! 3. What was found is sent, at most [`HINTS_A_TURN`] hints a turn and a document a turn. The same
//!    ranges said by the same process are not sent again before half of their time is over.
//!
//! State: an open descriptor a waiting file, [`WAITING_MAX`] at most; about 100 B and 16 B a range
//! for each file that was told, [`TOLD_MAX`] at most. What is beyond is not told.

use crate::files::{FileFacts, Place, ranges_of};
use hyper::Method;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use thermocline_serve::api::{HINTS_VERSION, HintLevel, HintsTaken, NewHint, NewHints};
use thermocline_serve::client::{CallError, Client};

/// A file waits so long for more notes of it.
const MOMENT: Duration = Duration::from_millis(50);
/// The first pause before a file is asked again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(16));
/// Files that wait at once; below the usual bound on open descriptors.
const WAITING_MAX: usize = 512;
/// Files of which it is remembered what was told.
const TOLD_MAX: usize = 1 << 14;
/// Hints of a turn; a file in more ranges is told as far as they go.
const HINTS_A_TURN: usize = 2000;

/// What is said of a file beside what it says itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    /// The program's name and whatever else holds, but for the range.
    pub(crate) hint: NewHint,
    /// Which bytes of the file.
    pub(crate) within: Range<u64>,
}

struct Waiting {
    file: File,
    inode: u64,
    said: Said,
    due: Instant,
    pause: Duration,
}

struct Told {
    said: Said,
    ranges: Vec<Range<u64>>,
    again: Instant,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Files that were told of, each time counted.
    pub(crate) files: u64,
    /// Hints that the engine took.
    pub(crate) taken: u64,
    /// Hints that it did not take.
    pub(crate) refused: u64,
    /// Files or hints left out because there were too many.
    pub(crate) left_out: u64,
}

/// See the module.
pub(crate) struct Telling {
    place: Place,
    client: Client,
    source: String,
    /// How long a hint holds.
    lasts: Duration,
    waiting: VecDeque<Waiting>,
    told: HashMap<u64, Told>,
    /// What was done so far.
    pub(crate) counts: Counts,
}

impl Telling {
    /// Hints of files of `place`, said by `source`, for so long.
    pub(crate) fn new(place: Place, client: Client, source: String, lasts: Duration) -> Telling {
        Telling {
            place,
            client,
            source,
            lasts,
            waiting: VecDeque::new(),
            told: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Takes note of a file; of what is no file of the place nothing is noted.
    pub(crate) fn note(&mut self, now: Instant, file: OwnedFd, said: Said) {
        let file = File::from(file);
        let Ok(status) = file.metadata() else { return };
        if !status.is_file() || status.dev() != self.place.device {
            return;
        }
        let inode = status.ino();
        let same = |one: &&mut Waiting| one.inode == inode && one.said.within == said.within;
        if let Some(waiting) = self.waiting.iter_mut().find(same) {
            // Whoever comes last decides; that it was wished once to have it near holds.
            let prefetch = waiting.said.hint.prefetch || said.hint.prefetch;
            waiting.said = said;
            waiting.said.hint.prefetch = prefetch;
            return;
        }
        if self.waiting.len() == WAITING_MAX {
            self.counts.left_out += 1;
            return;
        }
        self.waiting.push_back(Waiting { file, inode, said, due: now + MOMENT, pause: PAUSES.0 });
    }

    /// Tells of files whose time has come; with `all`, of all.
    ///
    /// # Errors
    /// When the engine does not answer; what was to be told then is dropped.
    pub(crate) fn turn(&mut self, now: Instant, all: bool) -> Result<(), CallError> {
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
                one.said.hint.prefetch = false; // It has just been in memory.
                self.waiting.push_back(one);
            }
        }
        self.send(hints)
    }

    /// What is to be said of a file, and whether all of it has its place.
    fn hints(&mut self, now: Instant, one: &Waiting) -> (Vec<NewHint>, bool) {
        // Where the file system does not say, there is nothing to tell.
        let Ok((mut ranges, left_out)) = ranges_of(&self.place, &one.file, one.said.within.clone())
        else {
            return (Vec::new(), true);
        };
        let is_whole = left_out.delayed_bytes == 0;
        let is_old = self
            .told
            .get(&one.inode)
            .is_some_and(|told| told.said == one.said && told.ranges == ranges && now < told.again);
        let facts = self.facts(&one.file);
        let (false, Some(facts)) = (is_old || ranges.is_empty(), facts) else {
            return (Vec::new(), is_whole);
        };
        self.counts.left_out += ranges.len().saturating_sub(HINTS_A_TURN) as u64;
        ranges.truncate(HINTS_A_TURN);
        self.counts.files += 1;
        let mut saying = one.said.hint.clone();
        saying.expires_seconds.get_or_insert(self.lasts.as_secs_f64());
        let hints = self.place.hints(HintLevel::Process, &saying, &facts, &ranges);
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        let again = now + self.lasts / 2;
        self.told.insert(one.inode, Told { said: one.said.clone(), ranges, again });
        (hints, is_whole)
    }

    /// What the file says itself; `None` when it has no name any more.
    fn facts(&self, file: &File) -> Option<FileFacts> {
        let status = file.metadata().ok().filter(|status| status.nlink() > 0)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        FileFacts::new(&self.place.mount, &path, status.len())
    }

    fn send(&mut self, hints: Vec<NewHint>) -> Result<(), CallError> {
        if hints.is_empty() {
            return Ok(());
        }
        let document = NewHints { version: HINTS_VERSION, source: self.source.clone(), hints };
        let taken: HintsTaken = self.client.send(Method::POST, "/v1/hints", &document)?;
        self.counts.taken += taken.taken;
        self.counts.refused += taken.refused;
        Ok(())
    }

    /// Withdraws everything that was said.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub(crate) fn withdraw(&mut self) -> Result<(), CallError> {
        self.told.clear();
        if self.counts.taken == 0 {
            return Ok(());
        }
        self.client.order(Method::DELETE, &format!("/v1/hints/{}", self.source))
    }
}
