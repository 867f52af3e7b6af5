//! Writes to an extent that are not in the bucket yet: blocks of 4 KiB, sector by sector.
//!
//! A layer lies over a generation of the extent: sectors that it does not have are the
//! generation's, or zeroes once the extent was dropped. State: 4 KiB and 40 B a block touched.

use super::format::BLOCK;
use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_ports::{Payload, SECTOR};

/// Sectors of a block.
const SECTORS: u32 = BLOCK / SECTOR;
const WHOLE: u8 = u8::MAX;

const _: () = assert!(SECTORS == u8::BITS, "a bit a sector");

#[derive(Debug, Clone)]
struct Block {
    bytes: Box<[u8; BLOCK as usize]>,
    /// Bits of the sectors that were written.
    sectors: u8,
}

/// Blocks written to an extent that are not in the bucket yet, sector by sector.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer {
    /// True if everything below reads as zeroes.
    dropped: bool,
    blocks: BTreeMap<u32, Block>,
}

/// The sectors of `block` that lie in a range of an extent's bytes, as bits.
fn sectors_in(block: u32, range: &Range<u32>) -> u8 {
    let start = u64::from(block) * u64::from(BLOCK);
    let within = |at: u32| u64::from(at).saturating_sub(start).min(u64::from(BLOCK)) as u32;
    let (from, to) = (within(range.start) / SECTOR, within(range.end).div_ceil(SECTOR));
    ((1u16 << to) - (1u16 << from)) as u8
}

/// The blocks that a range of an extent's bytes touches.
pub(super) fn blocks_of(range: &Range<u32>) -> Range<u32> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}

impl Layer {
    pub(super) fn is_empty(&self) -> bool {
        !self.dropped && self.blocks.is_empty()
    }

    /// True if it is nothing but zeroes.
    pub(super) fn is_bare_drop(&self) -> bool {
        self.dropped && self.blocks.is_empty()
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// Blocks that take memory.
    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Everything is zeroes from now on.
    pub(super) fn drop_all(&mut self) {
        self.blocks.clear();
        self.dropped = true;
    }

    /// Takes `data`, which begins at byte `at` of the extent.
    pub(super) fn write(&mut self, at: u32, data: &Payload) {
        let range = at..at + data.len();
        for number in blocks_of(&range) {
            let sectors = sectors_in(number, &range);
            let start = number * BLOCK;
            let part = range.start.max(start)..range.end.min(start.saturating_add(BLOCK));
            let block = self
                .blocks
                .entry(number)
                .or_insert_with(|| Block { bytes: Box::new([0; BLOCK as usize]), sectors: 0 });
            block.sectors |= sectors;
            let into = (part.start - start) as usize..(part.end - start) as usize;
            data.slice(part.start - at..part.end - at).copy_to(&mut block.bytes[into]);
        }
    }

    /// Copies what the layer has of `range` into `out`, where `missing` says it is missing, and
    /// takes it out of that: a bit a sector, by block, from the range's first.
    pub(super) fn fill(&self, range: &Range<u32>, out: &mut [u8], missing: &mut [u8]) {
        let blocks = blocks_of(range);
        for (number, block) in self.blocks.range(blocks.clone()) {
            let missing = &mut missing[(number - blocks.start) as usize];
            let taken = *missing & block.sectors;
            *missing &= !block.sectors;
            for sector in (0..SECTORS).filter(|sector| taken & (1 << sector) != 0) {
                let at = number * BLOCK + sector * SECTOR;
                let from = (sector * SECTOR) as usize;
                let into = (at - range.start) as usize;
                out[into..into + SECTOR as usize]
                    .copy_from_slice(&block.bytes[from..from + SECTOR as usize]);
            }
        }
        if self.dropped {
            missing.fill(0); // `out` began as zeroes.
        }
    }

    /// This layer over an older one.
    pub(super) fn over(mut self, mut below: Layer) -> Layer {
        if self.dropped {
            return self;
        }
        for (number, block) in std::mem::take(&mut self.blocks) {
            let bytes = Payload::from(block.bytes.to_vec());
            for sector in (0..SECTORS).filter(|sector| block.sectors & (1 << sector) != 0) {
                let from = sector * SECTOR;
                below.write(number * BLOCK + from, &bytes.slice(from..from + SECTOR));
            }
        }
        below
    }

    /// True if nothing of an extent of `length` bytes is needed from below.
    pub(super) fn covers(&self, length: u32) -> bool {
        self.dropped
            || missing_in(&(0..length)).len() == self.blocks.len() && {
                let whole = missing_in(&(0..length));
                (0..).zip(whole).all(|(number, sectors)| {
                    self.blocks.get(&number).is_some_and(|block| block.sectors & sectors == sectors)
                })
            }
    }
}

/// The sectors of a range, all of them missing: a bit each, by block.
pub(super) fn missing_in(range: &Range<u32>) -> Vec<u8> {
    blocks_of(range).map(|number| sectors_in(number, range)).collect()
}

/// The blocks from the first to the last with missing sectors, counted from the extent's start;
/// `first` is the number of the first entry. None when nothing is missing.
pub(super) fn span_of(missing: &[u8], first: u32) -> Option<Range<u32>> {
    let start = missing.iter().position(|&sectors| sectors != 0)? as u32;
    let end = missing.iter().rposition(|&sectors| sectors != 0)? as u32 + 1;
    Some(first + start..first + end)
}

/// Copies the missing sectors of `range` out of `base`, which begins with block `first`.
pub(super) fn fill_from(
    base: &[u8],
    first: u32,
    range: &Range<u32>,
    out: &mut [u8],
    missing: &[u8],
) {
    for (number, &sectors) in blocks_of(range).zip(missing) {
        if sectors == WHOLE {
            let at = number * BLOCK;
            let (from, into) = ((at - first * BLOCK) as usize, (at - range.start) as usize);
            out[into..into + BLOCK as usize].copy_from_slice(&base[from..from + BLOCK as usize]);
            continue;
        }
        for sector in (0..SECTORS).filter(|sector| sectors & (1 << sector) != 0) {
            let at = number * BLOCK + sector * SECTOR;
            let (from, into) = ((at - first * BLOCK) as usize, (at - range.start) as usize);
            out[into..into + SECTOR as usize].copy_from_slice(&base[from..from + SECTOR as usize]);
        }
    }
}

#[cfg(test)]
mod tests;
