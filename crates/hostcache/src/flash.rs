//! The second level of a host's cache: blocks that memory gave up, on a flash device.
//!
//! 1. When memory evicts a block that maps still name, and the lookup policy admits it
//!    (`flash-shares`), the block is written to a slot of the device. A cache policy says which
//!    block leaves for it.
//! 2. A read that memory cannot serve is served from here before the server is asked, with or
//!    without a connection. A slot that is still being written is served from the bytes of its
//!    write.
//! 3. Whatever comes from the device is compared with its hash. Wrong bytes, and failures, drop the
//!    slot, and the server is asked. After [`FAILURES_MAX`] of them without a right read between
//!    them, the level is not used any more.
//! 4. A slot is not written again while anything is under way on it.
//!
//! The table is in memory alone: after a restart the level is empty, whatever the device holds.
//! Known to the server are the blocks in memory only; hosts send each other nothing from here.
//!
//! State: 24 B a slot (16 B of hash, place, content) and the policy's; 4 B a known content.
//!
//! Not here: the device. [`FlashRequest`]s are handed out, and answered in any order.

use crate::index::push_tight;
use crate::messages::Hash;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::cache::{CachePolicy, Tag};
use thermocline_units::LineId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// Writes under way at once; what memory evicts meanwhile is not kept.
const WRITES_MAX: usize = 256;
/// Failures and wrong reads, without a right read between them, after which the level is given up.
const FAILURES_MAX: u32 = 8;
const NONE: u32 = u32::MAX;

/// A request to the device of the second level. Slots count from 0, each of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlashRequest {
    /// Write a block.
    Write {
        /// Its slot.
        slot: u32,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Read a block.
    Read {
        /// Its slot.
        slot: u32,
    },
}

/// The device could not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashFailed;

/// Counts of the second level since the agent began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashCounts {
    /// Blocks that it holds.
    pub blocks: u32,
    /// Blocks that it can hold.
    pub slots: u32,
    /// Blocks that were read from it.
    pub hits: u64,
    /// Blocks that were written to it.
    pub stored: u64,
    /// Blocks that memory evicted and that were not kept: not admitted, or too much was under way.
    pub passed: u64,
    /// Blocks that came back with wrong bytes, and were asked of the server instead.
    pub damaged: u64,
    /// Requests that the device could not carry out.
    pub failed: u64,
    /// True once it was given up.
    pub is_off: bool,
}

/// Things under way on a slot.
#[derive(Debug, Default)]
struct Busy {
    requests: u32,
    /// True if the slot is free afterwards.
    leaves: bool,
}

/// The end of a read: its content, and its bytes if they are right.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FlashRead {
    pub(crate) content: u32,
    pub(crate) bytes: Option<Bytes>,
    pub(crate) hash: Hash,
}

#[derive(Debug, Clone, Copy)]
enum UnderWay {
    Write { slot: u32 },
    Read { slot: u32, content: u32 },
}

/// The second level.
pub(crate) struct Flash {
    policy: Box<dyn CachePolicy>,
    /// Slots by content.
    slot_of: Vec<u32>,
    content_of: Vec<u32>,
    mark_of: Vec<[u8; 16]>,
    free: Vec<u32>,
    slots: u32,
    shares_min: u32,
    busy: BTreeMap<u32, Busy>,
    /// Bytes of writes under way, by slot.
    writing: BTreeMap<u32, Bytes>,
    under_way: BTreeMap<u64, UnderWay>,
    next: u64,
    out: VecDeque<(u64, FlashRequest)>,
    failures: u32,
    counts: FlashCounts,
}

impl std::fmt::Debug for Flash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flash({} of {} slots)", self.policy.resident(), self.slots)
    }
}

/// A block's place among those that can be served: on the device, or in a write under way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A read has begun.
    Reading,
    /// These are its bytes.
    Here(Bytes),
}

impl Flash {
    /// An empty level of so many slots; blocks of fewer shares do not enter.
    pub(crate) fn new(policy: Box<dyn CachePolicy>, slots: u32, shares_min: u32) -> Flash {
        Flash {
            policy,
            slot_of: Vec::new(),
            content_of: Vec::new(),
            mark_of: Vec::new(),
            free: Vec::new(),
            slots,
            shares_min,
            busy: BTreeMap::new(),
            writing: BTreeMap::new(),
            under_way: BTreeMap::new(),
            next: 0,
            out: VecDeque::new(),
            failures: 0,
            counts: FlashCounts { slots, ..FlashCounts::default() },
        }
    }

    /// The next request to the device, with its number.
    pub(crate) fn next_request(&mut self) -> Option<(u64, FlashRequest)> {
        self.out.pop_front()
    }

    pub(crate) fn counts(&self) -> FlashCounts {
        FlashCounts { blocks: self.policy.resident(), ..self.counts }
    }

    fn slot(&self, content: u32) -> Option<u32> {
        self.slot_of.get(content as usize).copied().filter(|&slot| slot != NONE)
    }

    /// Takes a block that memory gives up, if it is worth it and nothing is in the way.
    pub(crate) fn offer(
        &mut self,
        content: u32,
        shares: u32,
        bytes: &[u8],
        hash: impl Fn() -> Hash,
    ) {
        if self.slot(content).is_some() || self.counts.is_off {
            return;
        }
        if shares < self.shares_min || self.writing.len() >= WRITES_MAX {
            self.counts.passed += 1;
            return;
        }
        while self.slot_of.len() <= content as usize {
            push_tight(&mut self.slot_of, NONE);
        }
        self.policy.reserve(self.slot_of.capacity() as u32);
        let outcome = self.policy.access(LineId(content), Tag::default());
        if let Some(LineId(left)) = outcome.evicted() {
            self.vacate(left);
        }
        if !outcome.is_resident() {
            self.counts.passed += 1;
            return;
        }
        let Some(slot) = self.vacant_slot() else {
            met("all free slots of the second level were busy");
            self.policy.invalidate(LineId(content));
            self.counts.passed += 1;
            return;
        };
        let hash = hash();
        self.mark_of[slot as usize].copy_from_slice(&hash[..16]);
        self.content_of[slot as usize] = content;
        self.slot_of[content as usize] = slot;
        let bytes = Bytes::copy_from_slice(bytes);
        self.writing.insert(slot, bytes.clone());
        self.send(UnderWay::Write { slot }, FlashRequest::Write { slot, bytes });
        self.counts.stored += 1;
    }

    fn vacant_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = self.content_of.len() as u32;
        if slot == self.slots {
            return None;
        }
        push_tight(&mut self.content_of, NONE);
        push_tight(&mut self.mark_of, [0; 16]);
        Some(slot)
    }

    fn send(&mut self, under_way: UnderWay, request: FlashRequest) {
        let (UnderWay::Write { slot } | UnderWay::Read { slot, .. }) = under_way;
        self.busy.entry(slot).or_default().requests += 1;
        self.next += 1;
        self.under_way.insert(self.next, under_way);
        self.out.push_back((self.next, request));
    }

    /// Looks for a content, and begins to read it if it is here. The caller keeps the content's
    /// number from being given to another until [`Flash::ended`] has told of it.
    pub(crate) fn find(&mut self, content: u32) -> Option<Found> {
        let slot = self.slot(content)?;
        self.policy.access(LineId(content), Tag::default());
        if let Some(bytes) = self.writing.get(&slot) {
            met("a block was read from a write to the second level");
            self.counts.hits += 1;
            return Some(Found::Here(bytes.clone()));
        }
        self.send(UnderWay::Read { slot, content }, FlashRequest::Read { slot });
        Some(Found::Reading)
    }

    /// Takes the device's answer to a request; for a read, what became of it.
    pub(crate) fn ended(
        &mut self,
        number: u64,
        result: Result<Bytes, FlashFailed>,
        hash_of: impl Fn(&[u8]) -> Hash,
    ) -> Option<FlashRead> {
        let under_way = self.under_way.remove(&number)?;
        if result.is_err() {
            self.counts.failed += 1;
            self.note_failure();
        }
        match under_way {
            UnderWay::Write { slot } => {
                self.writing.remove(&slot);
                if result.is_err() {
                    self.drop_slot(slot);
                }
                self.release(slot);
                None
            }
            UnderWay::Read { slot, content } => {
                let read = self.judged(slot, content, result, hash_of);
                self.release(slot);
                Some(read)
            }
        }
    }

    fn judged(
        &mut self,
        slot: u32,
        content: u32,
        result: Result<Bytes, FlashFailed>,
        hash_of: impl Fn(&[u8]) -> Hash,
    ) -> FlashRead {
        let Ok(bytes) = result else {
            self.drop_slot_of(slot, content);
            return FlashRead { content, bytes: None, hash: [0; 32] };
        };
        let hash = hash_of(&bytes);
        let is_right = hash[..16] == self.mark_of[slot as usize];
        if !is_right && !mutant("the_second_level_is_not_checked") {
            met("the second level brought wrong bytes");
            self.counts.damaged += 1;
            self.note_failure();
            self.drop_slot_of(slot, content);
            return FlashRead { content, bytes: None, hash };
        }
        met("the second level served a read");
        self.counts.hits += 1;
        self.failures = 0;
        FlashRead { content, bytes: Some(bytes), hash }
    }

    /// A request failed, or brought wrong bytes. Only a right read shows that the device works.
    fn note_failure(&mut self) {
        self.failures += 1;
        if self.failures >= FAILURES_MAX && !self.counts.is_off {
            met("the second level was given up");
            self.counts.is_off = true;
            for slot in 0..self.content_of.len() as u32 {
                self.drop_slot(slot);
            }
        }
    }

    /// Drops a content that nobody needs any more.
    pub(crate) fn forget(&mut self, content: u32) {
        if let Some(slot) = self.slot(content) {
            self.drop_slot(slot);
        }
    }

    fn drop_slot_of(&mut self, slot: u32, content: u32) {
        if self.content_of[slot as usize] == content {
            self.drop_slot(slot);
        }
    }

    fn drop_slot(&mut self, slot: u32) {
        let content = self.content_of[slot as usize];
        if content != NONE {
            self.policy.invalidate(LineId(content));
            self.vacate(content);
        }
    }

    /// The content leaves its slot, which is free when nothing is under way there.
    fn vacate(&mut self, content: u32) {
        let slot = std::mem::replace(&mut self.slot_of[content as usize], NONE);
        self.content_of[slot as usize] = NONE;
        match self.busy.get_mut(&slot) {
            Some(busy) => busy.leaves = true,
            None => self.free.push(slot),
        }
    }

    fn release(&mut self, slot: u32) {
        let busy = self.busy.get_mut(&slot).expect("something was under way");
        busy.requests -= 1;
        if busy.requests == 0 {
            let busy = self.busy.remove(&slot).expect("it is there");
            if busy.leaves {
                self.free.push(slot);
            }
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let footprint = self.policy.footprint();
        let words = self.slot_of.capacity() + self.content_of.capacity() + self.free.capacity();
        let writing: usize = self.writing.values().map(Bytes::len).sum();
        footprint.resident
            + footprint.index
            + words as u64 * 4
            + self.mark_of.capacity() as u64 * 16
            + writing as u64
    }
}

#[cfg(test)]
mod tests;
