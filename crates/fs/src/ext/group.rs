//! A block group: its descriptor, where its bitmaps and inodes are, and which inodes are in use.

use super::superblock::{Superblock, sum};
use crate::field::{Little, piece};

/// The inodes of this group were never used; its inode bitmap may hold nothing.
const INODES_UNINITIALISED: u16 = 1;

/// Contents of a descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) block_bitmap: u64,
    pub(super) inode_bitmap: u64,
    pub(super) inode_table: u64,
    /// Inodes at the table's beginning that may be in use.
    pub(super) inodes_used: u64,
    pub(super) bitmap_sum: u32,
    /// True if the descriptor's checksum is right, or it has none.
    pub(super) is_whole: bool,
}

impl Group {
    pub(super) fn parse(head: &Superblock, number: u64, bytes: &[u8]) -> Group {
        let (field, wide) = (Little(bytes), head.descriptor_size >= 64);
        let place = |low, high| {
            if wide { field.halves(low, high) } else { u64::from(field.u32(low)) }
        };
        let pair = |low: usize, high: usize| {
            u32::from(field.u16(low)) | if wide { u32::from(field.u16(high)) << 16 } else { 0 }
        };
        let is_whole = !head.has_group_sums() || checksum(head, number, bytes) == field.u16(0x1e);
        let unused = u64::from(pair(0x1c, 0x32));
        let never_used = field.u16(0x12) & INODES_UNINITIALISED != 0;
        let inodes_used = if !head.has_group_sums() || !is_whole {
            head.inodes_per_group
        } else if never_used {
            0
        } else {
            head.inodes_per_group.saturating_sub(unused)
        };
        Group {
            block_bitmap: place(0x0, 0x20),
            inode_bitmap: place(0x4, 0x24),
            inode_table: place(0x8, 0x28),
            inodes_used,
            bitmap_sum: pair(0x1a, 0x3a),
            is_whole,
        }
    }

    /// True if an inode bitmap is what the descriptor says of it.
    pub(super) fn vouches_for(&self, head: &Superblock, bitmap: &[u8]) -> bool {
        if !head.has_sums() {
            return true;
        }
        let bits = piece(bitmap, 0, (head.inodes_per_group / 8) as usize);
        let mask = if head.descriptor_size >= 64 { u32::MAX } else { 0xffff };
        sum(head.seed, bits) & mask == self.bitmap_sum
    }
}

/// The checksum of a descriptor, whose own field counts as zero (or, in the older form, as
/// nothing).
fn checksum(head: &Superblock, number: u64, bytes: &[u8]) -> u16 {
    let number = (number as u32).to_le_bytes();
    let (before, after) = (piece(bytes, 0, 0x1e), bytes.get(0x20..).unwrap_or_default());
    if head.has_sums() {
        let pieces: [&[u8]; 4] = [&number, before, &[0, 0], after];
        return pieces.iter().fold(head.seed, |seed, piece| sum(seed, piece)) as u16;
    }
    let after = if head.descriptor_size > 32 { after } else { &[] };
    let pieces: [&[u8]; 4] = [&head.uuid, &number, before, after];
    pieces.iter().fold(u16::MAX, |seed, piece| crc16(seed, piece))
}

/// CRC-16 with the reflected polynomial 0xa001, bit by bit: a descriptor has 32 or 64 bytes.
fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| (sum >> 1) ^ (0xa001 * (sum & 1)))
    })
}
