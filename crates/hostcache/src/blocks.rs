//! Bytes of blocks in memory. A cache policy decides which blocks stay.
//!
//! Blocks are stored in segments, which are allocated when they are needed. A block belongs to a
//! line, a dense number that the owner gives. The policy knows only lines, so its memory of an
//! evicted line is valid as long as the owner gives the number to no other block.
//!
//! State without the bytes: 12 B a cached block, 4 B a line, and the policy's.

use crate::index::push_tight;
use thermocline_policy::cache::{CachePolicy, Tag};
use thermocline_units::LineId;

/// Blocks of a segment.
const SEGMENT_BLOCKS: usize = 256;
const NONE: u32 = u32::MAX;

/// Result of an insertion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The block is cached; this line, if any, was evicted for it.
    Kept(Option<u32>),
    /// The policy did not admit the block.
    Passed,
}

pub(crate) struct Blocks {
    block_bytes: usize,
    segments: Vec<Box<[u8]>>,
    slot_of: Vec<u32>,
    line_of: Vec<u32>,
    /// First 8 bytes of the hash of each slot's block.
    mark_of: Vec<u64>,
    free: Vec<u32>,
    policy: Box<dyn CachePolicy>,
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blocks({} cached)", self.policy.resident())
    }
}

impl Blocks {
    pub(crate) fn new(block_bytes: usize, policy: Box<dyn CachePolicy>) -> Blocks {
        Blocks {
            block_bytes,
            segments: Vec::new(),
            slot_of: Vec::new(),
            line_of: Vec::new(),
            mark_of: Vec::new(),
            free: Vec::new(),
            policy,
        }
    }

    fn slot(&self, line: u32) -> Option<u32> {
        self.slot_of.get(line as usize).copied().filter(|&slot| slot != NONE)
    }

    fn bytes_of(&self, slot: u32) -> &[u8] {
        let (segment, at) = (slot as usize / SEGMENT_BLOCKS, slot as usize % SEGMENT_BLOCKS);
        &self.segments[segment][at * self.block_bytes..(at + 1) * self.block_bytes]
    }

    pub(crate) fn holds(&self, line: u32) -> bool {
        self.slot(line).is_some()
    }

    /// A line's bytes, without telling the policy.
    pub(crate) fn peek(&self, line: u32) -> Option<&[u8]> {
        self.slot(line).map(|slot| self.bytes_of(slot))
    }

    /// The first bytes of the hash of a line that is held.
    pub(crate) fn mark(&self, line: u32) -> u64 {
        self.mark_of[self.slot(line).expect("only lines that are held have marks") as usize]
    }

    /// A line's bytes; counts as an access for the policy.
    #[inline]
    pub(crate) fn get(&mut self, line: u32) -> Option<&[u8]> {
        let slot = self.slot(line)?;
        self.policy.access(LineId(line), Tag::default());
        Some(self.bytes_of(slot))
    }

    /// Inserts a line that is not held. `leaving` is called with the line that is evicted for it,
    /// while its mark is still known.
    pub(crate) fn put(
        &mut self,
        line: u32,
        bytes: &[u8],
        mark: u64,
        leaving: impl FnOnce(&Blocks, u32),
    ) -> Put {
        assert!(!self.holds(line) && bytes.len() == self.block_bytes, "a block that is not held");
        while self.slot_of.len() <= line as usize {
            push_tight(&mut self.slot_of, NONE);
        }
        self.policy.reserve(self.slot_of.capacity() as u32);
        let outcome = self.policy.access(LineId(line), Tag::default());
        if !outcome.is_resident() {
            return Put::Passed;
        }
        let left = outcome.evicted().map(|line| line.0);
        if let Some(line) = left {
            leaving(self, line);
            self.vacate(line);
        }
        let slot = self.vacant_slot();
        self.line_of[slot as usize] = line;
        self.mark_of[slot as usize] = mark;
        self.slot_of[line as usize] = slot;
        let at = slot as usize % SEGMENT_BLOCKS * self.block_bytes;
        let segment = &mut self.segments[slot as usize / SEGMENT_BLOCKS];
        segment[at..at + bytes.len()].copy_from_slice(bytes);
        Put::Kept(left)
    }

    fn vacant_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = self.line_of.len();
        if slot.is_multiple_of(SEGMENT_BLOCKS) {
            let bytes = vec![0; SEGMENT_BLOCKS * self.block_bytes];
            self.segments.push(bytes.into_boxed_slice());
        }
        push_tight(&mut self.line_of, NONE);
        push_tight(&mut self.mark_of, 0);
        slot as u32
    }

    fn vacate(&mut self, line: u32) {
        let slot = std::mem::replace(&mut self.slot_of[line as usize], NONE);
        self.line_of[slot as usize] = NONE;
        self.free.push(slot);
    }

    /// Drops a line if it is held.
    pub(crate) fn remove(&mut self, line: u32) {
        if self.holds(line) {
            self.policy.invalidate(LineId(line));
            self.vacate(line);
        }
    }

    /// Tells the policy how many blocks share a line.
    pub(crate) fn set_shares(&mut self, line: u32, count: u32) {
        if self.holds(line) {
            self.policy.set_shares(LineId(line), count);
        }
    }

    /// Lines that are held.
    pub(crate) fn lines(&self) -> impl Iterator<Item = u32> + '_ {
        self.line_of.iter().copied().filter(|&line| line != NONE)
    }

    pub(crate) fn count(&self) -> u32 {
        self.policy.resident()
    }

    /// Bytes of the tables that have an entry for each line.
    pub(crate) fn line_bytes(&self) -> u64 {
        self.slot_of.capacity() as u64 * 4 + self.policy.footprint().index
    }

    /// Bytes of memory without the blocks themselves.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        let footprint = self.policy.footprint();
        let words = self.slot_of.capacity() + self.line_of.capacity() + self.free.capacity();
        footprint.resident + footprint.index + words as u64 * 4 + self.mark_of.capacity() as u64 * 8
    }
}
