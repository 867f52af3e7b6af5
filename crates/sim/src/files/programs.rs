//! Programs that work on files: tasks for a session, by the flows that filebench describes.
//!
//! - [`file_server`]: create and write a file, append to one, read one, delete one, again and
//!   again (fileserver.f);
//! - [`web_server`]: read ten files, append to a log (webserver.f);
//! - [`stream_writer`], [`random_writer`]: one file from front to back, or all over it
//!   (singlestreamwrite.f, randomwrite.f);
//! - [`reader`]: files one after the other, as `cp` and `rsync` read them;
//! - [`committer`]: the file system itself.
//!
//! Files are drawn uniformly. Reads and writes go past the page cache.

use super::{FileId, Tree};
use crate::machine::{Step, Task};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use thermocline_policy::hints::Usage;
use thermocline_units::{Nanos, Rng};

/// Bytes of a request of filebench's whole-file operations: its I/O size of 1 MiB, as the block
/// layer splits it.
const REQUEST: u32 = 512 << 10;
/// Bytes that are appended at a time.
const APPENDED: u64 = 16 << 10;
/// Requests of a random writer.
const RANDOM_WRITE: u64 = 8 << 10;
/// Requests of `cp` and `rsync`: the system's read-ahead.
const READ_AHEAD: u32 = 128 << 10;
/// Files that a web server reads between two lines of its log.
const READS_PER_LINE: usize = 10;

/// A tree that several tasks work on.
pub type Shared = Rc<RefCell<Tree>>;

/// End of a task.
#[derive(Debug, Clone)]
pub enum Quota {
    /// A number of rounds, of all that share it.
    Rounds(Rc<Cell<u64>>),
    /// Until this moment.
    Until(Nanos),
}

impl Quota {
    /// A quota of so many rounds.
    pub fn rounds(count: u64) -> Quota {
        Quota::Rounds(Rc::new(Cell::new(count)))
    }

    fn allows(&self, now: Nanos) -> bool {
        match self {
            Quota::Rounds(left) => {
                let some = left.get() > 0;
                left.set(left.get().saturating_sub(1));
                some
            }
            Quota::Until(end) => now < *end,
        }
    }
}

/// A task that does what `round` appends, until that says no.
fn rounds<'a>(mut round: impl FnMut(Nanos, &mut Vec<Step>) -> bool + 'a) -> Task<'a> {
    let (mut steps, mut fresh) = (VecDeque::new(), Vec::new());
    Box::new(move |now| {
        while steps.is_empty() {
            if !round(now, &mut fresh) {
                return None;
            }
            steps.extend(fresh.drain(..));
        }
        steps.pop_front()
    })
}

/// A task that does what `round` appends while its quota lasts.
fn while_allowed<'a>(quota: Quota, mut round: impl FnMut(&mut Vec<Step>) + 'a) -> Task<'a> {
    rounds(move |now, out| {
        let allowed = quota.allows(now);
        if allowed {
            round(out);
        }
        allowed
    })
}

fn one_of(files: &[FileId], rng: &mut Rng) -> usize {
    rng.below(files.len() as u64) as usize
}

/// Habits of servers with files.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Files of at most so many bytes are deleted and made anew, as large as before, so that the
    /// set stays what it is.
    pub replaced: u64,
    /// Bytes of a file that are read at a time, anywhere in it; `u64::MAX`: all of it.
    pub part: u64,
    /// Directories that new files are dealt to.
    pub directories: u32,
}

impl Habits {
    fn read(&self, tree: &Tree, file: FileId, rng: &mut Rng, out: &mut Vec<Step>) {
        let size = tree.size(file);
        let length = size.min(self.part);
        let at = rng.below(size / length) * length;
        tree.read(file, at..at + length, REQUEST, out);
    }
}

/// A thread of a file server over `files`, which all threads share.
pub fn file_server<'a>(
    tree: &Shared,
    files: &Rc<RefCell<Vec<FileId>>>,
    habits: Habits,
    seed: u64,
    quota: Quota,
) -> Task<'a> {
    let (tree, files, mut rng) = (tree.clone(), files.clone(), Rng::seeded(seed));
    while_allowed(quota, move |out| {
        let (tree, files) = (&mut *tree.borrow_mut(), &mut *files.borrow_mut());
        // Delete one, and create and write one of its size.
        let small = (0..64).map(|_| one_of(files, &mut rng));
        if let Some(at) = { small }.find(|&at| tree.size(files[at]) <= habits.replaced) {
            let size = tree.size(files[at]);
            tree.delete(files[at], out);
            let directory = rng.below(u64::from(habits.directories)) as u32;
            match tree.create(directory, size, Usage::Mixed, out) {
                Some(file) => {
                    files[at] = file;
                    tree.write(file, 0..size, false, REQUEST, out);
                }
                None => drop(files.swap_remove(at)),
            }
        }
        append(tree, files[one_of(files, &mut rng)], out);
        habits.read(tree, files[one_of(files, &mut rng)], &mut rng, out);
    })
}

fn append(tree: &mut Tree, file: FileId, out: &mut Vec<Step>) {
    let end = tree.size(file);
    if tree.grow(file, APPENDED, out) {
        tree.write(file, end..end + APPENDED, false, REQUEST, out);
    }
}

/// A thread of a web server that reads `files` and appends to `log`.
pub fn web_server<'a>(
    tree: &Shared,
    files: &Rc<RefCell<Vec<FileId>>>,
    habits: Habits,
    log: FileId,
    seed: u64,
    quota: Quota,
) -> Task<'a> {
    let (tree, files, mut rng) = (tree.clone(), files.clone(), Rng::seeded(seed));
    while_allowed(quota, move |out| {
        let (tree, files) = (&mut *tree.borrow_mut(), &*files.borrow());
        for _ in 0..READS_PER_LINE {
            habits.read(tree, files[one_of(files, &mut rng)], &mut rng, out);
        }
        append(tree, log, out);
    })
}

/// Writes `files` from front to back, one after the other, again and again.
pub fn stream_writer<'a>(tree: &Shared, files: Vec<FileId>, quota: Quota) -> Task<'a> {
    let (tree, mut next, mut at) = (tree.clone(), 0, 0);
    while_allowed(quota, move |out| {
        let tree = &mut *tree.borrow_mut();
        let file = files[next];
        let end = (at + 2 * u64::from(REQUEST)).min(tree.size(file));
        tree.write(file, at..end, true, REQUEST, out);
        at = end;
        if at == tree.size(file) {
            (next, at) = ((next + 1) % files.len(), 0);
        }
    })
}

/// Writes 8 KiB at random places of `file`.
pub fn random_writer<'a>(tree: &Shared, file: FileId, seed: u64, quota: Quota) -> Task<'a> {
    let (tree, mut rng) = (tree.clone(), Rng::seeded(seed));
    while_allowed(quota, move |out| {
        let tree = &mut *tree.borrow_mut();
        let at = rng.below(tree.size(file) / RANDOM_WRITE) * RANDOM_WRITE;
        tree.write(file, at..at + RANDOM_WRITE, true, READ_AHEAD, out);
    })
}

/// Reads `files` from front to back, one after the other; `again` and again.
pub fn reader<'a>(tree: &Shared, files: &Rc<RefCell<Vec<FileId>>>, again: bool) -> Task<'a> {
    let (tree, files, mut next) = (tree.clone(), files.clone(), 0);
    rounds(move |_, out| {
        let (tree, files) = (&*tree.borrow(), &*files.borrow());
        if next >= files.len() {
            if !again {
                return false;
            }
            next = 0;
        }
        tree.read(files[next], 0..tree.size(files[next]), READ_AHEAD, out);
        next += 1;
        true
    })
}

/// The file system: commits as often as it does.
pub fn committer<'a>(tree: &Shared) -> Task<'a> {
    let (tree, mut due) = (tree.clone(), Nanos(0));
    rounds(move |now, out| {
        let tree = &mut *tree.borrow_mut();
        tree.commit(out);
        due = Nanos(now.0.max(due.0) + tree.commits_every().0);
        out.push(Step::Until(due));
        true
    })
}
