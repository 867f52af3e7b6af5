//! The tag that is kept with each volume: who may write to it, under which fencing number, and for
//! how long at most without renewal. Drawn in docs/formats/content.md.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use thermocline_content::Tag;
use thermocline_units::Nanos;
use thermocline_units::fields::put_at;

/// Offset of the host's number, behind the fencing number.
const HOLDER_AT: usize = 8;
/// Offset of the duration in milliseconds, behind the host's number.
const DURATION_AT: usize = 10;
const _: () = assert!(DURATION_AT + 4 <= size_of::<Tag>(), "a lease fits into a tag");
const MILLISECOND: u64 = 1_000_000;

/// A lease as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) fence: u64,
    pub(super) holder: u16,
    /// Longest duration under this number, kept in whole milliseconds, rounded up; 0: not known.
    pub(super) duration: Nanos,
}

impl Lease {
    pub(super) fn tag(self) -> Tag {
        let mut tag = Tag::default();
        put_at(&mut tag, 0, &self.fence.to_le_bytes());
        put_at(&mut tag, HOLDER_AT, &self.holder.to_le_bytes());
        let milliseconds = self.duration.0.div_ceil(MILLISECOND);
        let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        put_at(&mut tag, DURATION_AT, &milliseconds.to_le_bytes());
        tag
    }

    pub(super) fn of(tag: Tag) -> Lease {
        let [f0, f1, f2, f3, f4, f5, f6, f7, h0, h1, d0, d1, d2, d3, ..] = tag;
        let fence = u64::from_le_bytes([f0, f1, f2, f3, f4, f5, f6, f7]);
        let milliseconds = u32::from_le_bytes([d0, d1, d2, d3]);
        let duration = Nanos(u64::from(milliseconds) * MILLISECOND);
        Lease { fence, holder: u16::from_le_bytes([h0, h1]), duration }
    }
}
