//! The tag that is kept with each volume: who may write to it, and under which fencing number.
//! Drawn in docs/formats/content.md.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use thermocline_content::Tag;
use thermocline_units::fields::put_at;

/// Offset of the host's number, behind the fencing number.
const HOLDER_AT: usize = 8;
const _: () = assert!(HOLDER_AT + 2 <= size_of::<Tag>(), "a lease fits into a tag");

/// A lease as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) fence: u64,
    pub(super) holder: u16,
}

impl Lease {
    pub(super) fn tag(self) -> Tag {
        let mut tag = Tag::default();
        put_at(&mut tag, 0, &self.fence.to_le_bytes());
        put_at(&mut tag, HOLDER_AT, &self.holder.to_le_bytes());
        tag
    }

    pub(super) fn of(tag: Tag) -> Lease {
        let [f0, f1, f2, f3, f4, f5, f6, f7, h0, h1, ..] = tag;
        let fence = u64::from_le_bytes([f0, f1, f2, f3, f4, f5, f6, f7]);
        Lease { fence, holder: u16::from_le_bytes([h0, h1]) }
    }
}
