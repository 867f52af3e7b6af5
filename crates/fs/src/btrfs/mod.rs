//! The reader of btrfs, one device.
//!
//! 1. The superblock; when its generation is that of the last run, nothing has changed.
//! 2. The chunk tree, for the map from logical addresses to the device, and the root tree, for the
//!    roots of all others and the names of subvolumes. Both are small, and read whole each time.
//! 3. The other trees from their roots. A node is known again by its address and generation: since
//!    nodes are never changed in place, everything below it is as it was, and is not read. Of trees
//!    that hold no files, leaves are never read: their parents say where they are.
//! 4. Leaves of file trees say inodes, names and extents. A node that an earlier tree of the same
//!    run had (snapshots share them) is said once, for the first owner, and counted.
//! 5. Nodes of the last run that no tree has any more are taken back. Files that had items in them,
//!    or in nodes that went over to another tree, or whose items were seen in part, are looked up
//!    and told again, or are gone.
//!
//! A second run reads the superblock when nothing changed; otherwise the two small trees, and the
//! changed nodes, which are about one for each level on the way to every changed leaf. Since a leaf
//! is written as a whole, its unchanged files are told again with the changed ones.
//!
//! Limits: one device; checksums other than CRC-32C are not verified (a node must still say its own
//! address, generation and level); items in the log tree are not applied, so what was synced after
//! the last commit, at most 30 s, is seen with the next one. Of an extent of which a file uses a
//! part, that part is said; the rest stays allocated and unsaid until it is freed. State: about 100
//! B a node of 16 KiB and 8 B a file.

mod chunks;
mod node;
mod superblock;
mod teller;
mod volume;

use crate::FsError;
use crate::found::What;
use crate::pass::Pass;
use node::Node;
use std::collections::{BTreeMap, BTreeSet};
use superblock::{Pointer, Superblock};
use teller::Teller;
use volume::Volume;

/// Trees by their numbers.
mod tree {
    pub(super) const EXTENTS: u64 = 2;
    pub(super) const FILES: u64 = 5;
    pub(super) const CHECKSUMS: u64 = 7;
    pub(super) const QUOTA: u64 = 8;
    pub(super) const FREE_SPACE: u64 = 10;
    /// Subvolumes are numbered from here.
    pub(super) const FIRST: u64 = 256;
    /// Up to here; numbers above are the file system's own.
    pub(super) const LAST: u64 = u64::MAX - 255;
    /// Data that is being moved; a file tree too.
    pub(super) const DATA_RELOCATION: u64 = u64::MAX - 8;
    pub(super) const LOG: u64 = u64::MAX - 5;
}

/// A node as it was last seen.
#[derive(Debug)]
struct Known {
    generation: Option<u64>,
    /// The tree that had it first.
    owner: u64,
    /// Run in which it was last reached.
    run: u32,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Children(Box<[Pointer]>),
    /// The files with items in it.
    Files(Box<[u64]>),
}

/// State kept between runs.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    nodes: BTreeMap<u64, Known>,
    /// Files, each behind its tree, of leaves that have another owner now, or that another node was
    /// written over; since the last run in which nothing was torn.
    let_go: BTreeSet<(u64, u64)>,
    /// The superblock's generation and log of the last run in which nothing was torn.
    last: Option<(u64, Option<u64>)>,
}

fn holds_files(tree: u64) -> bool {
    tree == tree::FILES
        || (tree::FIRST..=tree::LAST).contains(&tree)
        || tree == tree::DATA_RELOCATION
}

/// True if an object of a file tree is a file; others are notes, on orphans and the like.
fn is_file(object: u64) -> bool {
    (tree::FIRST..=tree::LAST).contains(&object)
}

fn what_of(tree: u64) -> What {
    match tree {
        tree if holds_files(tree) => What::FileTree,
        tree::EXTENTS => What::ExtentTree,
        tree::CHECKSUMS => What::ChecksumTree,
        tree::QUOTA => What::Quota,
        tree::FREE_SPACE => What::FreeSpaceTree,
        tree::LOG => What::LogTree,
        _ => What::OtherTree,
    }
}

impl Reader {
    pub(crate) fn run(&mut self, pass: &mut Pass<'_>) -> Result<(), FsError> {
        let head = Superblock::read(pass, &mut Vec::new())?;
        let now = (head.generation, head.log_root.map(|log| log.logical));
        if self.last.take() == Some(now) && pass.summary.torn == 0 {
            self.last = Some(now);
            pass.summary.unchanged = self.nodes.len() as u64;
            return Ok(());
        }
        let volume = Volume::open(pass, head)?;
        let trees = volume.trees(pass)?;
        let mut tellers = BTreeMap::new();
        for tree in &trees {
            let mut teller = Teller::new(tree.number, pass.run > 1);
            self.visit(pass, &volume, (tree.number, tree.root), &mut teller)?;
            if holds_files(tree.number) {
                tellers.insert(tree.number, teller);
            }
        }
        let mut again = self.stale(pass, &mut tellers);
        for (number, teller) in tellers {
            again.entry(number).or_default().extend(teller.partial);
        }
        for (number, files) in again.into_iter().filter(|(_, files)| !files.is_empty()) {
            let root = trees.iter().find(|tree| tree.number == number).map(|tree| tree.root);
            volume.tell_again(pass, (number, root), &files)?;
        }
        if pass.summary.torn == 0 {
            pass.sweep_metadata();
            self.last = Some(now);
        }
        Ok(())
    }

    /// Takes out what no tree reached in this run, and what trees let go of: the files that had
    /// items there and were not told since, by tree. Nothing after a run in which something was
    /// torn: it may hide behind that.
    fn stale(
        &mut self,
        pass: &Pass<'_>,
        tellers: &mut BTreeMap<u64, Teller>,
    ) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut files: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        if pass.summary.torn > 0 {
            return files;
        }
        let mut left = std::mem::take(&mut self.let_go);
        for (_, node) in self.nodes.extract_if(.., |_, node| node.run != pass.run) {
            if let Body::Files(numbers) = node.body {
                left.extend(numbers.into_iter().map(|number| (node.owner, number)));
            }
        }
        for (owner, number) in left {
            let told = tellers.get(&owner).is_some_and(|teller| teller.told.contains(&number));
            if !told {
                files.entry(owner).or_default().insert(number);
            }
        }
        files
    }

    /// Walks down from a node, through what is known in memory and through the rest on the volume.
    fn visit(
        &mut self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        (tree, pointer): (u64, Pointer),
        teller: &mut Teller,
    ) -> Result<(), FsError> {
        let known = self.nodes.get_mut(&pointer.logical);
        if let Some(node) = known.filter(|node| node.generation == pointer.generation) {
            if node.run == pass.run {
                pass.summary.shared += 1;
                teller.gap();
                return Ok(());
            }
            let children = match &node.body {
                Body::Children(children) => Some(children.clone()),
                Body::Files(_) if node.owner == tree => Some(Box::default()),
                Body::Files(_) => None, // its tree let go of it, and this one has it still
            };
            if let Some(children) = children {
                node.run = pass.run;
                pass.summary.unchanged += 1;
                volume.say(pass, pointer, what_of(tree))?;
                if children.is_empty() {
                    teller.gap();
                }
                for child in children {
                    self.visit(pass, volume, (tree, child), teller)?;
                }
                return Ok(());
            }
        }
        if pointer.level == 0 && !holds_files(tree) {
            return volume.say(pass, pointer, what_of(tree));
        }
        let Some(node) = Node::read(pass, (&volume.head, &volume.chunks), pointer)? else {
            teller.gap();
            return Ok(());
        };
        volume.say(pass, pointer, what_of(tree))?;
        if pointer.level > 0 {
            let children: Box<[Pointer]> = node.children().into_iter().map(|(_, to)| to).collect();
            self.remember(pass, (tree, pointer), Body::Children(children.clone()))?;
            for child in children {
                self.visit(pass, volume, (tree, child), teller)?;
            }
            return Ok(());
        }
        let objects = node.items().map(|(key, _)| key.object);
        let mut files: Vec<u64> = objects.filter(|number| is_file(*number)).collect();
        files.dedup();
        self.remember(pass, (tree, pointer), Body::Files(files.into()))?;
        for item in node.items() {
            teller.item(pass, &volume.chunks, item);
        }
        Ok(())
    }

    fn remember(
        &mut self,
        pass: &Pass<'_>,
        (tree, pointer): (u64, Pointer),
        body: Body,
    ) -> Result<(), FsError> {
        let files = pass.summary.files + pass.summary.directories + pass.summary.others;
        if self.let_go.len() as u64 > pass.limits.files {
            // Nothing but a beginning gets rid of them while a node stays torn.
            *self = Reader::default();
            return Err(FsError::TooMany { what: "files", most: pass.limits.files });
        }
        if files > pass.limits.files {
            return Err(FsError::TooMany { what: "files", most: pass.limits.files });
        }
        let known = Known { generation: pointer.generation, owner: tree, run: pass.run, body };
        let before = self.nodes.insert(pointer.logical, known);
        if let Some(Known { owner, body: Body::Files(files), .. }) = before {
            self.let_go.extend(files.into_iter().map(|number| (owner, number)));
        }
        Ok(())
    }
}
