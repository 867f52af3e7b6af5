//! Versions that each sector of a volume may hold: the core of the plain model.
//!
//! Each run of sectors has its versions: every write that a read may still return, or that a crash
//! may bring back.
//! 1. A write becomes a visible version when it is submitted: from then on reads may return it.
//! 2. Answered, it hides every version that had been answered before it was submitted. Of writes
//!    that were in flight together, either may be the last. Failed, it hides nothing: old or new.
//! 3. A read that met no write in flight settles which visible version it is; the others hide.
//! 4. An answered flush forgets what was hidden before it was submitted; a forced write what was
//!    answered before it was submitted. Until then, hidden versions come back in a crash.
//! 5. A crash makes all versions visible again. The first read after it settles which one
//!    survived, for good: not even another crash may bring the others back.
//!
//! Moments are numbers of events, ascending. A version takes 40 B.

use crate::stamp::Seen;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    /// Number of the request that made it; 0 for the zeroes of a new volume.
    write: u64,
    seen: Seen,
    /// Event of its answer.
    answered: Option<u64>,
    /// Time since which reads do not return it any more.
    hidden: Option<u64>,
    /// True if no crash brings it back; kept only for reads that were in flight.
    gone: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    end: u64,
    versions: Vec<Version>,
}

/// End of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Answered well.
    Written,
    /// Answered well, and forced.
    Forced,
    /// Failed, or promised nothing: each sector is old or new.
    Either,
}

/// A request in flight: its number and when it was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) write: u64,
    pub(crate) submitted: u64,
}

/// A sector that holds what it cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) sectors: Range<u64>,
    pub(crate) seen: Seen,
    pub(crate) allowed: Vec<Seen>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { sectors, seen, allowed } = self;
        let allowed: Vec<String> = allowed.iter().map(Seen::to_string).collect();
        let allowed = allowed.join(" or ");
        write!(f, "sectors {sectors:?} hold {seen}, but must hold {allowed}")
    }
}

/// The sectors of one volume.
#[derive(Debug, Clone)]
pub(crate) struct Sectors {
    /// Ranges by first sector, without gaps.
    runs: BTreeMap<u64, Run>,
    count: u64,
    /// Event of the last crash.
    crashed: u64,
}

impl Sectors {
    /// `count` sectors of zeroes.
    pub(crate) fn new(count: u64) -> Sectors {
        let mut sectors = Sectors { runs: BTreeMap::new(), count: 0, crashed: 0 };
        sectors.resize(count);
        sectors
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Grows with zeroes, or shrinks to what it was before growth that a crash has undone. What was
    /// written beyond the end may show again when it grows the next time: it was never durable, and
    /// is old or new like everything else.
    pub(crate) fn resize(&mut self, count: u64) {
        let end = self.runs.last_key_value().map_or(0, |(_, run)| run.end);
        if count > end {
            let seen = Seen::Zeroes;
            let zeroes = Version { write: 0, seen, answered: Some(0), hidden: None, gone: false };
            self.runs.insert(end, Run { end: count, versions: vec![zeroes] });
        }
        self.count = count;
    }

    /// Write `write` of contents `seen` is submitted.
    pub(crate) fn begin(&mut self, range: Range<u64>, write: u64, seen: Seen) {
        let version = Version { write, seen, answered: None, hidden: None, gone: false };
        for run in self.runs_in(range) {
            run.versions.push(version);
        }
    }

    /// A write is answered at `now`; reads in flight were submitted at `oldest_read` or later.
    pub(crate) fn end(
        &mut self,
        range: Range<u64>,
        issue: Issue,
        ending: Ending,
        now: u64,
        oldest_read: u64,
    ) {
        for run in self.runs_in(range) {
            for version in &mut run.versions {
                let before = version.answered.is_some_and(|at| at < issue.submitted);
                if version.write == issue.write {
                    version.answered = Some(now);
                } else if before && ending != Ending::Either {
                    version.hidden.get_or_insert(now);
                    version.gone |= ending == Ending::Forced;
                }
            }
            run.forget(oldest_read);
        }
    }

    /// A flush that was submitted at `submitted` is answered well.
    pub(crate) fn flushed(&mut self, submitted: u64, oldest_read: u64) {
        for run in self.runs.values_mut() {
            for version in &mut run.versions {
                version.gone |= version.hidden.is_some_and(|at| at < submitted);
            }
            run.forget(oldest_read);
        }
    }

    /// A read that was submitted at `submitted` is answered at `now` with `seen`, one a sector from
    /// `first` on.
    ///
    /// # Errors
    /// When a sector may not hold what it does.
    pub(crate) fn observe(
        &mut self,
        first: u64,
        seen: &[Seen],
        submitted: u64,
        now: u64,
    ) -> Result<(), Mismatch> {
        let mut at = first;
        for group in seen.chunk_by(|a, b| a == b) {
            let end = at + group.len() as u64;
            let mut start = at;
            while start < end {
                let (run, versions) = self.run_at(start);
                let sub_request = start..run.end.min(end);
                let settled = judge(&sub_request, versions, group[0], submitted)?;
                start = sub_request.end;
                if settled {
                    self.settle(sub_request, group[0], now);
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Everything in flight is cut off at `now`.
    pub(crate) fn crash(&mut self, now: u64) {
        self.crashed = now;
        for run in self.runs.values_mut() {
            run.versions.retain(|version| !version.gone);
            for version in &mut run.versions {
                version.answered.get_or_insert(now);
                version.hidden = None;
            }
            let mut met = Vec::new();
            run.versions.retain(|v| {
                !met.contains(&v.seen) && {
                    met.push(v.seen);
                    true
                }
            });
        }
    }

    /// Only `seen` is left of what is visible.
    fn settle(&mut self, range: Range<u64>, seen: Seen, now: u64) {
        let crashed = self.crashed;
        let survived = |version: &Version| version.answered.is_some_and(|at| at <= crashed);
        for run in self.runs_in(range) {
            // Zeroes may be those that survived, or younger ones that the next crash may undo.
            let old = run.versions.iter().filter(|v| v.seen == seen).all(survived);
            for version in run.versions.iter_mut().filter(|v| v.seen != seen) {
                version.hidden.get_or_insert(now);
                version.gone |= old && survived(version);
            }
        }
    }

    fn run_at(&self, sector: u64) -> (Range<u64>, &[Version]) {
        let (&start, run) = self.runs.range(..=sector).next_back().expect("runs have no gaps");
        assert!(sector < run.end, "sector {sector} lies beyond the volume");
        (start..run.end, &run.versions)
    }

    fn runs_in(&mut self, range: Range<u64>) -> impl Iterator<Item = &mut Run> {
        assert!(range.start < range.end && range.end <= self.count, "{range:?} is no range");
        self.cut_at(range.start);
        self.cut_at(range.end);
        self.runs.range_mut(range).map(|(_, run)| run)
    }

    fn cut_at(&mut self, at: u64) {
        let Some((_, run)) = self.runs.range_mut(..at).next_back() else { return };
        if at < run.end {
            let tail = run.clone();
            run.end = at;
            self.runs.insert(at, tail);
        }
    }
}

impl Run {
    /// Drops versions that neither a crash nor a read submitted at `oldest_read` or later can show.
    fn forget(&mut self, oldest_read: u64) {
        self.versions.retain(|v| !(v.gone && v.hidden.is_none_or(|at| at < oldest_read)));
        assert!(!self.versions.is_empty(), "a sector holds something");
    }
}

/// Judges if `seen` may be read, and if that settles what the sectors hold.
fn judge(
    sectors: &Range<u64>,
    versions: &[Version],
    seen: Seen,
    submitted: u64,
) -> Result<bool, Mismatch> {
    let visible = |v: &&Version| v.hidden.is_none_or(|at| at > submitted);
    if !versions.iter().filter(visible).any(|v| v.seen == seen) {
        let mut allowed: Vec<Seen> = versions.iter().filter(visible).map(|v| v.seen).collect();
        allowed.sort_unstable();
        allowed.dedup();
        return Err(Mismatch { sectors: sectors.clone(), seen, allowed });
    }
    let undisturbed = versions.iter().all(|v| v.answered.is_some_and(|at| at < submitted));
    let open = versions.iter().any(|v| v.hidden.is_none() && v.seen != seen);
    Ok(undisturbed && open)
}

#[cfg(test)]
mod tests;
