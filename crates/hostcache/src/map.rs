//! Map of a volume at an agent: the contents of its blocks, as far as the agent knows them.
//!
//! Leaves of 512 blocks exist where anything is known. Clones of an image share them until one
//! changes (4 B a block of the image, once a host). In addition, the map has the versions of blocks
//! that were written lately, so that it learns nothing from an answer or a push that is older.
//! Their number is bounded: when there are too many, they are dropped, and the map learns nothing
//! older than the newest of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

const LEAF_BLOCKS: usize = 512;
/// Version of a block whose write has not been answered.
const PENDING: u64 = u64::MAX;

pub(crate) type Leaf = Arc<[u32; LEAF_BLOCKS]>;

/// Content of a block, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    Zero,
    Content(u32),
}

impl Known {
    fn from_word(word: u32) -> Known {
        match word {
            0 => Known::Nothing,
            1 => Known::Zero,
            more => Known::Content(more - 2),
        }
    }

    fn word(self) -> u32 {
        match self {
            Known::Nothing => 0,
            Known::Zero => 1,
            Known::Content(content) => content + 2,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Map {
    leaves: Vec<Option<Leaf>>,
    written: BTreeMap<u32, u64>,
    /// Number of entries of `written` above which those that were answered are dropped.
    written_max: usize,
    /// Lowest version from which anything is learnt.
    oldest: u64,
}

impl Map {
    /// An empty map, which keeps the versions of `written_max` written blocks.
    pub(crate) fn new(blocks: u32, written_max: usize) -> Map {
        let leaves = (blocks as usize).div_ceil(LEAF_BLOCKS);
        Map { leaves: vec![None; leaves], written_max, ..Map::default() }
    }

    #[inline]
    pub(crate) fn get(&self, block: u32) -> Known {
        let leaf = self.leaves.get(block as usize / LEAF_BLOCKS);
        leaf.and_then(Option::as_ref)
            .map_or(Known::Nothing, |leaf| Known::from_word(leaf[block as usize % LEAF_BLOCKS]))
    }

    /// Sets the known content of a block. `refs` is called with each content whose number of
    /// references changes, and with the change. Each entry of a leaf is one reference.
    pub(crate) fn set(&mut self, block: u32, known: Known, mut refs: impl FnMut(u32, i32)) {
        let leaf = self.leaves[block as usize / LEAF_BLOCKS]
            .get_or_insert_with(|| Arc::new([0; LEAF_BLOCKS]));
        if Arc::get_mut(leaf).is_none() {
            met("a leaf of an image's map was copied");
            *leaf = Arc::new(**leaf);
            leaf.iter().for_each(|&word| {
                if let Known::Content(content) = Known::from_word(word) {
                    refs(content, 1);
                }
            });
        }
        let leaf = Arc::get_mut(leaf).expect("it is not shared");
        let word = std::mem::replace(&mut leaf[block as usize % LEAF_BLOCKS], known.word());
        if let Known::Content(content) = known {
            refs(content, 1);
        }
        if let Known::Content(content) = Known::from_word(word) {
            refs(content, -1);
        }
    }

    /// Takes over the leaves of an image's map, as far as both reach.
    pub(crate) fn take_leaves(&mut self, leaves: &[Option<Leaf>]) {
        for (own, leaf) in self.leaves.iter_mut().zip(leaves) {
            own.clone_from(leaf);
        }
    }

    pub(crate) fn leaves(&self) -> &[Option<Leaf>] {
        &self.leaves
    }

    /// Notes that a block is being written: nothing is learnt of it until that is answered.
    pub(crate) fn begin_write(&mut self, block: u32) {
        self.written.insert(block, PENDING);
    }

    /// Notes the version of a write that was answered.
    pub(crate) fn end_write(&mut self, block: u32, version: u64) {
        self.written.insert(block, version);
        if self.written.len() > self.written_max {
            met("versions of written blocks were dropped");
            // Answers come in any order: the last one is not always the newest.
            let dropped = self.written.values().filter(|&&version| version != PENDING).max();
            if !mutant("dropped_versions_are_forgotten") {
                self.oldest = self.oldest.max(dropped.copied().unwrap_or(0));
            }
            self.written.retain(|_, version| *version == PENDING);
        }
    }

    /// Forgets versions, because no older answer can come any more.
    pub(crate) fn settle(&mut self) {
        self.written.retain(|_, version| *version == PENDING);
        self.oldest = 0;
    }

    /// True if information of this version about a block is current.
    pub(crate) fn learns(&self, block: u32, version: u64) -> bool {
        if mutant("a_late_push_overtakes_a_write") {
            return true;
        }
        let newer = self.written.get(&block).is_some_and(|&written| written > version);
        if newer {
            met("an answer or a push was older than a write");
        }
        !newer && version >= self.oldest
    }

    /// Bytes of all leaves.
    pub(crate) fn shared_bytes(&self) -> u64 {
        (self.leaves.iter().flatten().count() * (LEAF_BLOCKS * 4 + 16)) as u64
    }

    /// Bytes of the leaves that are this volume's own, and of versions.
    pub(crate) fn bytes(&self) -> u64 {
        let own = self.leaves.iter().flatten().filter(|leaf| Arc::strong_count(leaf) == 1).count();
        let pointers = self.leaves.capacity() * 8;
        (own * (LEAF_BLOCKS * 4 + 16) + pointers + self.written.len() * 24) as u64
    }
}

/// Calls `refs` with −1 for every content in leaves that no other map shares.
pub(crate) fn drop_leaves(leaves: Vec<Option<Leaf>>, mut refs: impl FnMut(u32, i32)) {
    for leaf in leaves.into_iter().flatten() {
        let Ok(words) = Arc::try_unwrap(leaf) else { continue };
        for word in words {
            if let Known::Content(content) = Known::from_word(word) {
                refs(content, -1);
            }
        }
    }
}

impl Map {
    /// Gives up the leaves.
    pub(crate) fn into_leaves(self) -> Vec<Option<Leaf>> {
        self.leaves
    }
}
