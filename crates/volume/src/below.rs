//! The machines that the scrub and operations are built on.

use crate::group_state::GroupState;
use crate::map::block_checksums::BlockChecksums;
use crate::moves::rate_control::CopyThrottle;
use thermocline_units::{ChunkId, Nanos};

/// The machines below the scrub and below operations, and the moment, for one step.
pub(crate) struct Below<'a> {
    pub(crate) now: Nanos,
    pub(crate) group: &'a mut GroupState,
    pub(crate) checksums: &'a mut BlockChecksums,
    pub(crate) copy_throttle: &'a mut CopyThrottle,
}

impl Below<'_> {
    /// True if a chunk's checksums are in memory, where it has any; fetches them if not.
    pub(crate) fn has_table_at_hand(&mut self, chunk: ChunkId) -> bool {
        self.checksums.table_is_at_hand(self.group, self.now, chunk)
    }
}
