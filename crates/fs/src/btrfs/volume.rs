//! A btrfs that is open: its chunks, the roots of its trees, and lookups in them.

use super::chunks::{Chunks, name_at};
use super::node::{Key, LEVEL_MAX, Node, kind};
use super::superblock::{Pointer, Superblock};
use super::teller::Teller;
use super::tree;
use crate::FsError;
use crate::field::Little;
use crate::found::{FileId, What};
use crate::pass::Pass;
use std::collections::{BTreeMap, BTreeSet};

/// The inode of a subvolume's root.
const ROOT_INODE: u64 = 256;
/// Most trees of a file system that are walked.
const TREES_MAX: usize = 1 << 20;

/// Action on an item.
type Each<'a> = dyn FnMut(&mut Pass<'_>, Key, &[u8]) -> Result<(), FsError> + 'a;

/// Facts that do not change during a run.
pub(super) struct Volume {
    pub(super) head: Superblock,
    pub(super) chunks: Chunks,
}

/// A tree as the root tree names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    pub(super) number: u64,
    pub(super) root: Pointer,
}

impl Volume {
    /// Reads the chunk tree.
    pub(super) fn open(pass: &mut Pass<'_>, head: Superblock) -> Result<Volume, FsError> {
        let system = Chunks::of_system(pass, head.device, &head.system_chunks)?;
        let (root, device) = (head.chunk_root, head.device);
        let mut volume = Volume { head, chunks: system };
        let mut named = Chunks::default();
        volume.read_all(pass, (root, What::ChunkTree), &mut |pass, key, item| match key.kind {
            kind::CHUNK => named.add(pass, device, (key.offset, item)),
            _ => Ok(()),
        })?;
        volume.chunks.extend(named);
        Ok(volume)
    }

    /// Reads the root tree and that of the log: every other tree, by its number.
    pub(super) fn trees(&self, pass: &mut Pass<'_>) -> Result<Vec<Tree>, FsError> {
        let mut trees = BTreeMap::new();
        self.read_all(pass, (self.head.root, What::RootTree), &mut |pass, key, item| {
            match key.kind {
                kind::ROOT => {
                    if let Some(root) = root_of(item) {
                        trees.insert((key.object, key.offset), root);
                    }
                }
                kind::ROOT_BACKREF => {
                    let file = FileId { tree: key.object, inode: ROOT_INODE };
                    let directory = FileId { tree: key.offset, inode: Little(item).u64(0) };
                    pass.name(file, directory, name_at(item, 16));
                }
                kind::EXTENT_DATA => self.space_cache(pass, item)?,
                _ => {}
            }
            match trees.len() > TREES_MAX {
                true => Err(FsError::TooMany { what: "trees of btrfs", most: TREES_MAX as u64 }),
                false => Ok(()),
            }
        })?;
        if let Some(log) = self.head.log_root {
            self.read_all(pass, (log, What::LogTree), &mut |_, key, item| {
                if let (kind::ROOT, Some(root)) = (key.kind, root_of(item)) {
                    trees.insert((tree::LOG, key.offset), root);
                }
                Ok(())
            })?;
        }
        // A subvolume's item has the snapshot's generation behind its number, which tells nothing.
        Ok(trees.into_iter().map(|((number, _), root)| Tree { number, root }).collect())
    }

    /// Extents in the root tree are those of the first version's cache of free space.
    fn space_cache(&self, pass: &mut Pass<'_>, item: &[u8]) -> Result<(), FsError> {
        let (logical, length) = (Little(item).u64(21), Little(item).u64(29));
        if Little(item).u8(20) == 0 || logical == 0 {
            return Ok(());
        }
        for place in self.chunks.places(logical, length) {
            pass.metadata(place, What::SpaceCache)?;
        }
        Ok(())
    }

    /// Says that a node is metadata, every copy of it.
    pub(super) fn say(
        &self,
        pass: &mut Pass<'_>,
        pointer: Pointer,
        what: What,
    ) -> Result<(), FsError> {
        let mut is_somewhere = false;
        for place in self.chunks.places(pointer.logical, self.head.node_size) {
            is_somewhere = true;
            pass.metadata(place, what)?;
        }
        if !is_somewhere {
            pass.torn();
        }
        Ok(())
    }

    /// Reads a whole tree and hands out its items.
    fn read_all(
        &self,
        pass: &mut Pass<'_>,
        (pointer, what): (Pointer, What),
        each: &mut Each<'_>,
    ) -> Result<(), FsError> {
        let Some(node) = Node::read(pass, (&self.head, &self.chunks), pointer)? else {
            return Ok(());
        };
        self.say(pass, pointer, what)?;
        if pointer.level > 0 {
            for (_, child) in node.children() {
                self.read_all(pass, (child, what), each)?;
            }
            return Ok(());
        }
        node.items().try_for_each(|(key, item)| each(pass, key, item))
    }

    /// Looks certain files of a tree up and tells each, or that it is gone.
    pub(super) fn tell_again(
        &self,
        pass: &mut Pass<'_>,
        (tree, root): (u64, Option<Pointer>),
        files: &BTreeSet<u64>,
    ) -> Result<(), FsError> {
        let (mut teller, torn) = (Teller::new(tree, true), pass.summary.torn);
        if let Some(root) = root {
            self.look_up(pass, (root, u64::MAX), files, &mut teller)?;
        }
        if pass.summary.torn == torn {
            for inode in files.difference(&teller.told) {
                pass.gone(FileId { tree, inode: *inode });
            }
        }
        Ok(())
    }

    /// Descends where items of the wanted files may be: below a node whose last key belongs to file
    /// `last` at most.
    fn look_up(
        &self,
        pass: &mut Pass<'_>,
        (pointer, last): (Pointer, u64),
        files: &BTreeSet<u64>,
        teller: &mut Teller,
    ) -> Result<(), FsError> {
        let Some(node) = Node::read(pass, (&self.head, &self.chunks), pointer)? else {
            return Ok(());
        };
        if pointer.level == 0 {
            for (key, item) in node.items().filter(|(key, _)| files.contains(&key.object)) {
                teller.item(pass, &self.chunks, (key, item));
            }
            return Ok(());
        }
        let children = node.children();
        for (index, (key, child)) in children.iter().enumerate() {
            let end = children.get(index + 1).map_or(last, |(next, _)| next.object);
            if key.object <= end && files.range(key.object..=end).next().is_some() {
                self.look_up(pass, (*child, end), files, teller)?;
            }
        }
        Ok(())
    }
}

/// The root that a root item names, unless its tree is being deleted.
fn root_of(item: &[u8]) -> Option<Pointer> {
    let field = Little(item);
    let (logical, references) = (field.u64(176), field.u32(216));
    let root = Pointer { logical, generation: Some(field.u64(160)), level: field.u8(238) };
    (logical != 0 && references > 0 && root.level <= LEVEL_MAX).then_some(root)
}
