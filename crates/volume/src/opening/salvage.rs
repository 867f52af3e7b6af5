//! Opening a group whose metadata is damaged, when an administrator accepts what is lost.
//!
//! 1. A block that no replica has whole is searched for one flipped bit: if changing one bit makes
//!    its checksum right, the block is as it was written. (CRC-32C tells all errors of up to three
//!    bits apart in blocks of this length, so two flipped bits are never taken for one.)
//! 2. A block of the journal that stays unreadable is passed over: what comes later is replayed.
//!    Chunks that it named keep the place that they had before it.
//! 3. A block of the checkpoint that stays unreadable leaves a gap: its chunks are not mapped.
//! 4. Of two chunks that claim one slot, the one that the journal named last keeps it; the other
//!    one is lost.
//!
//! Everything that was corrected, passed over or lost is told. Nothing is written before the
//! checkpoint that ends a recovery, so on devices whose writes stay in memory it is only a trial.

use crate::format::{BlockKind, Record, Stamp, Superblock, decode_records, open_block};
use crate::opening::Reads;
use crate::sizes::BLOCK_BYTES;
use std::collections::BTreeMap;
use thermocline_units::{ChunkId, with_one_bit_changed};

/// Blocks that are searched for a flipped bit; each takes about 20 ms.
const SEARCHES_MAX: u32 = 64;

/// Report on a damaged group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Blocks in which one flipped bit was set right.
    pub corrected: u32,
    /// Sequence numbers of journal blocks that were passed over: chunks that they placed or moved
    /// are where they were before, or not there.
    pub journal_blocks: Vec<u64>,
    /// Chunks between which a block of the checkpoint is missing: what lies between is lost. `None`
    /// is the map's beginning or end.
    pub gaps: Vec<(Option<ChunkId>, Option<ChunkId>)>,
    /// Chunks that are lost because a later one has their place.
    pub displaced: Vec<ChunkId>,
    /// True if the newest superblock is lost: the group is as it was in an earlier session.
    pub older_session: bool,
    searches: u32,
    /// Sequence at which the journal named a chunk last.
    named: BTreeMap<ChunkId, u64>,
    /// The last chunk that the checkpoint named, and whether blocks are missing since.
    last: Option<ChunkId>,
    in_gap: bool,
}

impl Salvage {
    /// Sequence at which the journal named a chunk last.
    pub(super) fn named(&self, chunk: ChunkId) -> Option<u64> {
        self.named.get(&chunk).copied()
    }

    /// True if records are lost, or may be.
    pub(super) fn lacks_records(&self) -> bool {
        self.older_session || !self.journal_blocks.is_empty()
    }

    /// True if nothing is lost: what was damaged could be set right.
    pub fn is_complete(&self) -> bool {
        self.journal_blocks.is_empty()
            && self.gaps.is_empty()
            && self.displaced.is_empty()
            && !self.older_session
    }

    /// Notes records of the checkpoint, in their order.
    pub(crate) fn note_checkpoint(&mut self, records: &[Record]) {
        let chunk = |record: &Record| match record {
            Record::Chunk(chunk, _) => Some(*chunk),
            _ => None,
        };
        let mut chunks = records.iter().filter_map(chunk);
        let Some(first) = chunks.next() else { return };
        if std::mem::take(&mut self.in_gap) {
            self.gaps.push((self.last, Some(first)));
        }
        self.last = Some(chunks.next_back().unwrap_or(first));
        assert!(!self.in_gap, "the next gap begins behind these records");
    }

    /// Notes that a block of the checkpoint is missing.
    pub(crate) fn note_gap(&mut self) {
        self.in_gap = true;
    }

    /// Notes that the checkpoint has ended.
    pub(crate) fn end_checkpoint(&mut self) {
        if std::mem::take(&mut self.in_gap) {
            self.gaps.push((self.last, None));
        }
    }

    /// Notes the chunks that a block of the journal names.
    pub(crate) fn note_journal(&mut self, sequence: u64, records: &[Record]) {
        for record in records {
            if let Record::Chunk(chunk, _) = record {
                let before = self.named.insert(*chunk, sequence);
                assert!(before.is_none_or(|before| before <= sequence), "blocks are in order");
            }
        }
    }

    /// Content that `decode` reads from a block of which one bit flipped.
    fn correct<T>(&mut self, block: &[u8], decode: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        if self.searches == SEARCHES_MAX {
            return None;
        }
        self.searches += 1;
        let right = with_one_bit_changed(block, decode)?;
        self.corrected += 1;
        assert!(self.corrected <= self.searches, "what is corrected was searched");
        Some(right)
    }

    /// The records of a block that one flipped bit damaged on some replica.
    pub(super) fn corrected_block(
        &mut self,
        reads: &Reads,
        kind: BlockKind,
        stamp: Stamp,
        at: u32,
        chunk_size: u32,
    ) -> Option<Vec<Record>> {
        let payload = |block: &[u8]| open_block(kind, stamp, block).map(<[u8]>::to_vec);
        let mut copies = reads.copies_of(kind, at);
        copies.find_map(|block| decode_records(&self.correct(block, payload)?, chunk_size))
    }

    /// A superblock that one flipped bit damaged.
    pub(super) fn corrected_superblock(&mut self, block: &[u8]) -> Option<Superblock> {
        let is_empty = block.iter().all(|&byte| byte == 0);
        let is_damaged = block.len() >= BLOCK_BYTES && Superblock::decode(block).is_none();
        (is_damaged && !is_empty).then(|| self.correct(block, Superblock::decode)).flatten()
    }
}
