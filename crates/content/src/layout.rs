//! Layout of a device: two superblocks, the journal, segments, and the superblocks' copies.
//!
//! ```text
//! 0         1         2                                               last − 1    last
//! | super 0 | super 1 | journal ring | segment 0 | segment 1 | … | -- | copy of 0 | copy of 1 |
//! ```
//! Addresses are numbers of blocks of 4 KiB from the device's start. A segment is slots for blocks,
//! and behind them its trailer; or slots for nodes of maps, without a trailer.

use crate::format::TRAILER_ENTRIES;
use crate::settings::{
    CLEANING_RESERVE, DEVICE_BLOCKS_MAX, JOURNAL_BLOCKS, MAP_RESERVE, SEGMENT_BLOCKS,
};

/// Blocks of superblocks at either end of the device.
const SUPERS: u64 = 2;
/// Smallest number of segments of a store.
pub(crate) const SEGMENTS_MIN: u32 = 12;

const _: () = {
    assert!(DEVICE_BLOCKS_MAX <= u32::MAX as u64, "addresses have 32 bits");
    assert!(CLEANING_RESERVE + MAP_RESERVE < SEGMENTS_MIN, "the smallest store can be written to");
    let mut segment = *SEGMENT_BLOCKS.start();
    while segment <= *SEGMENT_BLOCKS.end() {
        let slots = segment - trailer_blocks(segment);
        let entries = trailer_blocks(segment) * TRAILER_ENTRIES as u32;
        assert!(0 < slots && slots <= entries, "a segment's trailer has an entry for each slot");
        segment += 1;
    }
};

/// Blocks of the trailer of a segment of so many blocks.
const fn trailer_blocks(segment_blocks: u32) -> u32 {
    segment_blocks.div_ceil(TRAILER_ENTRIES as u32 + 1)
}

/// Sizes of a store's areas, in blocks of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) journal_blocks: u32,
    /// Trailer included.
    pub(crate) segment_blocks: u32,
    pub(crate) segments: u32,
    pub(crate) device_blocks: u64,
}

impl Layout {
    /// The layout of a device of `blocks` blocks; `None` when it is too small.
    pub(crate) fn of_device(blocks: u64, journal: u32, segment: u32) -> Option<Layout> {
        let blocks = blocks.min(DEVICE_BLOCKS_MAX);
        let room = blocks.checked_sub(2 * SUPERS + u64::from(journal))?;
        let segments = (room / u64::from(segment)) as u32;
        let layout = Layout {
            journal_blocks: journal,
            segment_blocks: segment,
            segments,
            device_blocks: blocks,
        };
        (segments >= SEGMENTS_MIN).then_some(layout)
    }

    /// The layout that a superblock states; `None` when the device cannot have it.
    pub(crate) fn found(
        journal_blocks: u32,
        segment_blocks: u32,
        segments: u32,
        device_blocks: u64,
    ) -> Option<Layout> {
        if !JOURNAL_BLOCKS.contains(&journal_blocks) || !SEGMENT_BLOCKS.contains(&segment_blocks) {
            return None;
        }
        let most = Layout::of_device(device_blocks, journal_blocks, segment_blocks)?;
        let fits = (SEGMENTS_MIN..=most.segments).contains(&segments);
        fits.then_some(Layout { segments, ..most })
    }

    /// Addresses of superblock `number` and of its copy.
    pub(crate) fn supers(&self, number: u64) -> [u64; 2] {
        let which = number % SUPERS;
        [which, self.device_blocks - SUPERS + which]
    }

    /// Address of block `sequence` of the journal.
    pub(crate) fn journal(&self, sequence: u64) -> u64 {
        SUPERS + sequence % u64::from(self.journal_blocks)
    }

    /// Address of the first slot of a segment.
    pub(crate) fn first_slot(&self, segment: u32) -> u32 {
        SUPERS as u32 + self.journal_blocks + segment * self.segment_blocks
    }

    /// Blocks of a segment's trailer.
    pub(crate) fn trailer_blocks(&self) -> u32 {
        trailer_blocks(self.segment_blocks)
    }

    /// Slots for blocks in a segment.
    pub(crate) fn slots(&self) -> u32 {
        self.segment_blocks - self.trailer_blocks()
    }

    /// Address of a segment's trailer.
    pub(crate) fn trailer(&self, segment: u32) -> u32 {
        self.first_slot(segment) + self.slots()
    }

    /// The segment that an address lies in.
    pub(crate) fn segment_of(&self, address: u32) -> Option<u32> {
        let at = address.checked_sub(SUPERS as u32 + self.journal_blocks)?;
        Some(at / self.segment_blocks).filter(|&segment| segment < self.segments)
    }

    /// The slot of an address within its segment; slots from [`Layout::slots`] on are the
    /// trailer's.
    pub(crate) fn slot_of(&self, address: u32) -> u32 {
        (address - SUPERS as u32 - self.journal_blocks) % self.segment_blocks
    }

    /// True if a block may lie at this address.
    pub(crate) fn is_slot(&self, address: u32) -> bool {
        self.segment_of(address).is_some() && self.slot_of(address) < self.slots()
    }
}
