//! Partition tables: GPT (UEFI specification 2.10, chapter 5) and the MBR with extended partitions.
//!
//! Invariants: at most [`PARTITIONS_MAX`] partitions are read; each lies inside the volume; a chain
//! of extended partitions only goes forward. A GPT whose checksums are wrong gives way to its copy
//! at the volume's end; when that is wrong too, there are no partitions. Logical sectors of 512 B
//! and 4 KiB are tried for GPT; an MBR counts in 512 B.

use crate::detect::fill;
use crate::field::{Little, piece};
use crate::{Blocks, FsError};
use thermocline_units::Bytes;

/// Most partitions of a volume; GPT's usual room is 128 entries.
const PARTITIONS_MAX: usize = 1024;

const MBR_SECTOR: u64 = 512;
const GPT_SECTORS: [u64; 2] = [512, 4096];
const GPT_ENTRY: std::ops::RangeInclusive<u64> = 128..=1024;
/// MBR type: all of the disk is GPT's.
const PROTECTIVE: u8 = 0xee;

/// A partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Offset of its beginning on the volume.
    pub start: Bytes,
    /// Length, at least one byte.
    pub length: Bytes,
    /// Kind by its table.
    pub kind: PartitionKind,
}

/// Kind of a partition by its table. Says little of what is inside: [`crate::detect()`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionKind {
    /// The type byte of an MBR.
    Mbr(u8),
    /// The type GUID of a GPT, as its 16 bytes stand on disk.
    Gpt([u8; 16]),
}

/// The partitions of a volume, by their place; none when it has no table.
///
/// # Errors
/// When the volume cannot be read.
pub fn partitions(blocks: &mut dyn Blocks) -> Result<Vec<Partition>, FsError> {
    let mut first = [0; MBR_SECTOR as usize];
    if !fill(blocks, 0, &mut first)? || first[510..] != [0x55, 0xaa] {
        return Ok(Vec::new());
    }
    let entries = mbr_entries(&first);
    let mut found = if entries.iter().any(|entry| entry.kind == PROTECTIVE) {
        gpt(blocks)?.unwrap_or_default()
    } else {
        mbr(blocks, &entries)?
    };
    found.sort_by_key(|partition| partition.start);
    Ok(found)
}

struct MbrEntry {
    kind: u8,
    first: u64,
    count: u64,
}

impl MbrEntry {
    fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }
}

/// The entries in use of one table of four.
fn mbr_entries(sector: &[u8]) -> Vec<MbrEntry> {
    let entry = |index: usize| {
        let bytes = Little(piece(sector, 446 + index * 16, 16));
        let entry = MbrEntry {
            kind: bytes.u8(4),
            first: u64::from(bytes.u32(8)),
            count: u64::from(bytes.u32(12)),
        };
        let bootable_or_not = matches!(bytes.u8(0), 0 | 0x80);
        (bootable_or_not && entry.kind != 0 && entry.count > 0).then_some(entry)
    };
    (0..4).filter_map(entry).collect()
}

/// The partition of an entry whose sectors count from `base`, when it lies inside the volume.
fn mbr_partition(blocks: &dyn Blocks, entry: &MbrEntry, base: u64) -> Option<Partition> {
    let (first, count) = (base + entry.first, entry.count);
    let inside = first > 0 && (first + count) * MBR_SECTOR <= blocks.size().0;
    inside.then_some(Partition {
        start: Bytes(first * MBR_SECTOR),
        length: Bytes(count * MBR_SECTOR),
        kind: PartitionKind::Mbr(entry.kind),
    })
}

fn mbr(blocks: &mut dyn Blocks, entries: &[MbrEntry]) -> Result<Vec<Partition>, FsError> {
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_extended() {
            chain(blocks, entry.first, &mut found)?;
        } else {
            found.extend(mbr_partition(blocks, entry, 0));
        }
    }
    Ok(found)
}

/// The logical partitions of an extended one: each table names one, and the place of the next
/// table.
fn chain(
    blocks: &mut dyn Blocks,
    extended: u64,
    found: &mut Vec<Partition>,
) -> Result<(), FsError> {
    let (mut table, mut sector) = (extended, [0; MBR_SECTOR as usize]);
    for _ in 0..PARTITIONS_MAX {
        let read = fill(blocks, table * MBR_SECTOR, &mut sector)?;
        if !read || sector[510..] != [0x55, 0xaa] {
            break;
        }
        let entries = mbr_entries(&sector);
        for entry in entries.iter().filter(|entry| !entry.is_extended()) {
            found.extend(mbr_partition(blocks, entry, table));
        }
        let next = entries.iter().find(|entry| entry.is_extended());
        match next.map(|entry| extended + entry.first) {
            Some(next) if next > table => table = next,
            _ => break,
        }
    }
    Ok(())
}

/// The partitions of a GPT, from its first copy that is whole.
fn gpt(blocks: &mut dyn Blocks) -> Result<Option<Vec<Partition>>, FsError> {
    for sector in GPT_SECTORS {
        let last = (blocks.size().0 / sector).saturating_sub(1);
        for place in [1, last] {
            let found = gpt_at(blocks, sector, place)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

fn gpt_at(
    blocks: &mut dyn Blocks,
    sector: u64,
    place: u64,
) -> Result<Option<Vec<Partition>>, FsError> {
    let mut bytes = [0; MBR_SECTOR as usize];
    if !fill(blocks, place.saturating_mul(sector), &mut bytes)? || !bytes.starts_with(b"EFI PART") {
        return Ok(None);
    }
    let head = Little(&bytes);
    let (size, sum) = (head.u32(12) as usize, head.u32(16));
    let (count, width) = (u64::from(head.u32(80)), u64::from(head.u32(84)));
    let (table, table_sum) = (head.u64(72), head.u32(88));
    let mut zeroed = piece(&bytes, 0, size).to_vec();
    let Some(own) = zeroed.get_mut(16..20).filter(|_| size >= 92) else { return Ok(None) };
    own.fill(0);
    let sound = crc32(&zeroed) == sum
        && count <= PARTITIONS_MAX as u64
        && GPT_ENTRY.contains(&width)
        && width.is_multiple_of(8);
    if !sound {
        return Ok(None);
    }
    let mut entries = vec![0; (count * width) as usize];
    let whole = fill(blocks, table.saturating_mul(sector), &mut entries)?;
    if !whole || crc32(&entries) != table_sum {
        return Ok(None);
    }
    let inside = |entry: &[u8]| gpt_partition(entry, sector, blocks.size().0);
    Ok(Some(entries.chunks_exact(width as usize).filter_map(inside).collect()))
}

fn gpt_partition(entry: &[u8], sector: u64, size: u64) -> Option<Partition> {
    let entry = Little(entry);
    let (kind, first, last) = (entry.id(0), entry.u64(32), entry.u64(40));
    let start = first.checked_mul(sector)?;
    let end = last.checked_add(1)?.checked_mul(sector)?;
    let proper = kind != [0; 16] && start > 0 && start < end && end <= size;
    let kind = PartitionKind::Gpt(kind);
    proper.then(|| Partition { start: Bytes(start), length: Bytes(end - start), kind })
}

/// CRC-32 of IEEE 802.3, bit by bit: a table has a few KiB.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1)))
    })
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
