//! Reasons why a group cannot be made, or is not in service.

use crate::settings::{CHUNK_MAX, CHUNK_MIN, Limits, POOLS_MAX};
use crate::sizes::NAME_BYTES_MAX;
use thermocline_units::{Bytes, PoolId};

/// Reason why a group cannot be made of these pools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Out of range.
    #[error("chunk size {0} is not a power of two between {CHUNK_MIN} and {CHUNK_MAX}")]
    ChunkSize(Bytes),
    /// The limits that a test chose contradict each other.
    #[error("these limits of the metadata do not fit together: {0:?}")]
    Limits(Limits),
    /// Out of range.
    #[error("a journal of {0} blocks is not between 64 and 65536 blocks of 4 KiB")]
    Journal(u32),
    /// No pool, or too many.
    #[error("{0} pools are not between 1 and {POOLS_MAX}")]
    PoolCount(usize),
    /// No name for a pool.
    #[error(
        "`{0}` is no name for a pool: 1 to {NAME_BYTES_MAX} bytes, without /, quotes and control \
         characters"
    )]
    Name(String),
    /// Another pool has the name.
    #[error("two pools are called `{0}`; give each a name of its own")]
    NameTaken(String),
    /// No room for a chunk beside the metadata.
    #[error("pool `{0}` has no room for a single chunk; it needs {1} and a chunk more")]
    TooSmall(String, Bytes),
    /// Every pool is too small for journal and checkpoints.
    #[error("no pool has room for the journal and two checkpoints, {0}; add a larger pool")]
    NoReplica(Bytes),
}

/// Reason why a group is not in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device has a whole superblock of this version.
    #[error(
        "no device has a whole superblock of this version; nothing was changed; name the right \
         devices, or see what can be saved with `thermocline check --salvage`"
    )]
    NotAGroup,
    /// Devices of several groups.
    #[error("pool {} belongs to another volume group; name the devices of one group, in order", .0.0)]
    Foreign(PoolId),
    /// The device shrank.
    #[error("the device of pool {} is smaller than its pool; it is the wrong one, or was cut", .0.0)]
    Shrunk(PoolId),
    /// No replica has the checkpoint block.
    #[error(
        "block {block} of the checkpoint is unreadable on every pool that holds one; restore a pool that \
         is missing, or see what can be saved with `thermocline check --salvage`"
    )]
    Checkpoint {
        /// Blocks from the area's start.
        block: u32,
    },
    /// A block of the journal that was durable is not whole on any pool that holds the journal.
    #[error(
        "block {block} of the journal is damaged on every pool that holds it, and changes up to \
         block {} depend on it; nothing was changed; restore a pool that is missing, or see what \
         can be saved with `thermocline check --salvage`",
        durable - 1
    )]
    Journal {
        /// Its sequence number.
        block: u64,
        /// Sequence before which all blocks were durable.
        durable: u64,
    },
    /// The newest superblock is damaged on every pool: the one before it is of an earlier session.
    #[error(
        "superblock {sequence} is damaged on every pool, and the one before it does not know what \
         was written since; nothing was changed; restore a pool that is missing, or see what can \
         be saved with `thermocline check --salvage`"
    )]
    SuperblockLost {
        /// The number of the superblock that is missing, or of the first of several.
        sequence: u64,
    },
    /// The records contradict each other: a bug, or a forged disk.
    #[error("two chunks claim slot {slot} of pool {}; nothing was changed; report it", pool.0)]
    Contradiction {
        /// The pool.
        pool: PoolId,
        /// The slot.
        slot: u32,
    },
    /// Pools have taken other slots than the map names: a bug of the recovery.
    #[error(
        "the map names {named} slots of pool {}, and {taken} are taken; nothing was changed; report \
         it", pool.0
    )]
    Miscounted {
        /// The pool.
        pool: PoolId,
        /// Slots that the map names.
        named: u32,
        /// Slots that are taken.
        taken: u32,
    },
    /// The next checkpoint of the map would not fit into its area: a forged superblock.
    #[error(
        "the map has more chunks than its checkpoint has room for: the superblock is not as it was \
         written; nothing was changed; report it"
    )]
    MapTooLarge,
    /// A device failed a flush, and chunks are on its pool only.
    #[error(
        "the device of pool {} failed a flush: what was written since the last good one may be \
         lost, and flushes waiting for it have failed; start again, which recovers everything that \
         was flushed, then check the device and replace it",
        .0.0
    )]
    FlushFailed(PoolId),
    /// No living pool can hold the metadata.
    #[error("no living pool can hold the journal; restore a pool that is missing")]
    NoReplica,
}
