//! State that a survey keeps between two runs: fingerprints of inodes, and standing metadata.
//!
//! State: an inode slot 4 B in runs of 64 (ext, XFS); a metadata range that no file owns about
//! 40 B.

use crate::FsError;
use crate::found::{FileId, Stretch, What};
use crate::pass::Pass;
use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_units::Bytes;

/// Inodes whose fingerprints are held together.
const RUN: u64 = 64;

/// The place of an inode among those that are held with it.
fn place(inode: u64) -> usize {
    (inode % RUN) as usize
}

/// A 32-bit checksum of each known inode. Two states of an inode that have the same one by chance
/// (1 in 2³²) are taken for equal.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    runs: BTreeMap<u64, Box<[u32; RUN as usize]>>,
    known: u64,
}

impl Fingerprints {
    /// Fingerprint of this inode; `None`: it is not known.
    pub(crate) fn get(&self, inode: u64) -> Option<u32> {
        let mark = self.runs.get(&(inode / RUN))?.get(place(inode))?;
        (*mark != 0).then_some(*mark)
    }

    /// Remembers an inode. Zero stands for "unknown", so a checksum of zero is kept as one.
    pub(crate) fn set(&mut self, inode: u64, fingerprint: u32) {
        let run = self.runs.entry(inode / RUN).or_insert_with(|| Box::new([0; RUN as usize]));
        let Some(mark) = run.get_mut(place(inode)) else { return };
        self.known += u64::from(*mark == 0);
        *mark = fingerprint.max(1);
    }

    /// Forgets an inode; whether it was known.
    pub(crate) fn forget(&mut self, inode: u64) -> bool {
        let Some(run) = self.runs.get_mut(&(inode / RUN)) else { return false };
        let was = run.get_mut(place(inode)).is_some_and(|mark| std::mem::take(mark) != 0);
        self.known -= u64::from(was);
        if was && run.iter().all(|mark| *mark == 0) {
            self.runs.remove(&(inode / RUN));
        }
        was
    }

    /// Says that the inodes of a range are gone, those that are known.
    pub(crate) fn gone(&mut self, pass: &mut Pass<'_>, range: Range<u64>) {
        while let Some(inode) = self.first_in(range.clone()) {
            self.forget(inode);
            pass.gone(FileId { tree: 0, inode });
        }
    }

    /// Tells an inode with `tell`, unless it is known with this fingerprint. What was told in part
    /// is known, and told again in the next run.
    pub(crate) fn tell_if_new(
        &mut self,
        pass: &mut Pass<'_>,
        (inode, fingerprint): (u64, u32),
        tell: impl FnOnce(&mut Pass<'_>) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        if self.get(inode) == Some(fingerprint.max(1)) {
            pass.summary.unchanged += 1;
            return Ok(());
        }
        let torn = pass.summary.torn;
        tell(pass)?;
        let is_whole = pass.summary.torn == torn;
        self.set(inode, if is_whole { fingerprint } else { !fingerprint });
        if self.known > pass.limits.files {
            return Err(FsError::TooMany { what: "files", most: pass.limits.files });
        }
        Ok(())
    }

    /// The first known inode in `range`.
    pub(crate) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        if range.is_empty() {
            return None;
        }
        let runs = self.runs.range(range.start / RUN..=(range.end - 1) / RUN);
        for (run, marks) in runs {
            let inodes = (0..RUN).map(|i| run * RUN + i).filter(|inode| range.contains(inode));
            let found = inodes
                .into_iter()
                .find(|inode| marks.get(place(*inode)).is_some_and(|mark| *mark != 0));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Metadata that belongs to no file, as it was last said.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Ends of ranges by place and kind, and in which run it was last seen.
    ranges: BTreeMap<(u64, What), (u64, u32)>,
}

impl Standing {
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Sees a range in run `run`: what was said of the place before, when that was different.
    pub(crate) fn see(&mut self, stretch: Stretch, what: What, run: u32) -> Seen {
        let key = (stretch.offset.0, what);
        match self.ranges.insert(key, (stretch.length.0, run)) {
            Some((length, _)) if length == stretch.length.0 => Seen::Before,
            Some((length, _)) => {
                Seen::Changed(Stretch { offset: stretch.offset, length: Bytes(length) })
            }
            None => Seen::New,
        }
    }

    /// Takes out what was not seen in run `run`.
    pub(crate) fn sweep(&mut self, run: u32) -> Vec<(Stretch, What)> {
        let stale = self.ranges.extract_if(.., |_, (_, seen)| *seen != run);
        let stretch = |offset, length| Stretch { offset: Bytes(offset), length: Bytes(length) };
        stale.map(|((offset, what), (length, _))| (stretch(offset, length), what)).collect()
    }
}

/// The news of a range, if it is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    New,
    Before,
    /// Metadata that stood here with another length.
    Changed(Stretch),
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
