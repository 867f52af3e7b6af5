//! Memory of full hashes: writing a block whose hash is remembered again needs no read.
//!
//! Direct-mapped by number. An entry counts only for the generation under which it was made.

use crate::blocks::Blocks;
use crate::name::ContentId;

/// A block whose full hash is remembered.
#[derive(Debug, Clone, Copy)]
struct Entry {
    number: u32,
    generation: u32,
    content: ContentId,
}

/// Full hashes of some blocks.
#[derive(Debug)]
pub(crate) struct Known {
    entries: Vec<Option<Entry>>,
}

impl Known {
    /// Room for so many blocks, a power of two.
    pub(crate) fn new(blocks: u32) -> Known {
        assert!(blocks.is_power_of_two(), "a mask finds the entry");
        Known { entries: vec![None; blocks as usize] }
    }

    fn at(&self, number: u32) -> usize {
        number as usize & (self.entries.len() - 1)
    }

    /// Remembers the hash of a stored block.
    pub(crate) fn remember(&mut self, blocks: &Blocks, number: u32, content: ContentId) {
        let (at, generation) = (self.at(number), blocks.entry(number).generation);
        self.entries[at] = Some(Entry { number, generation, content });
    }

    /// The hash of a stored block, if it is remembered.
    pub(crate) fn recall(&self, blocks: &Blocks, number: u32) -> Option<ContentId> {
        let known = self.entries[self.at(number)]?;
        let is_it = known.number == number && known.generation == blocks.entry(number).generation;
        is_it.then_some(known.content)
    }

    /// Forgets the hash of a number.
    pub(crate) fn forget(&mut self, number: u32) {
        let at = self.at(number);
        if self.entries[at].is_some_and(|known| known.number == number) {
            self.entries[at] = None;
        }
    }
}
