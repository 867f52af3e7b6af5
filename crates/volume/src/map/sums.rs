//! Checksums of blocks, in memory.
//!
//! A [`Sums`] holds the CRC-32C of the blocks of one chunk, as far as they are known: all of them
//! when the chunk's table was read or has just been written, those that were written since where
//! the chunk has no table that is right. A [`SumStore`] holds the sums of many chunks, and forgets
//! the oldest first.
//!
//! What is known is true at any moment: a write that begins makes its blocks unknown, one that
//! succeeded everywhere makes its whole blocks known again. A read that was under way together with
//! a write may have found either contents; `verifies` says of which reads nothing can be told.
//!
//! State: 4 bytes and a bit a block, and about 100 bytes a chunk. Does no I/O and decides nothing.

use crate::map::presence::Presence;
use crate::settings::BLOCK;
use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_ports::Payload;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Blocks that are hashed while they are written, in chunks of blocks: what is written again and
/// again would be hashed for nothing, and is read once when it has come to rest.
const HASHED_MAX: u32 = 2;
/// Bytes of a chunk's sums beside those of its blocks, about.
const OVERHEAD: u64 = 128;

/// The CRC-32C of each whole block.
pub(crate) fn checksums(payload: &Payload) -> Vec<u32> {
    match payload {
        Payload::Zeroes(length) => vec![zero_block(); (length / BLOCK) as usize],
        Payload::Bytes(bytes) => bytes.chunks_exact(BLOCK as usize).map(crc32c::crc32c).collect(),
    }
}

fn zero_block() -> u32 {
    const ZERO_BLOCK: [u8; BLOCK as usize] = [0; BLOCK as usize];
    crc32c::crc32c(&ZERO_BLOCK)
}

/// Checksums of one chunk's blocks, as far as they are known.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    of: Box<[u32]>,
    known: Presence,
    /// Number of sub-requests begun when a write last began or ended: reads begun before may have
    /// met it.
    changed: u64,
    /// Blocks hashed because they were written.
    hashed: u32,
}

impl Sums {
    /// Checksums of no block.
    pub(crate) fn none(chunk_size: u32) -> Sums {
        let known = Presence::none(chunk_size);
        let of = vec![0; known.blocks() as usize].into_boxed_slice();
        Sums { of, known, changed: 0, hashed: 0 }
    }

    /// Checksums of all blocks, in their order.
    pub(crate) fn of_all(of: Box<[u32]>) -> Sums {
        let bytes = of.len() as u32 * BLOCK;
        let mut known = Presence::none(bytes);
        known.mark(&(0..bytes));
        Sums { of, known, changed: 0, hashed: 0 }
    }

    /// Checksums of a chunk that reads as zeroes.
    pub(crate) fn zeroes(chunk_size: u32) -> Sums {
        Sums::of_all(vec![zero_block(); (chunk_size / BLOCK) as usize].into_boxed_slice())
    }

    /// Those of all blocks, when all are known.
    pub(crate) fn whole(&self) -> Option<&[u32]> {
        self.known.is_full().then_some(&*self.of)
    }

    /// Those of the blocks that `bytes` touches, when all of these are known.
    pub(crate) fn of(&self, bytes: &Range<u32>) -> Option<&[u32]> {
        let blocks = (bytes.start / BLOCK) as usize..bytes.end.div_ceil(BLOCK) as usize;
        self.known.all_in(bytes).then(|| &self.of[blocks])
    }

    /// That of one block, when it is known.
    pub(crate) fn of_block(&self, block: u32) -> Option<u32> {
        self.known.holds(block).then(|| self.of[block as usize])
    }

    /// A write of `bytes` begins, or may have happened; so many sub-requests have been begun.
    pub(crate) fn forget(&mut self, bytes: &Range<u32>, begun: u64) {
        self.known.unmark(bytes);
        self.changed = begun;
    }

    /// `payload` was written at byte `at`, everywhere; so many sub-requests have been begun.
    pub(crate) fn written(&mut self, at: u32, payload: &Payload, begun: u64) {
        assert!(self.changed <= begun, "parts are begun in their order");
        self.changed = begun;
        let limit = self.known.blocks().saturating_mul(HASHED_MAX);
        let from = at.next_multiple_of(BLOCK) - at;
        if self.hashed < limit && from < payload.len() {
            let whole = payload.slice(from..payload.len());
            self.hashed += whole.len() / BLOCK;
            self.learn(at + from, &checksums(&whole));
        }
    }

    /// Blocks from byte `at` on were read, and nobody wrote to them meanwhile; so many sub-requests
    /// have been begun. Reads that began before may have met a write that was over by then, and of
    /// which nothing is known here.
    pub(crate) fn read(&mut self, at: u32, sums: &[u32], begun: u64) {
        self.changed = begun;
        self.learn(at, sums);
    }

    /// These are the sums of the blocks from byte `at` on.
    pub(crate) fn learn(&mut self, at: u32, sums: &[u32]) {
        let first = (at / BLOCK) as usize;
        self.of[first..first + sums.len()].copy_from_slice(sums);
        self.known.mark(&(at..at + sums.len() as u32 * BLOCK));
    }

    /// True if contents read by a part of this number can be held against what is known now.
    pub(crate) fn verifies(&self, order: u64) -> bool {
        order > self.changed
    }

    /// Blocks of `payload`, which stands at byte `at`, that are known to have been other contents.
    /// What does not begin with a block is not looked at.
    pub(crate) fn differing(&self, at: u32, payload: &Payload) -> u32 {
        if !at.is_multiple_of(BLOCK) {
            return 0;
        }
        let found = checksums(payload);
        let wrong = |(block, sum): (u32, &u32)| self.of_block(block).is_some_and(|of| of != *sum);
        (at / BLOCK..).zip(&found).filter(|&pair| wrong(pair)).count() as u32
    }

    /// The chunk has come to rest: what is written from now on is hashed again.
    pub(crate) fn rest(&mut self) {
        self.hashed = 0;
    }

    fn bytes(&self) -> u64 {
        self.of.len() as u64 * 4 + self.of.len() as u64 / 8 + OVERHEAD
    }
}

/// The sums of chunks, within a bound of memory.
#[derive(Debug)]
pub(crate) struct SumStore {
    chunks: BTreeMap<ChunkId, (u64, Sums)>,
    /// Chunks in the order in which they came.
    order: BTreeMap<u64, ChunkId>,
    came: u64,
    bytes: u64,
    bytes_max: u64,
}

impl SumStore {
    /// Holds so many bytes, and the sums of at least one chunk.
    pub(crate) fn new(bytes_max: u64) -> SumStore {
        let (chunks, order) = (BTreeMap::new(), BTreeMap::new());
        SumStore { chunks, order, came: 0, bytes: 0, bytes_max }
    }

    pub(crate) fn sums_of(&self, chunk: ChunkId) -> Option<&Sums> {
        self.chunks.get(&chunk).map(|(_, sums)| sums)
    }

    pub(crate) fn sums_of_mut(&mut self, chunk: ChunkId) -> Option<&mut Sums> {
        self.chunks.get_mut(&chunk).map(|(_, sums)| sums)
    }

    pub(crate) fn has(&self, chunk: ChunkId) -> bool {
        self.chunks.contains_key(&chunk)
    }

    /// Keeps the sums of one more chunk; of more than `most`, or than there is memory for, the
    /// oldest go that are not `in_use`: a read under way is held against them when it is answered.
    pub(crate) fn put(
        &mut self,
        chunk: ChunkId,
        sums: Sums,
        most: usize,
        in_use: impl Fn(ChunkId) -> bool,
    ) {
        self.take(chunk);
        self.came += 1;
        self.bytes += sums.bytes();
        self.order.insert(self.came, chunk);
        self.chunks.insert(chunk, (self.came, sums));
        assert_eq!(self.order.len(), self.chunks.len(), "each chunk has its turn to go");
        let most = most.max(1);
        let mut next = 0;
        while self.chunks.len() > most || self.bytes > self.bytes_max && self.chunks.len() > 1 {
            let older = self.order.range(next..self.came).next();
            let Some((&came, &oldest)) = older else { return };
            next = came + 1;
            let pinned = in_use(oldest);
            met_if(pinned, "checksums kept for a read under way");
            if !pinned || mutant("checksums_evicted_under_a_read") {
                met("cache of checksums evicted");
                self.take(oldest);
            }
        }
    }

    pub(crate) fn take(&mut self, chunk: ChunkId) -> Option<Sums> {
        let (came, sums) = self.chunks.remove(&chunk)?;
        let turn = self.order.remove(&came);
        assert_eq!(turn, Some(chunk), "each chunk has its turn to go");
        self.bytes -= sums.bytes();
        assert_eq!(self.bytes == 0, self.chunks.is_empty(), "bytes of what is kept");
        Some(sums)
    }
}

#[cfg(test)]
mod tests;
