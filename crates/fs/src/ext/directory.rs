//! Names in directories of ext2/3/4.
//!
//! The blocks of a hashed directory need nothing of their own: the root of the hash tree hides
//! behind the entry `..`, and its other nodes behind an empty entry that fills the block.

use super::Volume;
use super::inode::Inode;
use super::map::Run;
use super::superblock::sum;
use crate::FsError;
use crate::blocks::READ_MAX;
use crate::field::{Little, piece, rest};
use crate::found::FileId;
use crate::pass::Pass;

/// The last entry of a block with a checksum: no inode, 12 bytes, and this where the type stands.
const TAIL_TYPE: u8 = 0xde;
const TAIL: usize = 12;
const NAME_MAX: usize = 255;

/// Says the names in the blocks of a directory.
pub(super) fn blocks(
    pass: &mut Pass<'_>,
    volume: &Volume,
    inode: Inode<'_>,
    runs: &[Run],
) -> Result<(), FsError> {
    let (size, seed) = (volume.head.block_size, inode.seed(&volume.head));
    let most = READ_MAX / size;
    let mut buffer = Vec::new();
    for run in runs.iter().filter(|run| !run.preallocated) {
        let mut done = 0;
        while done < run.count {
            let count = most.min(run.count - done);
            if !volume.read(pass, run.block + done, count, &mut buffer)? {
                break;
            }
            for block in buffer.chunks_exact(size as usize) {
                if is_whole(volume, seed, block) {
                    entries(pass, volume, inode.id(), block);
                } else {
                    pass.torn();
                }
            }
            done += count;
        }
    }
    Ok(())
}

/// Says the names of a directory that lies in its inode: the parent's number, then entries.
pub(super) fn inline(pass: &mut Pass<'_>, volume: &Volume, inode: Inode<'_>) {
    entries(pass, volume, inode.id(), inode.map().get(4..).unwrap_or_default());
    entries(pass, volume, inode.id(), inode.inline_rest());
}

/// True if a block's checksum is right. Nodes of a hash tree have no names, and theirs elsewhere:
/// what looks like one is from before the block was such a node.
fn is_whole(volume: &Volume, seed: u32, block: &[u8]) -> bool {
    let at = block.len().saturating_sub(TAIL);
    let tail = Little(piece(block, at, TAIL));
    let has_tail = tail.u32(0) == 0 && tail.u16(4) == TAIL as u16 && tail.u8(7) == TAIL_TYPE;
    let sums = volume.head.has_sums() && has_tail && !is_hash_node(block);
    !sums || sum(seed, piece(block, 0, at)) == tail.u32(8)
}

/// True if a block is the root of a hash tree, whose entry `..` reaches to the block's end, or
/// another of its nodes, which is one empty entry.
fn is_hash_node(block: &[u8]) -> bool {
    let (first, second) = (Little(block), Little(piece(block, 12, 8)));
    let reaches = |length: u16, whole: usize| usize::from(length) == whole & 0xffff;
    let is_root = first.u16(4) == 12 && reaches(second.u16(4), block.len() - 12);
    is_root || (first.u32(0) == 0 && reaches(first.u16(4), block.len()))
}

fn entries(pass: &mut Pass<'_>, volume: &Volume, directory: FileId, bytes: &[u8]) {
    let mut at = 0;
    while bytes.len() >= at + 8 {
        let entry = Little(rest(bytes, at));
        let length = match usize::from(entry.u16(4)) {
            0 | 0xffff if volume.head.block_size == 1 << 16 => 1 << 16,
            length => length & !3,
        };
        // Without the feature `filetype` the type byte is the upper half of the name's length.
        let named = usize::from(entry.u8(6)).min(NAME_MAX);
        if length < 8 || at + length > bytes.len() || 8 + named > length {
            if rest(bytes, at).iter().any(|byte| *byte != 0) {
                pass.torn();
            }
            return;
        }
        let inode = u64::from(entry.u32(0));
        if inode != 0 {
            let file = FileId { tree: 0, inode };
            pass.name(file, directory, piece(bytes, at + 8, named));
        }
        at += length;
    }
}
