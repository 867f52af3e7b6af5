//! An inode of XFS: what it is, its two forks, its checksum, and its fingerprint.

use super::superblock::{Superblock, is_whole};
use crate::field::{Big, piece};
use crate::found::{File, FileId, FileKind};
use thermocline_units::Bytes;

const MAGIC: u16 = 0x494e;
const SUM_AT: usize = 100;
/// Offset of forks in inodes of versions 2 and 3.
const FORKS_2: usize = 100;
const FORKS_3: usize = 176;
const BIG_TIMES: u64 = 0x8;
const MANY_EXTENTS: u64 = 0x10;
/// The realtime flag: the contents lie on another device.
const REALTIME: u16 = 0x1;

/// The bytes of an inode with its number.
#[derive(Clone, Copy)]
pub(super) struct Inode<'a> {
    pub(super) number: u64,
    bytes: &'a [u8],
}

/// A fork: how it keeps its contents, its bytes, and how many extents it has.
pub(super) type Fork<'a> = (u8, &'a [u8], u64);

impl<'a> Inode<'a> {
    pub(super) fn new(number: u64, bytes: &'a [u8]) -> Inode<'a> {
        Inode { number, bytes }
    }

    pub(super) fn id(&self) -> FileId {
        FileId { tree: 0, inode: self.number }
    }

    fn field(&self) -> Big<'a> {
        Big(self.bytes)
    }

    /// True if the inode says who it is, and its checksum is right.
    pub(super) fn is_whole(&self, head: &Superblock) -> bool {
        let is_v3 = self.field().u8(4) == 3;
        let named =
            !is_v3 || (self.field().u64(152) == self.number && is_whole(self.bytes, SUM_AT));
        self.field().u16(0) == MAGIC && named && is_v3 == head.is_v5
    }

    /// True if it is a file that a name leads to.
    pub(super) fn is_linked(&self) -> bool {
        let links = match self.field().u8(4) {
            1 => u32::from(self.field().u16(6)),
            _ => self.field().u32(16),
        };
        self.field().u16(2) != 0 && links > 0
    }

    pub(super) fn kind(&self) -> FileKind {
        FileKind::of_mode(u32::from(self.field().u16(2)))
    }

    fn flags_2(&self) -> u64 {
        if self.field().u8(4) == 3 { self.field().u64(120) } else { 0 }
    }

    pub(super) fn size(&self) -> u64 {
        self.field().u64(56)
    }

    pub(super) fn is_realtime(&self) -> bool {
        self.field().u16(90) & REALTIME != 0 && self.kind() == FileKind::Regular
    }

    pub(super) fn file(&self) -> File {
        let modified_s = if self.flags_2() & BIG_TIMES != 0 {
            // Nanoseconds since the earliest time that 32 bits of seconds reach.
            (self.field().u64(40) / 1_000_000_000) as i64 + i64::from(i32::MIN)
        } else {
            i64::from(self.field().u32(40) as i32)
        };
        File { id: self.id(), kind: self.kind(), size: Bytes(self.size()), modified_s }
    }

    fn forks(&self) -> &'a [u8] {
        let start = if self.field().u8(4) == 3 { FORKS_3 } else { FORKS_2 };
        self.bytes.get(start..).unwrap_or_default()
    }

    /// Offset of the second fork; none: there is one only.
    fn boundary(&self) -> Option<usize> {
        let at = usize::from(self.field().u8(82)) * 8;
        (at > 0).then_some(at)
    }

    /// The contents.
    pub(super) fn contents(&self) -> Fork<'a> {
        let room = self.forks();
        let fork = piece(room, 0, self.boundary().unwrap_or(room.len()).min(room.len()));
        let many = self.flags_2() & MANY_EXTENTS != 0;
        let count = if many { self.field().u64(24) } else { u64::from(self.field().u32(76)) };
        (self.field().u8(5), fork, count)
    }

    /// The extended attributes.
    pub(super) fn attributes(&self) -> Option<Fork<'a>> {
        let fork = self.forks().get(self.boundary()?..)?;
        let many = self.flags_2() & MANY_EXTENTS != 0;
        let count =
            if many { u64::from(self.field().u32(76)) } else { u64::from(self.field().u16(80)) };
        Some((self.field().u8(83), fork, count))
    }

    /// A checksum of everything but the time of the last access, the inode's own checksum, and the
    /// place in the log and the count that change with every touch: a file that was only read has
    /// not changed.
    pub(super) fn fingerprint(&self) -> u32 {
        let is_v3 = self.field().u8(4) == 3;
        let (before, after) = if is_v3 { (0..32, 120) } else { (0..30, 100) };
        let kept = [before, 40..100, after..self.bytes.len()];
        kept.into_iter().fold(0, |sum, range| {
            crc32c::crc32c_append(sum, self.bytes.get(range).unwrap_or_default())
        })
    }
}
