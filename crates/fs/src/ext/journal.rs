//! The journal of ext3 and ext4 (JBD2): which blocks have a newer committed copy in it.
//!
//! A mounted file system writes metadata to its journal first and to its place up to half a minute
//! later; after a crash only recovery does. Who reads the volume sees the old place, so reads of
//! metadata go through this map.
//!
//! 1. The journal's superblock says where the oldest transaction begins, and its number. At zero
//!    there is nothing to recover.
//! 2. From there: a descriptor block lists home addresses, whose copies follow it; a revocation
//!    block lists addresses whose older copies are void; a commit block makes the transaction
//!    count.
//! 3. The walk ends at the first block that is not of the expected transaction, or whose checksum
//!    is wrong. What has no commit is forgotten.
//!
//! The place behind the last commit is a mark. A later walk that begins there and ends where the
//! walk from the oldest transaction ends has passed everything that was committed in between, also
//! what is no longer needed for recovery; when the journal has gone around since, it does not end
//! there.
//!
//! Only descriptors, revocations and commits are read: one block in some hundreds. Source: "Journal
//! (jbd2)" in the Linux kernel documentation. Not read: the area of fast commits, and a journal on
//! another device. State: 32 B for each block in the journal, [`COPIES_MAX`] at most.

use super::Volume;
use super::map::{Map, Run};
use super::superblock::sum;
use crate::FsError;
use crate::field::{Big, piece, rest};
use crate::pass::Pass;
use std::collections::{BTreeMap, BTreeSet};

/// Most copies, and most revocations, that are remembered; a journal with more is not used.
const COPIES_MAX: usize = 1 << 20;

const MAGIC: u32 = 0xc03b_3998;
const WIDE: u32 = 0x2;
const SUMS_2: u32 = 0x8;
const SUMS_3: u32 = 0x10;
const FAST_COMMIT: u32 = 0x20;
const FAST_COMMIT_BLOCKS: u64 = 256;

mod kind {
    pub(super) const DESCRIPTOR: u32 = 1;
    pub(super) const COMMIT: u32 = 2;
    pub(super) const REVOCATION: u32 = 5;
}

/// Place of the newest copy of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournalCopy {
    /// The block of the journal.
    pub(super) block: u64,
    /// Its first four bytes were the journal's magic number and are zeroes in the journal.
    pub(super) escaped: bool,
    transaction: u32,
}

/// Newest copies by the block whose copy it is.
pub(super) type Copies = BTreeMap<u64, JournalCopy>;

/// The bytes that a copy begins with when it is `escaped`.
pub(super) const ESCAPED: [u8; 4] = MAGIC.to_be_bytes();

/// A journal's superblock.
struct Journal<'a> {
    runs: &'a [Run],
    block_size: u64,
    first: u64,
    end: u64,
    features: u32,
    seed: u32,
}

/// A place in the journal, and the number of the transaction that begins there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    position: u64,
    transaction: u32,
}

/// Contents of a journal.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Blocks that are newer than their places.
    pub(super) copies: Copies,
    /// Behind the last commit; none: there is nothing to recover, so the file system is not in use.
    pub(super) end: Option<Mark>,
    /// Every block that was written through the journal since the given mark; none: not known.
    pub(super) since: Option<BTreeSet<u64>>,
}

/// Transactions that were walked over.
struct Walked {
    copies: Vec<(u64, JournalCopy)>,
    revoked: BTreeMap<u64, u32>,
    end: Mark,
}

/// Reads what is to be recovered, and what was written since `mark`.
pub(super) fn read(
    pass: &mut Pass<'_>,
    volume: &Volume,
    (map, mark): (&Map, Option<Mark>),
) -> Result<Recovery, FsError> {
    let mut head = Vec::new();
    let Some(first) = map.runs.first().filter(|run| run.logical == 0) else {
        return Ok(Recovery::default());
    };
    if !volume.read(pass, first.block, 1, &mut head)? {
        return Ok(Recovery::default());
    }
    let field = Big(&head);
    let proper = field.u32(0) == MAGIC && matches!(field.u32(4), 3 | 4);
    if !proper || u64::from(field.u32(12)) != volume.head.block_size {
        pass.torn();
        return Ok(Recovery::default());
    }
    let journal = Journal::parse(volume, map, field);
    let start = Mark { position: u64::from(field.u32(28)), transaction: field.u32(24) };
    let Some(walked) = journal.walk(pass, volume, start)? else { return Ok(Recovery::default()) };
    let mut since = None;
    if let Some(mark) = mark {
        let later = journal.walk(pass, volume, mark)?.filter(|later| later.end == walked.end);
        since = later.map(|later| later.copies.into_iter().map(|(home, _)| home).collect());
    }
    let mut copies: Copies = walked.copies.into_iter().collect();
    copies.retain(|home, copy| {
        let by = walked.revoked.get(home);
        by.is_none_or(|by| copy.transaction.wrapping_sub(*by) as i32 > 0)
    });
    Ok(Recovery { copies, end: Some(walked.end), since })
}

impl<'a> Journal<'a> {
    fn parse(volume: &Volume, map: &'a Map, field: Big<'_>) -> Journal<'a> {
        let features = if field.u32(4) == 4 { field.u32(40) } else { 0 };
        let fast = match (features & FAST_COMMIT != 0, u64::from(field.u32(84))) {
            (false, _) => 0,
            (true, 0) => FAST_COMMIT_BLOCKS,
            (true, blocks) => blocks,
        };
        Journal {
            runs: &map.runs,
            block_size: volume.head.block_size,
            first: u64::from(field.u32(20)),
            end: u64::from(field.u32(16)).saturating_sub(fast),
            features,
            seed: sum(!0, &field.id(48)),
        }
    }

    /// Walks over transactions from a mark to the last one that is committed; none when the mark
    /// lies outside the journal, as zero does, or when there are too many blocks.
    fn walk(
        &self,
        pass: &mut Pass<'_>,
        volume: &Volume,
        from: Mark,
    ) -> Result<Option<Walked>, FsError> {
        if from.position == 0 || !(self.first..self.end).contains(&from.position) {
            return Ok(None);
        }
        let mut walked = Walked { copies: Vec::new(), revoked: BTreeMap::new(), end: from };
        let (mut pending, mut revoking) = (Vec::new(), Vec::new());
        let (mut at, mut block) = (from.position, Vec::new());
        let mut steps = 0;
        while steps < self.end - self.first {
            let Some(place) = self.place(at) else { break };
            if !volume.read_in_place(pass, place, 1, &mut block)? {
                break;
            }
            let (field, transaction) = (Big(&block), walked.end.transaction);
            if field.u32(0) != MAGIC || field.u32(8) != transaction || !self.is_whole(&block) {
                break;
            }
            let before = pending.len();
            match field.u32(4) {
                kind::DESCRIPTOR => self.tags(&block, at, transaction, &mut pending),
                kind::REVOCATION => self.revocations(&block, &mut revoking),
                kind::COMMIT => {
                    walked.copies.append(&mut pending);
                    walked.revoked.extend(revoking.drain(..).map(|home| (home, transaction)));
                    let (position, transaction) = (self.step(at, 1), transaction.wrapping_add(1));
                    walked.end = Mark { position, transaction };
                }
                _ => break,
            }
            let held = walked.copies.len() + walked.revoked.len() + pending.len() + revoking.len();
            if held > COPIES_MAX {
                pass.torn();
                return Ok(None);
            }
            let passed = 1 + pending.len().saturating_sub(before) as u64;
            at = self.step(at, passed);
            steps += passed;
        }
        Ok(Some(walked))
    }

    /// `steps` blocks on, around the end.
    fn step(&self, at: u64, steps: u64) -> u64 {
        self.first + (at - self.first + steps) % (self.end - self.first)
    }

    /// The block of the volume that is block `at` of the journal.
    fn place(&self, at: u64) -> Option<u64> {
        let index = self.runs.partition_point(|run| run.logical <= at).checked_sub(1)?;
        let run = self.runs.get(index)?;
        (at - run.logical < run.count).then(|| run.block + (at - run.logical))
    }

    fn has_sums(&self) -> bool {
        self.features & (SUMS_2 | SUMS_3) != 0
    }

    /// True if the checksum of a block of the journal's own is right, or it has none.
    fn is_whole(&self, block: &[u8]) -> bool {
        if !self.has_sums() {
            return true;
        }
        let at = match Big(block).u32(4) {
            kind::COMMIT => 16,
            _ => block.len().saturating_sub(4),
        };
        let before = sum(self.seed, piece(block, 0, at));
        let zeroed = sum(before, &[0; 4]);
        let after = sum(zeroed, block.get(at + 4..).unwrap_or_default());
        after == Big(block).u32(at)
    }

    /// The copies that follow a descriptor block.
    fn tags(&self, block: &[u8], at: u64, transaction: u32, into: &mut Vec<(u64, JournalCopy)>) {
        const ESCAPED: u32 = 1;
        const SAME_ID: u32 = 2;
        const LAST: u32 = 8;
        let wide = self.features & WIDE != 0;
        let size = match (self.features & SUMS_3 != 0, wide) {
            (true, _) => 16,
            (false, wide) => {
                8 + if wide { 4 } else { 0 } + if self.features & SUMS_2 != 0 { 2 } else { 0 }
            }
        };
        let end = block.len() - if self.has_sums() { 4 } else { 0 };
        let (mut from, mut number) = (12, 1);
        while from + size <= end {
            let tag = Big(rest(block, from));
            let flags =
                if self.features & SUMS_3 != 0 { tag.u32(4) } else { u32::from(tag.u16(6)) };
            let high = if wide { u64::from(tag.u32(8)) << 32 } else { 0 };
            let home = u64::from(tag.u32(0)) | high;
            let Some(block) = self.place(self.step(at, number)) else { return };
            into.push((home, JournalCopy { block, escaped: flags & ESCAPED != 0, transaction }));
            if flags & LAST != 0 {
                return;
            }
            number += 1;
            from += size + if flags & SAME_ID == 0 { 16 } else { 0 };
        }
    }

    fn revocations(&self, block: &[u8], into: &mut Vec<u64>) {
        let size = if self.features & WIDE != 0 { 8 } else { 4 };
        let end = (Big(block).u32(12) as usize).min(self.block_size as usize);
        for entry in block.get(16..end).unwrap_or_default().chunks_exact(size) {
            let field = Big(entry);
            into.push(if size == 8 { field.u64(0) } else { u64::from(field.u32(0)) });
        }
    }
}
