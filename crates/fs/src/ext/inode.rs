//! An inode of ext2/3/4: what it is, its checksum, and the fingerprint by which a change is known.

use super::superblock::{Superblock, sum};
use crate::field::{Little, piece, rest};
use crate::found::{File, FileId, FileKind};
use thermocline_units::Bytes;

mod flag {
    pub(super) const ENCRYPTED: u32 = 0x800;
    pub(super) const EXTENTS: u32 = 0x8_0000;
    pub(super) const INLINE: u32 = 0x1000_0000;
}

/// Bytes in the inode for the map, a short symbolic link, or the first of inline contents.
const MAP: usize = 60;
const MAP_AT: usize = 0x28;
const XATTR_MAGIC: u32 = 0xea02_0000;
/// The namespace `system.` of extended attributes.
const XATTR_SYSTEM: u8 = 7;

/// The bytes of an inode with its number.
#[derive(Clone, Copy)]
pub(super) struct Inode<'a> {
    pub(super) number: u64,
    bytes: &'a [u8],
}

impl<'a> Inode<'a> {
    pub(super) fn new(number: u64, bytes: &'a [u8]) -> Inode<'a> {
        Inode { number, bytes }
    }

    pub(super) fn id(&self) -> FileId {
        FileId { tree: 0, inode: self.number }
    }

    fn field(&self) -> Little<'a> {
        Little(self.bytes)
    }

    fn mode(&self) -> u32 {
        u32::from(self.field().u16(0))
    }

    fn flags(&self) -> u32 {
        self.field().u32(0x20)
    }

    /// True if it is a file that a name leads to. One that was unlinked while open has no links;
    /// its blocks come free soon.
    pub(super) fn is_linked(&self) -> bool {
        self.mode() != 0 && self.field().u16(0x1a) > 0
    }

    pub(super) fn kind(&self) -> FileKind {
        FileKind::of_mode(self.mode())
    }

    pub(super) fn size(&self) -> u64 {
        let low = u64::from(self.field().u32(4));
        // Before large directories existed, only regular files had more than 32 bits.
        match self.kind() {
            FileKind::Symlink => low,
            _ => low | u64::from(self.field().u32(0x6c)) << 32,
        }
    }

    pub(super) fn file(&self) -> File {
        let seconds = i64::from(self.field().u32(0x10) as i32);
        let extra = if self.extra() >= 0x8c - 0x80 { self.field().u32(0x88) & 3 } else { 0 };
        let modified_s = seconds + (i64::from(extra) << 32);
        File { id: self.id(), kind: self.kind(), size: Bytes(self.size()), modified_s }
    }

    /// Bytes in use beyond the first 128.
    fn extra(&self) -> usize {
        if self.bytes.len() > 128 { usize::from(self.field().u16(0x80)) } else { 0 }
    }

    pub(super) fn has_extents(&self) -> bool {
        self.flags() & flag::EXTENTS != 0
    }

    pub(super) fn is_inline(&self) -> bool {
        self.flags() & flag::INLINE != 0
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.flags() & flag::ENCRYPTED != 0
    }

    /// True if it has a map of blocks at all.
    pub(super) fn has_map(&self) -> bool {
        match self.kind() {
            _ if self.is_inline() => false,
            FileKind::Regular | FileKind::Directory => true,
            FileKind::Symlink => self.has_extents() || self.size() >= MAP as u64,
            FileKind::Other => false,
        }
    }

    /// The 60 bytes of the map.
    pub(super) fn map(&self) -> &'a [u8] {
        piece(self.bytes, MAP_AT, MAP)
    }

    /// The block of extended attributes.
    pub(super) fn attributes(&self) -> Option<u64> {
        let block = u64::from(self.field().u32(0x68)) | u64::from(self.field().u16(0x76)) << 32;
        (block != 0).then_some(block)
    }

    /// Part of a directory that is inline after the first 60 bytes: the attribute `system.data`.
    pub(super) fn inline_rest(&self) -> &'a [u8] {
        let start = 128 + self.extra();
        let Some(area) = self.bytes.get(start..).filter(|a| Little(a).u32(0) == XATTR_MAGIC) else {
            return &[];
        };
        let area = rest(area, 4);
        let mut at = 0;
        while area.len() >= at + 16 {
            let entry = Little(rest(area, at));
            let length = usize::from(entry.u8(0));
            if entry.u32(0) == 0 {
                break;
            }
            let name = piece(area, at + 16, length);
            if entry.u8(1) == XATTR_SYSTEM && name == b"data" {
                return piece(area, usize::from(entry.u16(2)), entry.u32(8) as usize);
            }
            at += (16 + length).next_multiple_of(4);
        }
        &[]
    }

    /// First input of the checksums of this inode's own blocks.
    pub(super) fn seed(&self, head: &Superblock) -> u32 {
        let number = (self.number as u32).to_le_bytes();
        sum(sum(head.seed, &number), piece(self.bytes, 0x64, 4))
    }

    /// True if the checksum is right, or there is none.
    pub(super) fn is_whole(&self, head: &Superblock) -> bool {
        if !head.has_sums() {
            return true;
        }
        let wide = self.extra() >= 4;
        let mut seed = sum(self.seed(head), piece(self.bytes, 0, 0x7c));
        seed = sum(seed, &[0, 0]);
        seed = sum(seed, piece(self.bytes, 0x7e, 2));
        if let Some(rest) = self.bytes.get(0x80..) {
            seed = match rest.get(4..) {
                Some(rest) if wide => {
                    let zeroed = sum(sum(seed, piece(self.bytes, 0x80, 2)), &[0, 0]);
                    sum(zeroed, rest)
                }
                _ => sum(seed, rest),
            };
        }
        let low = u32::from(self.field().u16(0x7c));
        let high = if wide { u32::from(self.field().u16(0x82)) << 16 } else { 0 };
        let mask = if wide { u32::MAX } else { 0xffff };
        seed & mask == low | high
    }

    /// A checksum of everything but the time of the last access and the inode's own checksum: a
    /// file that was only read has not changed.
    pub(super) fn fingerprint(&self) -> u32 {
        let kept = [0..0x8, 0xc..0x7c, 0x7e..0x82, 0x84..0x8c, 0x90..self.bytes.len()];
        kept.into_iter().fold(0, |sum, range| {
            crc32c::crc32c_append(sum, self.bytes.get(range).unwrap_or_default())
        })
    }
}
