//! The superblock of XFS, versions 4 and 5, and how its addresses and inode numbers are made up.
//!
//! Source: "XFS Algorithms & Data Structures", 3rd edition (2018), and the kernel's `xfs_format.h`
//! for what came later. Once parsed, sizes are within the bounds below.

use crate::FsError;
use crate::field::{Big, piece};
use crate::pass::Pass;
use std::ops::Range;

mod version {
    pub(super) const DIR_2: u16 = 0x2000;
    pub(super) const MORE: u16 = 0x8000;
}

/// Version 4: the type of a file stands in its directory entry.
const FTYPE_4: u32 = 0x200;

mod incompat {
    pub(super) const FTYPE: u32 = 0x1;
    pub(super) const SPARSE: u32 = 0x2;
    /// ftype, sparse inodes, separate id, big times, needs repair, many extents, exchange, parents.
    pub(super) const KNOWN: u32 = 0xff;
}

mod ro_compat {
    pub(super) const FREE_INODES: u32 = 0x1;
    pub(super) const OWNERS: u32 = 0x2;
    pub(super) const SHARED: u32 = 0x4;
}

/// Offset of the superblock's checksum.
const SUM_AT: usize = 224;

/// Contents of the superblock.
#[derive(Debug, Clone)]
pub(super) struct Superblock {
    /// True if structures carry checksums and say who they are.
    pub(super) is_v5: bool,
    pub(super) block_size: u64,
    pub(super) sector_size: u64,
    pub(super) inode_size: u64,
    pub(super) blocks: u64,
    pub(super) group_blocks: u64,
    pub(super) groups: u64,
    /// Bits of a block's number inside its group, and of an inode's inside its block.
    pub(super) group_bits: u32,
    inode_bits: u32,
    pub(super) directory_blocks: u64,
    pub(super) log: Range<u64>,
    pub(super) has_ftype: bool,
    pub(super) has_sparse: bool,
    pub(super) has_free_inode_tree: bool,
    pub(super) has_owners: bool,
    pub(super) has_sharing: bool,
    /// Inodes of quota, and of the realtime volume's bitmaps.
    pub(super) hidden_inodes: [u64; 5],
}

/// True if the checksum that stands, little-endian, at `at` is that of the bytes with zeroes there.
pub(super) fn is_whole(bytes: &[u8], at: usize) -> bool {
    let (Some(before), Some(after)) = (bytes.get(..at), bytes.get(at + 4..)) else { return false };
    let sum = [before, &[0; 4], after].iter().fold(0, |sum, p| crc32c::crc32c_append(sum, p));
    cfg!(fuzzing) || piece(bytes, at, 4) == sum.to_le_bytes()
}

impl Superblock {
    /// Reads it and refuses what makes no sense.
    pub(super) fn read(pass: &mut Pass<'_>, buffer: &mut Vec<u8>) -> Result<Superblock, FsError> {
        if !pass.read(0, 512, buffer)? {
            return Err(pass.damaged("there is no room for a superblock"));
        }
        let head = Superblock::parse(Big(buffer));
        if let Some(what) = unsupported(Big(buffer), &head) {
            return Err(pass.unsupported(what));
        }
        if let Some(what) = head.nonsense(Big(buffer)) {
            return Err(pass.damaged(what));
        }
        let (sector, is_v5) = (head.sector_size, head.is_v5);
        if is_v5 && (!pass.read(0, sector, buffer)? || !is_whole(buffer, SUM_AT)) {
            pass.torn(); // sizes do not change under a mount: what was read serves
        }
        pass.narrow(head.blocks * head.block_size)?;
        Ok(head)
    }

    fn parse(field: Big<'_>) -> Superblock {
        let is_v5 = field.u16(100) & 0xf == 5;
        let (ro_compat, incompat) = if is_v5 { (field.u32(212), field.u32(216)) } else { (0, 0) };
        let old_ftype = field.u16(100) & version::MORE != 0 && field.u32(200) & FTYPE_4 != 0;
        let log_start = field.u64(48);
        Superblock {
            is_v5,
            block_size: u64::from(field.u32(4)),
            sector_size: u64::from(field.u16(102)),
            inode_size: u64::from(field.u16(104)),
            blocks: field.u64(8),
            group_blocks: u64::from(field.u32(84)),
            groups: u64::from(field.u32(88)),
            group_bits: u32::from(field.u8(124)),
            inode_bits: u32::from(field.u8(123)),
            directory_blocks: 1 << field.u8(192).min(8),
            log: log_start..log_start.saturating_add(u64::from(field.u32(96))),
            has_ftype: if is_v5 { incompat & incompat::FTYPE != 0 } else { old_ftype },
            has_sparse: incompat & incompat::SPARSE != 0,
            has_free_inode_tree: ro_compat & ro_compat::FREE_INODES != 0,
            has_owners: ro_compat & ro_compat::OWNERS != 0,
            has_sharing: ro_compat & ro_compat::SHARED != 0,
            hidden_inodes: [64, 72, 160, 168, 232].map(|at| field.u64(at)),
        }
    }

    fn nonsense(&self, field: Big<'_>) -> Option<&'static str> {
        let power =
            |size: u64, low: u64, high: u64| size.is_power_of_two() && (low..=high).contains(&size);
        let last = self.groups.saturating_sub(1).saturating_mul(self.group_blocks);
        let all = self.groups.saturating_mul(self.group_blocks);
        let group_power = 1_u64.checked_shl(self.group_bits).unwrap_or(0);
        let wrong = [
            (!power(self.block_size, 512, 1 << 16), "its blocks have an impossible size"),
            (!power(self.sector_size, 512, self.block_size), "its sectors have an impossible size"),
            (
                !power(self.inode_size, 256, self.block_size.min(2048)),
                "its inodes have an impossible size",
            ),
            (
                self.inode_size << self.inode_bits.min(16) != self.block_size,
                "its inodes do not fill its blocks",
            ),
            (
                u64::from(field.u8(192)) > 8 || self.directory_blocks * self.block_size > 1 << 16,
                "its directory blocks have an impossible size",
            ),
            (self.groups == 0 || self.group_blocks == 0, "it has no allocation groups"),
            (self.group_bits > 31 || self.group_blocks > group_power, "its groups are too large"),
            (!(last..=all).contains(&self.blocks), "its groups do not make up its size"),
            (self.blocks > u64::MAX >> 17, "it has more blocks than fit anywhere"),
        ];
        wrong.iter().find(|(is_so, _)| *is_so).map(|(_, what)| *what)
    }

    /// Bytes of `count` blocks from a block of the file system, as its address is made up: a
    /// group's number and a block's inside it. An address outside the groups ends outside the
    /// volume.
    pub(super) fn bytes(&self, address: u64, count: u64) -> Range<u64> {
        let (group, block) = (address >> self.group_bits, address & ((1 << self.group_bits) - 1));
        self.group_bytes(group, block, count)
    }

    /// Bytes of `count` blocks from block `block` of a group.
    pub(super) fn group_bytes(&self, group: u64, block: u64, count: u64) -> Range<u64> {
        let end = block.saturating_add(count);
        if group >= self.groups || end > self.group_blocks {
            return u64::MAX - 1..u64::MAX;
        }
        let start = (group * self.group_blocks + block) * self.block_size;
        start..start + count * self.block_size
    }

    /// The number of an inode from its group and its number there.
    pub(super) fn inode(&self, group: u64, inside: u64) -> u64 {
        group << (self.group_bits + self.inode_bits) | inside
    }

    /// The block of its group where an inode lies.
    pub(super) fn block_of_inode(&self, inside: u64) -> u64 {
        inside >> self.inode_bits
    }

    pub(super) fn inodes_per_block(&self) -> u64 {
        1 << self.inode_bits
    }

    /// The inodes that a group's numbers can name.
    pub(super) fn inodes_of(&self, group: u64) -> Range<u64> {
        self.inode(group, 0)..self.inode(group + 1, 0)
    }
}

fn unsupported(field: Big<'_>, head: &Superblock) -> Option<String> {
    let version = field.u16(100);
    if !matches!(version & 0xf, 4 | 5) {
        return Some(format!("has version {}, and only 4 and 5 are read", version & 0xf));
    }
    if !head.is_v5 && version & version::DIR_2 == 0 {
        return Some("has directories of before 2001".to_string());
    }
    let unknown = field.u32(216) & !incompat::KNOWN;
    if head.is_v5 && unknown != 0 {
        return Some(format!("has features that are not known here ({unknown:#x})"));
    }
    let realtime = field.u64(16) > 0;
    realtime.then(|| "has a realtime volume, where files lie on another device".to_string())
}
