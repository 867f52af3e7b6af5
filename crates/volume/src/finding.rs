//! Findings of a verification, and its repairs, told to whoever drives the group.

use std::ops::Range;
use thermocline_units::{Bytes, ChunkId, PoolId, VolumeId};

/// Findings kept until they are taken; beyond it they are counted only.
const FINDINGS_MAX: usize = 1024;

/// Kind of a finding in a range of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// A copy was wrong or unreadable, and was written again from a right one.
    Repaired,
    /// A copy stayed wrong, or could not be written: it was dropped, another one is made.
    Dropped,
    /// No copy is what its checksums say, or can be read.
    Unrepairable,
    /// Copies differ, and nothing says which is right: they were left as they are.
    Undecided,
    /// A table of checksums is lost or damaged on all copies: the contents cannot be verified.
    ChecksumsLost,
}

/// A range of a volume that is not, or was not, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The volume.
    pub volume: VolumeId,
    /// Offset of its begin in the volume.
    pub offset: Bytes,
    /// Its length.
    pub length: Bytes,
    /// The pool whose copy it is about; none: all copies.
    pub pool: Option<PoolId>,
}

/// Findings not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    queue: Vec<Finding>,
    untold: u64,
}

impl Findings {
    /// Appends the findings since this was last called; of floods only the first.
    pub(crate) fn take(&mut self, out: &mut Vec<Finding>) {
        out.append(&mut self.queue);
    }

    /// Findings that nobody will be told of, because too many came at once.
    pub(crate) fn untold(&self) -> u64 {
        self.untold
    }

    /// Tells of bytes of a chunk of this size; a run that continues the last finding lengthens it.
    pub(crate) fn note(
        &mut self,
        kind: FindingKind,
        (chunk, chunk_size): (ChunkId, u32),
        bytes: &Range<u32>,
        pool: Option<PoolId>,
    ) {
        assert!(
            bytes.start < bytes.end && bytes.end <= chunk_size,
            "a finding is within its chunk"
        );
        let offset = u64::from(chunk.index) * u64::from(chunk_size) + u64::from(bytes.start);
        let length = Bytes(u64::from(bytes.end - bytes.start));
        let Findings { queue, untold } = self;
        let full = queue.len() >= FINDINGS_MAX;
        match queue.last_mut() {
            Some(last)
                if (last.kind, last.volume, last.pool) == (kind, chunk.volume, pool)
                    && last.offset.0 + last.length.0 == offset =>
            {
                last.length.0 += length.0;
            }
            _ if full => *untold += 1,
            _ => queue.push(Finding {
                kind,
                volume: chunk.volume,
                offset: Bytes(offset),
                length,
                pool,
            }),
        }
        assert!(queue.len() <= FINDINGS_MAX, "findings are bounded");
    }
}
