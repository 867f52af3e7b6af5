//! Names in directories of XFS (version 2 of their format): short ones in the inode, others in
//! blocks.
//!
//! Blocks of names come first in a directory; behind 32 GiB of its address space stand hashes and
//! free space, in which there are no names. An entry: inode 8 B, length 1 B, name, type 1 B where
//! the file system has it, padding, its own place 2 B; all in multiples of 8 B.

use super::Volume;
use super::map::Run;
use super::superblock::is_whole;
use crate::FsError;
use crate::field::{Big, piece};
use crate::found::FileId;
use crate::pass::Pass;

/// Offset of hashes in a directory's address space.
const HASHES: u64 = 32 << 30;
const SUM_AT: usize = 4;
const OWNER_AT: usize = 40;
const UNUSED: u16 = 0xffff;

/// Says the names of a directory that lies in its inode.
pub(super) fn short(pass: &mut Pass<'_>, volume: &Volume, (directory, fork): (FileId, &[u8])) {
    let field = Big(fork);
    let width = if field.u8(1) > 0 { 8 } else { 4 };
    let extra = usize::from(volume.head.has_ftype);
    let mut at = 2 + width;
    for _ in 0..field.u8(0) {
        let length = usize::from(field.u8(at));
        let (name, number) = (piece(fork, at + 3, length), at + 3 + length + extra);
        if length == 0 || number + width > fork.len() {
            return pass.torn();
        }
        let inode = match width {
            8 => field.u64(number),
            _ => u64::from(field.u32(number)),
        };
        pass.name(FileId { tree: 0, inode }, directory, name);
        at = number + width;
    }
}

/// Says the names in the blocks of a directory. `runs` are in the order of the directory.
pub(super) fn blocks(
    pass: &mut Pass<'_>,
    volume: &Volume,
    (directory, runs): (FileId, &[Run]),
) -> Result<(), FsError> {
    let head = &volume.head;
    let end = HASHES / head.block_size;
    let whole = (head.directory_blocks * head.block_size) as usize;
    let (mut bytes, mut block) = (Vec::new(), Vec::new());
    let mut expected = 0;
    for run in runs.iter().filter(|run| run.logical < end) {
        for step in 0..run.count {
            let logical = run.logical.saturating_add(step);
            // A block of the directory may be several of the file system, and not side by side.
            if logical != expected || logical.is_multiple_of(head.directory_blocks) {
                bytes.clear();
            }
            expected = logical + 1;
            let range = head.bytes(run.address.saturating_add(step), 1);
            if !pass.read(range.start, range.end - range.start, &mut block)? {
                return Ok(());
            }
            bytes.extend_from_slice(&block);
            if bytes.len() == whole {
                entries(pass, volume, (directory, &bytes));
                bytes.clear();
            }
        }
    }
    Ok(())
}

fn entries(pass: &mut Pass<'_>, volume: &Volume, (directory, bytes): (FileId, &[u8])) {
    let head = &volume.head;
    let (is_single, front) = match piece(bytes, 0, 4) {
        b"XD2D" if !head.is_v5 => (false, 16),
        b"XD2B" if !head.is_v5 => (true, 16),
        b"XDD3" if head.is_v5 => (false, 64),
        b"XDB3" if head.is_v5 => (true, 64),
        _ => return pass.torn(),
    };
    let is_ours = || Big(bytes).u64(OWNER_AT) == directory.inode && is_whole(bytes, SUM_AT);
    if head.is_v5 && !is_ours() {
        return pass.torn();
    }
    // A directory of one block has its hashes at the block's end.
    let hashes = if is_single { 8 + Big(bytes).u32(bytes.len() - 8) as usize * 8 } else { 0 };
    let Some(end) = bytes.len().checked_sub(hashes) else { return pass.torn() };
    let extra = usize::from(head.has_ftype);
    let mut at = front;
    while at + 8 <= end {
        let entry = Big(piece(bytes, at, end - at));
        if entry.u16(0) == UNUSED {
            let length = usize::from(entry.u16(2));
            if length == 0 || length % 8 != 0 {
                return pass.torn();
            }
            at += length;
            continue;
        }
        let length = usize::from(entry.u8(8));
        let size = (8 + 1 + length + extra + 2).next_multiple_of(8);
        if length == 0 || at + size > end {
            return pass.torn();
        }
        let inode = entry.u64(0);
        pass.name(FileId { tree: 0, inode }, directory, piece(bytes, at + 9, length));
        at += size;
    }
}
