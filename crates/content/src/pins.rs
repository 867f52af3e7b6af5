//! Blocks that are not swept although no map may name them.

use std::collections::BTreeMap;

/// Blocks with the number of their pins.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    counts: BTreeMap<u32, u32>,
}

impl Pins {
    /// Pins a block once more.
    pub(crate) fn pin(&mut self, number: u32) {
        *self.counts.entry(number).or_default() += 1;
    }

    /// Takes one pin of a block away.
    pub(crate) fn unpin(&mut self, number: u32) {
        let count = self.counts.get_mut(&number).expect("only what is pinned is unpinned");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&number);
        }
    }

    /// True if the block has a pin.
    pub(crate) fn holds(&self, number: u32) -> bool {
        self.counts.contains_key(&number)
    }

    /// Number of blocks that have pins.
    pub(crate) fn blocks(&self) -> u32 {
        self.counts.len() as u32
    }
}
