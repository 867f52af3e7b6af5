//! Admission filters: whether a line that missed is put into the cache at all.
//!
//! A filter composes with any replacement as `filter+policy`: [`Filtered`] asks it about every
//! miss, tells it every hit, and is a [`CachePolicy`] itself. A line that a filter refuses changes
//! nothing in the cache. A filter neither sees what leaves the cache nor knows how full it is:
//! until a filter has seen a line as often as it wants, even an empty cache stays empty.

mod all;
mod budget;
mod larc;
mod random;
mod second_touch;

use super::{CachePolicy, Outcome, Tag};
use crate::Footprint;
use thermocline_units::{LineId, Nanos};

/// Registry entries of this folder's filters: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] =
    &[all::ENTRY, larc::ENTRY, second_touch::ENTRY, random::ENTRY, budget::ENTRY];

/// A rule that decides which missed lines are admitted.
///
/// The caller guarantees that `reserve(n)` has been called before a line ≥ the last `n` is named,
/// and that each access leads to exactly one of `on_hit` and `admit`. The implementer must keep
/// both O(1) amortised.
pub trait Admission: Send {
    /// Lines below `universe` may be named from now on. Never shrinks.
    fn reserve(&mut self, universe: u32);

    /// An access to `line` was a hit.
    fn on_hit(&mut self, line: LineId, tag: Tag);

    /// An access to `line` missed; whether the line shall be admitted.
    fn admit(&mut self, line: LineId, tag: Tag) -> bool;

    /// Memory in use now.
    fn footprint(&self) -> Footprint;

    /// Called at the end of every epoch, with the time.
    fn end_epoch(&mut self, _now: Nanos) {}
}

/// A cache policy behind an admission filter.
pub struct Filtered {
    filter: Box<dyn Admission>,
    cache: Box<dyn CachePolicy>,
}

impl Filtered {
    /// `cache`, which now only sees hits and what `filter` admits.
    pub fn new(filter: Box<dyn Admission>, cache: Box<dyn CachePolicy>) -> Filtered {
        Filtered { filter, cache }
    }
}

impl CachePolicy for Filtered {
    fn reserve(&mut self, universe: u32) {
        self.filter.reserve(universe);
        self.cache.reserve(universe);
    }

    fn access_batch(&mut self, lines: &[LineId], tags: &[Tag], out: &mut [Outcome]) {
        assert!(
            lines.len() == tags.len() && lines.len() == out.len(),
            "one tag and outcome a line"
        );
        for ((line, tag), out) in lines.iter().zip(tags).zip(out) {
            *out = self.access(*line, *tag);
        }
    }

    fn access(&mut self, line: LineId, tag: Tag) -> Outcome {
        if self.cache.contains(line) {
            self.filter.on_hit(line, tag);
        } else if !self.filter.admit(line, tag) {
            return Outcome::BYPASSED;
        }
        self.cache.access(line, tag)
    }

    fn contains(&self, line: LineId) -> bool {
        self.cache.contains(line)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        self.cache.invalidate(line)
    }

    fn resident(&self) -> u32 {
        self.cache.resident()
    }

    fn footprint(&self) -> Footprint {
        let (filter, cache) = (self.filter.footprint(), self.cache.footprint());
        Footprint { resident: filter.resident + cache.resident, index: filter.index + cache.index }
    }

    fn end_epoch(&mut self, now: Nanos) {
        self.filter.end_epoch(now);
        self.cache.end_epoch(now);
    }

    fn failure(&self) -> Option<&str> {
        self.cache.failure()
    }
}

#[cfg(test)]
mod tests;
