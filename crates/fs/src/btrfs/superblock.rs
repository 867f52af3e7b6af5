//! The superblock of btrfs and its copies.
//!
//! Source: "Btrfs design" and "On-disk format" of the btrfs documentation, and the kernel's
//! `btrfs_tree.h`, which fixes the layout.

use crate::FsError;
use crate::detect::BTRFS_SUPERBLOCK;
use crate::field::{Little, piece};
use crate::found::What;
use crate::pass::Pass;

const SIZE: u64 = 4096;
/// Offsets of copies, as far as the device reaches.
const COPIES: [u64; 3] = [BTRFS_SUPERBLOCK, 64 << 20, 256 << 30];
const CHECKSUM: usize = 32;
const CRC32C: u16 = 0;
const SYSTEM_CHUNKS_AT: usize = 811;
const SYSTEM_CHUNKS_MAX: usize = 2048;
const NODE_MIN: u64 = 4096;
const NODE_MAX: u64 = 65536;

/// Features that put things elsewhere: zoned devices, the second extent tree, the stripe tree.
const ELSEWHERE: u64 = 0x1000 | 0x2000 | 0x4000;
const KNOWN: u64 = 0x1_0fff;

/// Place of a tree's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer {
    /// The logical address of the node.
    pub(super) logical: u64,
    /// Generation in which it was written; none: not known.
    pub(super) generation: Option<u64>,
    /// Steps from it down to the leaves.
    pub(super) level: u8,
}

/// Contents of the superblock.
#[derive(Debug, Clone)]
pub(super) struct Superblock {
    pub(super) generation: u64,
    pub(super) root: Pointer,
    pub(super) chunk_root: Pointer,
    /// Root of the log: what was synced since the last commit.
    pub(super) log_root: Option<Pointer>,
    pub(super) node_size: u64,
    pub(super) device: u64,
    /// True if checksums are CRC-32C, the one that is verified here.
    pub(super) has_sums: bool,
    /// Chunks that the chunk tree itself lies in.
    pub(super) system_chunks: Vec<u8>,
}

/// True if a structure that begins with its checksum is whole.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    let body = bytes.get(CHECKSUM..).unwrap_or_default();
    cfg!(fuzzing) || crc32c::crc32c(body) == Little(bytes).u32(0)
}

impl Superblock {
    /// Reads the first copy that is whole.
    pub(super) fn read(pass: &mut Pass<'_>, buffer: &mut Vec<u8>) -> Result<Superblock, FsError> {
        let mut found = None;
        for (number, place) in COPIES.into_iter().enumerate() {
            if place + SIZE > pass.size() || !pass.read(place, SIZE, buffer)? {
                break;
            }
            let field = Little(buffer);
            let is_ours = piece(buffer, 64, 8) == b"_BHRfS_M" && field.u64(48) == place;
            if is_ours && (field.u16(196) != CRC32C || is_whole(buffer)) {
                found = Some(Superblock::parse(pass, field)?);
                break;
            }
            if number == 0 {
                pass.torn();
            }
        }
        let Some(head) = found else {
            return Err(pass.damaged("no copy of its superblock is whole"));
        };
        pass.narrow(Little(buffer).u64(209))?;
        let end = pass.size();
        for place in COPIES.into_iter().filter(|place| place + SIZE <= end) {
            pass.metadata(place..place + SIZE, What::Superblock)?;
        }
        Ok(head)
    }

    fn parse(pass: &Pass<'_>, field: Little<'_>) -> Result<Superblock, FsError> {
        let (devices, features) = (field.u64(136), field.u64(188));
        if devices != 1 {
            let what = format!("lies on {devices} devices, and only file systems of one are read");
            return Err(pass.unsupported(what));
        }
        if features & (ELSEWHERE | !KNOWN) != 0 {
            return Err(pass.unsupported(format!("has features not known here ({features:#x})")));
        }
        let node_size = u64::from(field.u32(148));
        if !node_size.is_power_of_two() || !(NODE_MIN..=NODE_MAX).contains(&node_size) {
            return Err(pass.damaged("its nodes have an impossible size"));
        }
        let generation = field.u64(72);
        let pointer = |at, level, generation| Pointer {
            logical: field.u64(at),
            generation,
            level: field.u8(level),
        };
        let length = (field.u32(160) as usize).min(SYSTEM_CHUNKS_MAX);
        Ok(Superblock {
            generation,
            root: pointer(80, 198, Some(generation)),
            chunk_root: pointer(88, 199, Some(field.u64(164))),
            log_root: (field.u64(96) != 0).then(|| pointer(96, 200, None)),
            node_size,
            device: field.u64(201),
            has_sums: field.u16(196) == CRC32C,
            system_chunks: piece(field.0, SYSTEM_CHUNKS_AT, length).to_vec(),
        })
    }
}
