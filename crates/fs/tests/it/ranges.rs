//! Sets of bytes, joined, and what is in one and not in another.

use std::ops::Range;
use thermocline_fs::Catalog;

/// Ranges in order, disjoint and not adjoining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranges(pub(crate) Vec<Range<u64>>);

impl Ranges {
    pub(crate) fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Ranges {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in sorted {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Ranges(joined)
    }

    /// All that a catalog knows the use of.
    pub(crate) fn of(catalog: &Catalog) -> Ranges {
        let metadata = catalog.metadata().map(|(stretch, _)| stretch);
        let contents =
            catalog.files().flat_map(|entry| entry.extents.iter().map(|extent| extent.stretch));
        Ranges::new(metadata.chain(contents).map(|stretch| stretch.offset.0..stretch.end().0))
    }

    /// Ranges outside of it, up to `end`.
    pub(crate) fn complement(&self, end: u64) -> Ranges {
        let starts = std::iter::once(0).chain(self.0.iter().map(|range| range.end));
        let ends = self.0.iter().map(|range| range.start).chain([end]);
        Ranges::new(starts.zip(ends).map(|(start, end)| start..end))
    }

    /// Grown to whole units.
    pub(crate) fn rounded(&self, unit: u64) -> Ranges {
        let whole =
            |range: &Range<u64>| range.start / unit * unit..range.end.next_multiple_of(unit);
        Ranges::new(self.0.iter().map(whole))
    }

    pub(crate) fn minus(&self, other: &Ranges) -> Ranges {
        let end = self.0.last().map_or(0, |range| range.end);
        let outside = other.complement(end).0;
        let mut left = Vec::new();
        let mut from = 0;
        for range in &self.0 {
            while outside.get(from).is_some_and(|o| o.end <= range.start) {
                from += 1;
            }
            let touching = outside[from..].iter().take_while(|o| o.start < range.end);
            left.extend(touching.map(|o| o.start.max(range.start)..o.end.min(range.end)));
        }
        Ranges::new(left)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }
}

/// Fails with the first differences when the sets are not the same.
pub(crate) fn assert_same(case: &str, ours: &Ranges, theirs: &Ranges) {
    let (more, less) = (ours.minus(theirs), theirs.minus(ours));
    let first = |ranges: &Ranges| ranges.0.iter().take(8).cloned().collect::<Vec<_>>();
    assert!(
        more.0.is_empty() && less.0.is_empty(),
        "{case}: only ours {:?} ({} B), only theirs {:?} ({} B)",
        first(&more),
        more.bytes(),
        first(&less),
        less.bytes()
    );
}
