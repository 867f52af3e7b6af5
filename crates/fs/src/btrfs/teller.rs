//! From items of a file tree to statements about files.
//!
//! A file's items are neighbours in the order of keys: the inode, its names, its extents; they may
//! lie in several leaves. Leaves that did not change are not read, so a file may be seen in part:
//! then it is noted, and told whole afterwards.

use super::chunks::{Chunks, name_at};
use super::is_file;
use super::node::{Key, kind};
use crate::field::{Little, rest};
use crate::found::{File, FileId, FileKind, State};
use crate::pass::Pass;
use std::collections::BTreeSet;
use thermocline_units::Bytes;

const INODE_SIZE: usize = 160;
const EXTENT_SIZE: usize = 53;

/// Speaks about the files of one tree, whose items come in the order of their keys.
pub(super) struct Teller {
    tree: u64,
    /// The file at hand, whose inode was seen.
    at_hand: Option<u64>,
    /// True if leaves were left out just before.
    after_gap: bool,
    /// Files that were seen in part.
    pub(super) partial: BTreeSet<u64>,
    /// Files that were told; kept from the second run on, when they are few.
    pub(super) told: BTreeSet<u64>,
    keeps_told: bool,
}

impl Teller {
    pub(super) fn new(tree: u64, keeps_told: bool) -> Teller {
        Teller {
            tree,
            at_hand: None,
            after_gap: false,
            partial: BTreeSet::new(),
            told: BTreeSet::new(),
            keeps_told,
        }
    }

    /// Leaves are left out here.
    pub(super) fn gap(&mut self) {
        self.partial.extend(self.at_hand.take());
        self.after_gap = true;
    }

    fn id(&self, inode: u64) -> FileId {
        FileId { tree: self.tree, inode }
    }

    /// The next item.
    pub(super) fn item(&mut self, pass: &mut Pass<'_>, chunks: &Chunks, (key, item): (Key, &[u8])) {
        let after_gap = std::mem::take(&mut self.after_gap);
        if after_gap && key.kind > kind::INODE && is_file(key.object) {
            self.partial.insert(key.object);
        }
        if self.at_hand.is_some_and(|inode| inode != key.object) {
            self.at_hand = None;
        }
        match key.kind {
            kind::INODE => self.inode(pass, key.object, item),
            _ if self.at_hand.is_none() => {}
            kind::INODE_REF => self.names(pass, key.object, (Some(key.offset), item)),
            kind::INODE_EXTREF => self.names(pass, key.object, (None, item)),
            kind::EXTENT_DATA => self.extent(pass, chunks, (key, item)),
            _ => {}
        }
    }

    fn inode(&mut self, pass: &mut Pass<'_>, inode: u64, item: &[u8]) {
        let field = Little(item);
        if item.len() < INODE_SIZE {
            return pass.torn();
        }
        if field.u32(40) == 0 {
            return; // unlinked while open: it is cleaned away soon
        }
        self.at_hand = Some(inode);
        if self.keeps_told {
            self.told.insert(inode);
        }
        pass.file(File {
            id: self.id(inode),
            kind: FileKind::of_mode(field.u32(52)),
            size: Bytes(field.u64(16)),
            modified_s: field.u64(136) as i64,
        });
    }

    /// Names in one directory, or each with its directory.
    fn names(&self, pass: &mut Pass<'_>, inode: u64, (directory, item): (Option<u64>, &[u8])) {
        let mut left = item;
        let length_at = if directory.is_some() { 8 } else { 16 };
        while left.len() > length_at + 2 {
            let name = name_at(left, length_at);
            if name.is_empty() {
                return pass.torn();
            }
            let parent = directory.unwrap_or_else(|| Little(left).u64(0));
            pass.name(self.id(inode), self.id(parent), name);
            left = rest(left, length_at + 2 + name.len());
        }
    }

    fn extent(&self, pass: &mut Pass<'_>, chunks: &Chunks, (key, item): (Key, &[u8])) {
        const INLINE: u8 = 0;
        const PREALLOCATED: u8 = 2;
        let field = Little(item);
        let (how, compression, logical) = (field.u8(20), field.u8(16), field.u64(21));
        if how == INLINE {
            return; // its bytes are the leaf's
        }
        if item.len() < EXTENT_SIZE || how > PREALLOCATED {
            return pass.torn();
        }
        if logical == 0 {
            return; // a hole
        }
        let (on_disk, offset, length) = (field.u64(29), field.u64(37), field.u64(45));
        let (from, length, state) = if compression != 0 {
            (logical, on_disk, State::Compressed)
        } else {
            let state = if how == PREALLOCATED { State::Preallocated } else { State::Written };
            (logical.saturating_add(offset), length, state)
        };
        let mut is_somewhere = false;
        for place in chunks.places(from, length) {
            is_somewhere = true;
            pass.extent(self.id(key.object), key.offset, place, state);
        }
        if !is_somewhere {
            pass.torn();
        }
    }
}
