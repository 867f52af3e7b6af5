//! Recordings of a live volume: what it was asked, what its placement saw, what that proposed.
//!
//! A recording is two things at once. It is a block trace, byte-exact, with latencies, which every
//! command reads that reads traces. And it holds what one placement was told and answered, so that
//! the same placement can be told the same again: the chunks that requests touched, in the order
//! and at the times at which the placement saw them, and at each epoch's end where every chunk
//! lived.
//!
//! 1. What the machine tells goes into an [`Encoder`], which makes records of it and closes a block
//!    now and then. A chunk access that follows from the request before it takes no space.
//! 2. A [`Packer`] turns closed blocks into the bytes of the file. It is apart from the encoder so
//!    that compression can happen on another thread.
//! 3. An [`EventReader`] gives it all back, in the order in which it was told.
//!
//! Invariants: neither side's memory grows with the recording; a file that ends anywhere is read up
//! to its last whole block, and said to be cut off; a damaged block with whole ones behind it is an
//! error. The layout is drawn in `docs/formats/recording.md`.

mod decode;
mod encoder;
mod events;
pub(crate) mod format;
#[allow(clippy::indexing_slicing, clippy::expect_used)] // It reads nothing.
mod packer;
mod requests;

pub use encoder::Encoder;
pub use events::EventReader;
pub use packer::Packer;
pub(crate) use requests::RequestReader;

use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Ids of volumes lie below this.
pub const VOLUMES_MAX: u32 = 4096;
/// Indices of chunks lie below this: 64 TiB in chunks of 1 MiB.
pub const CHUNKS_MAX: u32 = 1 << 26;

/// Requests to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Reads a range.
    Read,
    /// Writes a range.
    Write,
    /// Makes earlier writes durable.
    Flush,
    /// Forgets a range.
    Trim,
    /// Makes a range read as zeroes.
    Zero,
}

/// A request, as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its time.
    pub at: Nanos,
    /// The volume.
    pub volume: VolumeId,
    /// The request.
    pub ask: Ask,
    /// First byte, a multiple of 512; 0 for a flush.
    pub offset: Bytes,
    /// Bytes, a multiple of 512; 0 for a flush.
    pub length: Bytes,
    /// True if the answer promises durability.
    pub forced: bool,
}

impl Asked {
    /// Its part number `index`, counted from 0 by ascending address: what a placement sees of it
    /// when it sees it at once. `chunk` is the size of one.
    fn part(&self, index: u64, chunk: Bytes) -> Access {
        let (start, end, size) = (self.offset.0, self.offset.0 + self.length.0, chunk.0);
        let index = start / size + index;
        let first = start.max(index * size);
        Access {
            at: self.at,
            chunk: ChunkId { volume: self.volume, index: index as u32 },
            offset: Bytes(first - index * size),
            bytes: Bytes(end.min((index + 1) * size) - first),
            write: self.writes(),
        }
    }

    /// Number of chunks that it touches; none for a flush.
    fn part_count(&self, chunk: Bytes) -> u64 {
        match self.length.0 {
            0 => 0,
            length => (self.offset.0 + length).div_ceil(chunk.0) - self.offset.0 / chunk.0,
        }
    }

    fn writes(&self) -> bool {
        !matches!(self.ask, Ask::Read | Ask::Flush)
    }
}

/// A placement's view of a request: a touch of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Its time.
    pub at: Nanos,
    /// The chunk.
    pub chunk: ChunkId,
    /// Offset in the chunk, a multiple of 512; 0 for a recording of version 1 that did not see it
    /// at once.
    pub offset: Bytes,
    /// Bytes of the request in the chunk, a multiple of 512.
    pub bytes: Bytes,
    /// True if it writes.
    pub write: bool,
}

/// Fullness of a pool, and all else the placement could read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFill {
    /// Chunks it can hold.
    pub capacity: u64,
    /// Chunks on it.
    pub used: u64,
    /// At most 64 numbers that mean something to placements only; none in version 1.
    pub figures: Vec<u64>,
}

/// The end of an epoch: what the placement was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Its time.
    pub at: Nanos,
    /// Moves that it might propose.
    pub budget: u64,
    /// Ids of volumes lay below this.
    pub volumes: u32,
    /// Its length; unknown in version 1.
    pub length: Option<Nanos>,
    /// Pools, fastest first.
    pub pools: Vec<PoolFill>,
}

/// Homes of neighbouring chunks since the last epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Homes {
    /// The first of them.
    pub chunk: ChunkId,
    /// Number of chunks, at least 1.
    pub count: u32,
    /// Their pool; `None`: nowhere any more.
    pub pool: Option<PoolId>,
    /// Their second copy, if they have one; never without a pool.
    pub second: Option<SecondCopy>,
}

/// A second copy of a chunk, and the pool that it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondCopy {
    /// The other side of a mirrored chunk.
    Mirror(PoolId),
    /// A copy that a move to a faster pool has left behind, and no write has made old yet.
    Kept(PoolId),
}

impl SecondCopy {
    /// Its pool.
    pub fn pool(self) -> PoolId {
        match self {
            SecondCopy::Mirror(pool) | SecondCopy::Kept(pool) => pool,
        }
    }
}

/// A question to a placement's router, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Its time.
    pub at: Nanos,
    /// Figures of each pool since it was last asked, fastest pool first: numbers that mean
    /// something to placements only, at most 64 a pool.
    pub pools: Vec<Vec<u64>>,
    /// Share of reads, and of writes, for the slower side, in millionths.
    pub shares: [u32; 2],
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A placement took over, knowing nothing: its name with all settings, as `--policy` takes it;
    /// empty when it has none in the registry, or nobody decides.
    Placed {
        /// Its time.
        at: Nanos,
        /// Its name.
        name: String,
    },
    /// A request came.
    Asked(Asked),
    /// A request was answered.
    Answered {
        /// Number of requests that had come before it.
        request: u64,
        /// After so long.
        took: Nanos,
        /// True if it was done.
        done: bool,
    },
    /// The placement saw an access.
    Accessed(Access),
    /// A pool has joined at this place in the order of speed, or the one at this place is gone;
    /// those behind it are one further on, or one nearer.
    Pools {
        /// Its time.
        at: Nanos,
        /// The place.
        place: PoolId,
        /// True if the pool is gone.
        gone: bool,
    },
    /// An epoch ended. What follows up to [`Event::EpochEnded`] belongs to it.
    Epoch(Epoch),
    /// Homes that the placement saw which were not so at the last epoch's end.
    Homes(Homes),
    /// A move that the placement proposed, best first.
    Proposed {
        /// The chunk.
        chunk: ChunkId,
        /// Destination.
        to: PoolId,
        /// True if it shall be mirrored there, not moved.
        mirror: bool,
    },
    /// The promise to a volume that the placement sees from this epoch on, if it is not what it was
    /// before.
    Promised {
        /// The volume.
        volume: VolumeId,
        /// Numbers that mean something to placements only, at most 64; none: nothing is promised.
        figures: Vec<u64>,
    },
    /// The placement's router decided.
    Routed(Routed),
    /// That was all of the proposal.
    EpochEnded,
    /// The recording was closed; nothing is missing.
    Ended,
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
