//! Hints of one source about one volume: ranges that do not overlap, each with a mark.
//!
//! A later hint replaces what it covers of earlier ones, which are cut. State: 40 B a range, with
//! the tree's nodes about 72. O(log n) a hint, plus what it covers.

use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_units::Nanos;

/// A mark on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) class: u8,
    pub(super) flags: u8,
    /// Milliseconds that requests may wait; 0: they do not.
    pub(super) wait_ms: u32,
}

/// [`Mark::flags`]: placements leave it.
pub(super) const PINNED: u8 = 1;
/// [`Mark::flags`]: to the slowest pool.
pub(super) const DEMOTED: u8 = 2;

#[derive(Debug, Clone, Copy)]
struct Span {
    end: u64,
    /// Time at which it is forgotten.
    until: Nanos,
    mark: Mark,
}

/// Marks of one source on one volume, in ranges that do not overlap.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, Span>);

impl Ranges {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Says `mark` of a range that is not empty, in place of what was said of it.
    pub(super) fn mark(&mut self, range: Range<u64>, until: Nanos, mark: Mark) {
        self.clear(range.clone());
        // Neighbours that say the same are one: a file written bit by bit is one range.
        let same = |span: &Span| span.mark == mark && span.until == until;
        let before = self.0.range(..range.start).next_back().map(|(&start, &span)| (start, span));
        let mut start = range.start;
        if let Some((earlier, _)) = before.filter(|(_, span)| span.end == start && same(span)) {
            start = earlier;
        }
        let mut end = range.end;
        if let Some(after) = self.0.get(&end).copied().filter(same) {
            self.0.remove(&end);
            end = after.end;
        }
        self.0.insert(start, Span { end, until, mark });
    }

    /// Forgets what was said of a range.
    pub(super) fn clear(&mut self, range: Range<u64>) {
        let before = self.0.range(..range.start).next_back().map(|(&start, &span)| (start, span));
        if let Some((start, span)) = before.filter(|(_, span)| span.end > range.start) {
            self.0.insert(start, Span { end: range.start, ..span });
            if span.end > range.end {
                self.0.insert(range.end, span);
            }
        }
        let inside: Vec<u64> = self.0.range(range.clone()).map(|(&start, _)| start).collect();
        for start in inside {
            let span = self.0.remove(&start).expect("just met");
            if span.end > range.end {
                self.0.insert(range.end, span);
            }
        }
    }

    /// Forgets what has expired.
    pub(super) fn expire(&mut self, now: Nanos) {
        self.0.retain(|_, span| span.until > now);
    }

    /// The marks that touch a range at `now`.
    pub(super) fn touching(&self, now: Nanos, range: Range<u64>) -> impl Iterator<Item = Mark> {
        let before = self.0.range(..range.start).next_back().map(|(_, span)| span);
        let before = before.filter(|span| span.end > range.start);
        let inside = self.0.range(range).map(|(_, span)| span);
        let all = before.into_iter().chain(inside);
        all.filter(move |span| span.until > now).map(|span| span.mark)
    }

    /// Ranges at `now` in their order, each with the time at which it is forgotten (`u64::MAX`:
    /// never) and its mark.
    pub(super) fn held(&self, now: Nanos) -> impl Iterator<Item = (Range<u64>, Nanos, Mark)> {
        let all = self.0.iter().filter(move |(_, span)| span.until > now);
        all.map(|(&start, span)| (start..span.end, span.until, span.mark))
    }

    /// Ranges at `now` in their order, with their marks.
    pub(super) fn iter(&self, now: Nanos) -> impl Iterator<Item = (Range<u64>, Mark)> {
        self.held(now).map(|(range, _, mark)| (range, mark))
    }
}
