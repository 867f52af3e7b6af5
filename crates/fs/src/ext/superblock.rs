//! The superblock of ext2/3/4: sizes, features, and the checksums that everything else uses.
//!
//! Source: "ext4 Data Structures and Algorithms", Linux kernel documentation (`filesystems/ext4`),
//! and e2fsprogs 1.47 where it is silent. Once parsed, all sizes are within the bounds below, and
//! no product of them overflows 64 bits.

use crate::detect::EXT_SUPERBLOCK;
use crate::field::{Little, piece};
use crate::pass::Pass;
use crate::{FsError, What};
use std::ops::Range;

pub(super) mod compat {
    pub(crate) const HAS_JOURNAL: u32 = 0x4;
    pub(crate) const SPARSE_SUPER2: u32 = 0x200;
}

pub(super) mod incompat {
    pub(crate) const JOURNAL_DEV: u32 = 0x8;
    pub(crate) const META_BG: u32 = 0x10;
    pub(crate) const WIDE: u32 = 0x80;
    pub(crate) const MMP: u32 = 0x100;
    pub(crate) const CSUM_SEED: u32 = 0x2000;
    /// Features that are understood, or do not decide where things are: all up to `casefold` but
    /// compression and journal devices.
    pub(crate) const KNOWN: u32 = 0x3_f7d6;
}

pub(super) mod ro_compat {
    pub(crate) const SPARSE_SUPER: u32 = 0x1;
    pub(crate) const GDT_CSUM: u32 = 0x10;
    pub(crate) const BIGALLOC: u32 = 0x200;
    pub(crate) const METADATA_CSUM: u32 = 0x400;
}

/// Contents of the superblock.
#[derive(Debug, Clone)]
pub(super) struct Superblock {
    /// Bytes of a block: 1 KiB to 64 KiB.
    pub(super) block_size: u64,
    pub(super) blocks: u64,
    pub(super) first_data_block: u64,
    pub(super) blocks_per_group: u64,
    pub(super) inodes_per_group: u64,
    pub(super) inode_size: u64,
    pub(super) groups: u64,
    pub(super) descriptor_size: u64,
    pub(super) reserved_descriptor_blocks: u64,
    pub(super) first_meta_group: u64,
    pub(super) first_inode: u64,
    pub(super) journal_inode: u64,
    pub(super) protection_block: u64,
    /// The backups of `sparse_super2`.
    pub(super) backups: [u64; 2],
    /// Inodes of quota and orphans.
    pub(super) hidden_inodes: [u64; 4],
    pub(super) compat: u32,
    pub(super) incompat: u32,
    pub(super) ro_compat: u32,
    pub(super) uuid: [u8; 16],
    /// First input of the checksums of metadata.
    pub(super) seed: u32,
    /// A digest of when and how often it was mounted and checked: while that stays, nobody but the
    /// kernel that mounted it has written.
    pub(super) session: u32,
}

/// The checksum of ext4's metadata: CRC-32C that is not inverted at its end.
pub(super) fn sum(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

impl Superblock {
    /// Reads it and refuses what makes no sense.
    pub(super) fn read(pass: &mut Pass<'_>, buffer: &mut Vec<u8>) -> Result<Superblock, FsError> {
        if !pass.read(EXT_SUPERBLOCK, 1024, buffer)? {
            return Err(pass.damaged("there is no room for a superblock"));
        }
        let found = Superblock::parse(Little(buffer));
        if let Some(what) = found.unsupported() {
            return Err(pass.unsupported(what));
        }
        if let Some(what) = found.nonsense() {
            return Err(pass.damaged(what));
        }
        let written = Little(buffer).u32(0x3fc);
        if found.has_sums() && sum(!0, piece(buffer, 0, 0x3fc)) != written {
            pass.torn(); // sizes do not change under a mount: what was read serves
        }
        pass.narrow(found.blocks * found.block_size)?;
        Ok(found)
    }

    fn parse(head: Little<'_>) -> Superblock {
        let (compat, incompat) = (head.u32(0x5c), head.u32(0x60));
        let wide = incompat & incompat::WIDE != 0;
        let first = head.u32(0x4c) == 0;
        let (uuid, block_size) = (head.id(0x68), 1024 << head.u32(0x18).min(16));
        let high = if wide { u64::from(head.u32(0x150)) } else { 0 };
        let blocks = u64::from(head.u32(4)) | high << 32;
        let first_data_block = u64::from(head.u32(0x14));
        let blocks_per_group = u64::from(head.u32(0x20));
        let groups = blocks.saturating_sub(first_data_block).div_ceil(blocks_per_group.max(1));
        let seeded = incompat & incompat::CSUM_SEED != 0;
        let mounted = [piece(head.0, 0x2c, 4), piece(head.0, 0x34, 2), piece(head.0, 0x40, 4)];
        Superblock {
            session: mounted.iter().fold(0, |sum, piece| crc32c::crc32c_append(sum, piece)),
            block_size,
            blocks,
            first_data_block,
            blocks_per_group,
            inodes_per_group: u64::from(head.u32(0x28)),
            inode_size: if first { 128 } else { u64::from(head.u16(0x58)) },
            groups,
            descriptor_size: if wide { u64::from(head.u16(0xfe)) } else { 32 },
            reserved_descriptor_blocks: u64::from(head.u16(0xce)),
            first_meta_group: u64::from(head.u32(0x104)),
            first_inode: if first { 11 } else { u64::from(head.u32(0x54)) },
            journal_inode: u64::from(head.u32(0xe0)),
            protection_block: head.u64(0x168),
            backups: [u64::from(head.u32(0x24c)), u64::from(head.u32(0x250))],
            hidden_inodes: [0x240, 0x244, 0x26c, 0x280].map(|at| u64::from(head.u32(at))),
            compat,
            incompat,
            ro_compat: head.u32(0x64),
            uuid,
            seed: if seeded { head.u32(0x270) } else { sum(!0, &uuid) },
        }
    }

    fn unsupported(&self) -> Option<String> {
        if self.incompat & incompat::JOURNAL_DEV != 0 {
            return Some("is the journal of another file system".to_string());
        }
        let unknown = self.incompat & !incompat::KNOWN;
        (unknown != 0).then(|| format!("has features that are not known here ({unknown:#x})"))
    }

    fn nonsense(&self) -> Option<&'static str> {
        let bits = self.block_size * 8;
        let most =
            if self.ro_compat & ro_compat::BIGALLOC == 0 { bits } else { u64::from(u32::MAX) };
        let wrong = [
            (self.block_size > 1 << 16, "its blocks are larger than 64 KiB"),
            (self.blocks > u64::MAX >> 17, "it has more blocks than fit anywhere"),
            (self.blocks <= self.first_data_block, "it has no blocks"),
            (!(1..=most).contains(&self.blocks_per_group), "its groups have an impossible size"),
            (!(1..=bits).contains(&self.inodes_per_group), "its groups have no sensible inodes"),
            (self.first_data_block > 1, "its first block is not where it can be"),
            (
                !self.inode_size.is_power_of_two()
                    || !(128..=self.block_size).contains(&self.inode_size),
                "its inodes have an impossible size",
            ),
            (
                !self.descriptor_size.is_power_of_two()
                    || !(32..=self.block_size).contains(&self.descriptor_size),
                "its group descriptors have an impossible size",
            ),
            (self.groups > u64::from(u32::MAX), "it has more groups than can be"),
        ];
        wrong.iter().find(|(is_so, _)| *is_so).map(|(_, what)| *what)
    }

    pub(super) fn has_sums(&self) -> bool {
        self.ro_compat & ro_compat::METADATA_CSUM != 0
    }

    /// True if group descriptors say how much of an inode table was ever used.
    pub(super) fn has_group_sums(&self) -> bool {
        self.ro_compat & (ro_compat::METADATA_CSUM | ro_compat::GDT_CSUM) != 0
    }

    /// Blocks of a group's inode table.
    pub(super) fn table_blocks(&self) -> u64 {
        (self.inodes_per_group * self.inode_size).div_ceil(self.block_size)
    }

    pub(super) fn descriptors_per_block(&self) -> u64 {
        self.block_size / self.descriptor_size
    }

    /// Bytes of `count` blocks from `block`; saturated, so that nonsense ends outside the volume.
    pub(super) fn bytes(&self, block: u64, count: u64) -> Range<u64> {
        let start = block.saturating_mul(self.block_size);
        start..start.saturating_add(count.saturating_mul(self.block_size))
    }

    /// The first block of a group.
    pub(super) fn group_start(&self, group: u64) -> u64 {
        self.first_data_block + group * self.blocks_per_group
    }

    /// True if a group holds the superblock or a copy of it.
    fn has_superblock(&self, group: u64) -> bool {
        if group == 0 {
            return true;
        }
        if self.compat & compat::SPARSE_SUPER2 != 0 {
            return self.backups.contains(&group);
        }
        let sparse = self.ro_compat & ro_compat::SPARSE_SUPER != 0;
        group == 1 || !sparse || [3, 5, 7].iter().any(|base| is_power(group, *base))
    }

    /// Place of the block of descriptors number `index` that is in use.
    pub(super) fn descriptor_block(&self, index: u64) -> u64 {
        if self.incompat & incompat::META_BG == 0 || index < self.first_meta_group {
            return self.superblock_of(0) + 1 + index;
        }
        let group = index * self.descriptors_per_block();
        match self.has_superblock(group) {
            true => self.superblock_of(group) + 1,
            false => self.group_start(group),
        }
    }

    /// The block of a group's superblock. With blocks of 1 KiB and clusters, block 0 is free for
    /// the boot sector, though it belongs to group 0.
    fn superblock_of(&self, group: u64) -> u64 {
        let start = self.group_start(group);
        if start == 0 && self.block_size == 1024 { 1 } else { start }
    }

    /// Tells the beginning of a group: superblock and descriptors, or copies of them.
    pub(super) fn group_head(&self, pass: &mut Pass<'_>, group: u64) -> Result<(), FsError> {
        let has = self.has_superblock(group);
        let block = self.superblock_of(group);
        if has {
            pass.metadata(self.bytes(block, 1), What::Superblock)?;
        }
        let (per_block, meta) = (self.descriptors_per_block(), self.incompat & incompat::META_BG);
        let old = meta == 0 || group / per_block < self.first_meta_group;
        if old && has {
            let whole = if meta == 0 {
                self.groups.div_ceil(per_block) + self.reserved_descriptor_blocks
            } else {
                self.first_meta_group
            };
            let room = self.blocks.saturating_sub(block + 1);
            if whole.min(room) > 0 {
                pass.metadata(self.bytes(block + 1, whole.min(room)), What::GroupDescriptors)?;
            }
        } else if !old && [0, 1, per_block - 1].contains(&(group % per_block)) {
            let at = if has { block + 1 } else { self.group_start(group) };
            pass.metadata(self.bytes(at, 1), What::GroupDescriptors)?;
        }
        Ok(())
    }
}

fn is_power(number: u64, base: u64) -> bool {
    let mut power = base;
    while power < number {
        power *= base;
    }
    power == number
}
