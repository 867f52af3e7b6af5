//! Nodes of btrfs's trees: reading one copy that is whole, and what it points at or holds.

use super::chunks::Chunks;
use super::superblock::{Pointer, Superblock, is_whole};
use crate::FsError;
use crate::field::{Little, piece, rest};
use crate::pass::Pass;

/// Levels above a leaf that a tree can have.
pub(super) const LEVEL_MAX: u8 = 7;
const HEAD: usize = 101;
const POINTER: usize = 33;
const ITEM: usize = 25;

/// Key by which items are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) object: u64,
    pub(super) kind: u8,
    pub(super) offset: u64,
}

impl Key {
    pub(super) const SIZE: usize = 17;

    pub(super) fn parse(bytes: &[u8]) -> Key {
        let field = Little(bytes);
        Key { object: field.u64(0), kind: field.u8(8), offset: field.u64(9) }
    }
}

/// Kinds of items.
pub(super) mod kind {
    pub(crate) const INODE: u8 = 1;
    pub(crate) const INODE_REF: u8 = 12;
    pub(crate) const INODE_EXTREF: u8 = 13;
    pub(crate) const EXTENT_DATA: u8 = 108;
    pub(crate) const ROOT: u8 = 132;
    pub(crate) const ROOT_BACKREF: u8 = 144;
    pub(crate) const CHUNK: u8 = 228;
}

/// A node's bytes, whose count of entries fits into them. In a leaf no two items share a byte: each
/// ends where the one before begins, the first at the end of the leaf. So all items of a leaf
/// together are no longer than the leaf.
pub(super) struct Node(Vec<u8>);

impl Node {
    /// Reads the first copy that is whole and is what the pointer says; otherwise torn and `None`.
    pub(super) fn read(
        pass: &mut Pass<'_>,
        (head, chunks): (&Superblock, &Chunks),
        pointer: Pointer,
    ) -> Result<Option<Node>, FsError> {
        let mut bytes = Vec::new();
        for place in chunks.places(pointer.logical, head.node_size) {
            let read = pass.read(place.start, head.node_size, &mut bytes)?;
            if read && fits(&bytes, head, pointer) {
                return Ok(Some(Node(bytes)));
            }
        }
        pass.torn();
        Ok(None)
    }

    fn count(&self) -> usize {
        Little(&self.0).u32(96) as usize
    }

    /// An inner node's children with the first key of each.
    pub(super) fn children(&self) -> Vec<(Key, Pointer)> {
        let level = Little(&self.0).u8(100).saturating_sub(1);
        let entries = rest(&self.0, HEAD).chunks_exact(POINTER).take(self.count());
        let child = |entry: &[u8]| {
            let field = Little(entry);
            let generation = Some(field.u64(25));
            (Key::parse(entry), Pointer { logical: field.u64(17), generation, level })
        };
        entries.map(child).collect()
    }

    /// A leaf's items.
    pub(super) fn items(&self) -> impl Iterator<Item = (Key, &[u8])> {
        let body = rest(&self.0, HEAD);
        let entries = body.chunks_exact(ITEM).take(self.count());
        entries.map(move |entry| {
            let (at, size) = place(entry);
            (Key::parse(entry), piece(body, at, size))
        })
    }
}

/// Place of an item's bytes behind the leaf's head: offset and length.
fn place(entry: &[u8]) -> (usize, usize) {
    let field = Little(entry);
    (field.u32(17) as usize, field.u32(21) as usize)
}

/// True if the bytes of a leaf's items lie one before the other, from the end of the leaf down to
/// its table of items at most. The kernel takes no other leaf.
fn is_laid_out(body: &[u8], count: usize) -> bool {
    let mut end = body.len();
    for entry in body.chunks_exact(ITEM).take(count) {
        let (at, size) = place(entry);
        if at.checked_add(size) != Some(end) {
            return false;
        }
        end = at;
    }
    end >= count * ITEM
}

fn fits(bytes: &[u8], head: &Superblock, pointer: Pointer) -> bool {
    let field = Little(bytes);
    let size = if pointer.level == 0 { ITEM } else { POINTER };
    let (body, count) = (rest(bytes, HEAD), field.u32(96) as usize);
    field.u64(48) == pointer.logical
        && pointer.generation.is_none_or(|generation| generation == field.u64(80))
        && field.u8(100) == pointer.level
        && pointer.level <= LEVEL_MAX
        && count <= body.len() / size
        && (pointer.level > 0 || is_laid_out(body, count))
        && (!head.has_sums || is_whole(bytes))
}
