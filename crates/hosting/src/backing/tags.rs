//! Tag that is kept with each volume: who may write to it, and under which fencing number.
//!
//! A tag is the fencing number (8 bytes), the host's number (2), and six zeroes.

use thermocline_content::Tag;

/// A lease as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) fence: u64,
    pub(super) holder: u16,
}

impl Lease {
    pub(super) fn tag(self) -> Tag {
        let mut tag = Tag::default();
        tag[..8].copy_from_slice(&self.fence.to_le_bytes());
        tag[8..10].copy_from_slice(&self.holder.to_le_bytes());
        tag
    }

    pub(super) fn of(tag: Tag) -> Lease {
        let (fence, rest) = tag.split_at(8);
        Lease {
            fence: u64::from_le_bytes(fence.try_into().expect("eight bytes")),
            holder: u16::from_le_bytes([rest[0], rest[1]]),
        }
    }
}
