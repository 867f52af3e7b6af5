//! Detects a file system by the magic number of its superblock, and reads its identity.

use crate::field::{Little, piece};
use crate::partitions::partitions;
use crate::{Blocks, FsError};
use std::fmt;
use thermocline_units::Bytes;

/// Kinds of file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// ext2: without a journal and without extents.
    Ext2,
    /// ext3: ext2 with a journal.
    Ext3,
    /// ext4: with any feature that ext3 has not.
    Ext4,
    /// XFS, versions 4 and 5.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Ext2 => "ext2",
            Kind::Ext3 => "ext3",
            Kind::Ext4 => "ext4",
            Kind::Xfs => "XFS",
            Kind::Btrfs => "btrfs",
        })
    }
}

/// A file system that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// Its kind.
    pub kind: Kind,
    /// Offset of its beginning on the volume.
    pub at: Bytes,
    /// A digest of its id and of what it can never change while it stays the same one; another file
    /// system in its place has another, but for chance.
    pub identity: u64,
}

/// Offsets of superblocks, from the start of the file system.
pub(crate) const EXT_SUPERBLOCK: u64 = 1024;
pub(crate) const BTRFS_SUPERBLOCK: u64 = 64 << 10;

/// ext: any of these and it is ext4 (`ext4` of the kernel mounts ext2 and ext3 as well).
const EXT4_COMPAT: u32 = 0x200 | 0x400 | 0x1000;
const EXT4_INCOMPAT: u32 = !(0x2 | 0x4 | 0x8 | 0x10);
const EXT4_RO_COMPAT: u32 = !(0x1 | 0x2 | 0x4);
const EXT3_HAS_JOURNAL: u32 = 0x4;

/// The file system that begins at byte `at` of the volume, if it is one that is known here. Reads
/// at most 8.5 KiB.
///
/// # Errors
/// When the volume cannot be read.
pub fn detect(blocks: &mut dyn Blocks, at: Bytes) -> Result<Option<System>, FsError> {
    let mut head = [0; 4096];
    if !fill(blocks, at.0, &mut head)? {
        return Ok(None);
    }
    if head.starts_with(b"XFSB") {
        let identity = digest(&[piece(&head, 4, 4), piece(&head, 32, 16), piece(&head, 84, 4)]);
        return Ok(Some(System { kind: Kind::Xfs, at, identity }));
    }
    let ext = Little(piece(&head, EXT_SUPERBLOCK as usize, 1024));
    if ext.u16(0x38) == 0xef53 && ext.u32(0x18) <= 6 {
        return Ok(Some(ext_system(ext, at)));
    }
    let Some(place) = at.0.checked_add(BTRFS_SUPERBLOCK) else { return Ok(None) };
    if !fill(blocks, place, &mut head)? || piece(&head, 64, 8) != b"_BHRfS_M" {
        return Ok(None);
    }
    let identity = digest(&[piece(&head, 32, 16), piece(&head, 144, 8)]);
    Ok(Some(System { kind: Kind::Btrfs, at, identity }))
}

fn ext_system(head: Little<'_>, at: Bytes) -> System {
    let (compat, incompat, ro_compat) = (head.u32(0x5c), head.u32(0x60), head.u32(0x64));
    let newer = compat & EXT4_COMPAT != 0
        || incompat & EXT4_INCOMPAT != 0
        || ro_compat & EXT4_RO_COMPAT != 0;
    let kind = match (newer, compat & EXT3_HAS_JOURNAL != 0) {
        (true, _) => Kind::Ext4,
        (false, true) => Kind::Ext3,
        (false, false) => Kind::Ext2,
    };
    // Grown, or its inodes made larger: the same file system, with everything in another place.
    let sizes = [piece(head.0, 0, 8), piece(head.0, 0x18, 4), piece(head.0, 0x20, 12)];
    let fixed = [piece(head.0, 0x58, 2), piece(head.0, 0x68, 16), piece(head.0, 0x150, 4)];
    System { kind, at, identity: digest(&[sizes, fixed].concat()) }
}

fn digest(pieces: &[&[u8]]) -> u64 {
    let low = pieces.iter().fold(0, |sum, piece| crc32c::crc32c_append(sum, piece));
    let high =
        pieces.iter().fold(low ^ 0x5bd1_e995, |sum, piece| crc32c::crc32c_append(sum, piece));
    u64::from(low) | u64::from(high) << 32
}

/// Reads when it lies inside the volume; otherwise `false`.
pub(crate) fn fill(blocks: &mut dyn Blocks, offset: u64, into: &mut [u8]) -> Result<bool, FsError> {
    let end = offset.checked_add(into.len() as u64);
    if end.is_none_or(|end| end > blocks.size().0) {
        return Ok(false);
    }
    let at = Bytes(offset);
    blocks.read_at(at, into).map_err(|source| FsError::Read { at, source })?;
    Ok(true)
}

/// Every known file system of a volume: those of its partitions, or, when none of them holds one,
/// the one that fills it. A disk that got a partition table keeps, behind the table, what filled it
/// before.
///
/// # Errors
/// When the volume cannot be read.
pub fn systems(blocks: &mut dyn Blocks) -> Result<Vec<System>, FsError> {
    let mut found = Vec::new();
    for partition in partitions(blocks)? {
        found.extend(detect(blocks, partition.start)?);
    }
    if found.is_empty() {
        found.extend(detect(blocks, Bytes(0))?);
    }
    Ok(found)
}
