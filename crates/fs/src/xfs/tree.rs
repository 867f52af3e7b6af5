//! The trees of an allocation group: free space, inodes, owners, sharing.
//!
//! All of them are B+-trees of blocks of one group. Only the tree of inodes is read down to its
//! leaves; of the others the inner nodes suffice, because they say where the leaves are. The level
//! of a node must be one below its parent's, so that no tree loops.

use super::Volume;
use super::superblock::is_whole;
use crate::FsError;
use crate::field::{Big, rest};
use crate::found::What;
use crate::pass::Pass;

/// The highest tree that is walked; XFS makes nine levels at most.
const LEVELS_MAX: u32 = 9;
const POINTER: usize = 4;
const SUM_AT: usize = 52;

/// One kind of tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The magic numbers of versions 4 and 5.
    magic: [&'static [u8; 4]; 2],
    /// Bytes of a key in inner nodes.
    key: usize,
    what: What,
}

pub(super) const BY_BLOCK: Shape =
    Shape { magic: [b"ABTB", b"AB3B"], key: 8, what: What::FreeSpaceTree };
pub(super) const BY_COUNT: Shape =
    Shape { magic: [b"ABTC", b"AB3C"], key: 8, what: What::FreeSpaceTree };
pub(super) const INODES: Shape = Shape { magic: [b"IABT", b"IAB3"], key: 4, what: What::InodeTree };
pub(super) const FREE_INODES: Shape =
    Shape { magic: [b"FIBT", b"FIB3"], key: 4, what: What::InodeTree };
pub(super) const OWNERS: Shape =
    Shape { magic: [b"RMAP", b"RMB3"], key: 40, what: What::ExtentTree };
pub(super) const SHARING: Shape =
    Shape { magic: [b"R3FC", b"R3FC"], key: 4, what: What::ExtentTree };

/// Root of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Root {
    pub(super) group: u64,
    pub(super) block: u64,
    /// Number of levels, a leaf counted.
    pub(super) levels: u32,
}

/// Action on the records of a leaf.
pub(super) type Each<'a> = dyn FnMut(&mut Pass<'_>, &[u8]) -> Result<(), FsError> + 'a;

/// Says where a tree's nodes are, and hands the records of its leaves, all in one slice each, to
/// `each` when it is given.
pub(super) fn walk(
    pass: &mut Pass<'_>,
    volume: &Volume,
    (shape, root): (Shape, Root),
    each: &mut Option<&mut Each<'_>>,
) -> Result<(), FsError> {
    if !(1..=LEVELS_MAX).contains(&root.levels) {
        pass.torn();
        return Ok(());
    }
    node(pass, volume, (shape, root.group), (root.block, root.levels - 1), each)
}

fn node(
    pass: &mut Pass<'_>,
    volume: &Volume,
    (shape, group): (Shape, u64),
    (block, level): (u64, u32),
    each: &mut Option<&mut Each<'_>>,
) -> Result<(), FsError> {
    let head = &volume.head;
    let range = head.group_bytes(group, block, 1);
    pass.metadata(range.clone(), shape.what)?;
    if level == 0 && each.is_none() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    if !pass.read(range.start, range.end - range.start, &mut bytes)? {
        return Ok(());
    }
    let (field, front) = (Big(&bytes), if head.is_v5 { 56 } else { 16 });
    let [old, v5] = shape.magic;
    let magic = if head.is_v5 { v5 } else { old };
    let (count, body) = (usize::from(field.u16(6)), rest(&bytes, front));
    let whole = bytes.starts_with(magic)
        && u32::from(field.u16(4)) == level
        && (!head.is_v5 || (u64::from(field.u32(48)) == group && is_whole(&bytes, SUM_AT)));
    if !whole {
        pass.torn();
        return Ok(());
    }
    if level == 0 {
        let size = RECORD.min(body.len());
        let records = body.get(..count * size).unwrap_or(body);
        return match each {
            Some(each) => each(pass, records),
            None => Ok(()),
        };
    }
    let most = body.len() / (shape.key + POINTER);
    let pointers = rest(body, most * shape.key);
    for pointer in pointers.chunks_exact(POINTER).take(count.min(most)) {
        let below = u64::from(Big(pointer).u32(0));
        node(pass, volume, (shape, group), (below, level - 1), each)?;
    }
    Ok(())
}

/// Bytes of a record in the tree of inodes, the only one whose leaves are read.
pub(super) const RECORD: usize = 16;
