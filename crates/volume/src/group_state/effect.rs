//! Effects: work that a step of a machine leaves to others.

use crate::journal::commit::Waiter;
use crate::map::place::Place;
use crate::moves::operation::Operation;
use crate::pools::pool::PoolState;
use thermocline_ports::Payload;
use thermocline_units::{ChunkId, PoolId};

/// Blocks that a client has read from a copy.
#[derive(Debug)]
pub(crate) struct ClientRead {
    pub(crate) chunk: ChunkId,
    pub(crate) from: Place,
    /// Byte of the chunk at which the contents begin.
    pub(crate) at: u32,
    /// Number of the sub-request among all that were begun.
    pub(crate) order: u64,
    pub(crate) payload: Payload,
}

/// Work that a step of a machine leaves to others.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Somebody has left the chunk, or what was waited for has come: others may go on.
    Eased(ChunkId),
    /// A copy of the chunk has wrong contents: the scrub looks at it soon.
    Mend {
        chunk: ChunkId,
        /// Blocks whose contents were wrong in what was read.
        blocks: u32,
    },
    /// The chunk has come to rest: the scrub makes its tables.
    Tables(ChunkId),
    /// The chunk has left a slot that no durable map names any more.
    Left(ChunkId, Place),
    /// The chunk has left a slot that the last record of it still names: another one drops it.
    Parted(ChunkId, Place),
    /// A slot is free.
    SlotFree,
    /// A slot may be free for a sub-request that waits for one.
    Space(u32),
    /// The operation on the chunk has ended.
    Ended(ChunkId),
    /// A commit is durable that somebody waited for.
    Durable(Waiter),
    /// A checkpoint is in force, whose superblocks name these states of pools, by id.
    InForce(Vec<PoolState>),
    /// The group is out of service: everybody who waits is told so.
    Failed,
    /// An operation is to begin when there is leisure.
    Wish(Operation),
    /// A client has read blocks of a chunk that an operation copies.
    Read(ClientRead),
    /// A move has left a copy behind that may go when its room is wanted.
    Kept(ChunkId, PoolId),
}
