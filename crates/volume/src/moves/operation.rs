//! The four operations of the block storage data manager (HintStor, Ge et al. 2022 §3.2), as a
//! caller sees them.

use thermocline_units::{Bytes, ChunkId, PoolId};

/// Names an operation; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Kind of an operation on a chunk. The source's tuple is (op, chunk, source, destination); the
/// source address is the machine's own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Move the chunk: copy, mirror the writes meanwhile, switch, free the original.
    Migrate,
    /// Add a copy; the original stays.
    Replicate,
    /// Add a copy in the pool's reserve, which goes away first when space runs short; requests are
    /// served from the parts that have arrived.
    Prefetch,
    /// Send writes to the destination from now on, block by block, and bring the rest of the chunk
    /// after them.
    Redirect,
    /// Add a copy that shares the load: a read goes to either, a write to one of them, and the map
    /// remembers block by block which is the newer (MOST, FAST 2026). On a chunk that is mirrored
    /// already: make both sides equal again. MIGRATE to one of its pools ends it.
    Mirror,
}

/// One operation to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: OperationKind,
    /// The chunk.
    pub chunk: ChunkId,
    /// The pool that it goes to.
    pub to: PoolId,
}

/// End of an operation; reported once for each that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done and durable.
    Done,
    /// Cancelled by the caller, or overtaken: its chunk was discarded or its volume deleted.
    Cancelled,
    /// A device failed; the chunk is where it was.
    Failed,
}

/// The end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub id: OperationId,
    /// The operation.
    pub operation: Operation,
    /// Its end.
    pub outcome: Outcome,
    /// The pool that it read from; none: it had not begun.
    pub from: Option<PoolId>,
    /// True if a placement had proposed it.
    pub proposed: bool,
}

/// Reason why an operation was not accepted. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The chunk was never written, or its volume does not exist.
    #[error("the chunk holds nothing")]
    Unmapped,
    /// The chunk is there already.
    #[error("the chunk has a copy on that pool already")]
    AlreadyThere,
    /// Another operation holds the chunk.
    #[error("another operation is under way on the chunk; wait for it or cancel it")]
    Busy,
    /// A chunk in two parts can only be brought together where one of them is.
    #[error("the chunk is in two parts; migrate it to a pool that has one of them first")]
    InTwoParts,
    /// The destination has no room, or the reserve has none left.
    #[error("the destination pool has no room")]
    NoRoom,
    /// Redirected and mirrored chunks are written block by block, which a far pool is no place for.
    #[error("a pool across a network holds whole chunks only: migrate or replicate")]
    Far,
    /// The pool does not exist, is dead, or is being drained.
    #[error("the destination pool takes no chunks")]
    NoPool,
    /// The chunk has as many copies as it can have.
    #[error("the chunk has the most copies it can have")]
    TooManyCopies,
    /// More operations are queued than the machine holds.
    #[error("too many operations are queued; try again when some are done")]
    QueueFull,
    /// The group is not in service.
    #[error("the volume group is not in service")]
    NotReady,
}

/// An operation that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationStatus {
    /// Its name.
    pub id: OperationId,
    /// The operation.
    pub operation: Operation,
    /// The pool it reads from; none: it has not begun.
    pub from: Option<PoolId>,
    /// Bytes of the chunk that are at the destination.
    pub copied: Bytes,
}

/// Moves that a placement proposed and that were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MovesDropped {
    /// They had not begun by their deadline ([`crate::Copying::deadline`]).
    pub expired: u64,
    /// The part that was brought first was slower there (tactic of trials).
    pub slower: u64,
    /// The day's budget of their pool was used up ([`crate::Group::set_wear_budget`]).
    pub worn: u64,
}
