//! Places of chunks, and copies of them.

use thermocline_units::PoolId;

/// A slot of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The pool.
    pub pool: PoolId,
    /// The slot, counted in chunks from the pool's first.
    pub slot: u32,
}

/// Reason for which a copy of a chunk is where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Somebody wants it there.
    #[default]
    Wanted,
    /// A hint asked for it, in a pool's reserve; it may be dropped when space runs short.
    Prefetched,
    /// A move has left it behind; it may be dropped when space runs short. The journal calls it
    /// prefetched.
    Kept,
}

/// One whole copy of a chunk. The first of a chunk's copies is always a wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkCopy {
    /// Place of the copy.
    pub place: Place,
    /// Reason for which it is there.
    pub role: Role,
}

impl ChunkCopy {
    /// A copy that somebody wants where it is.
    pub(crate) fn wanted(place: Place) -> ChunkCopy {
        ChunkCopy { place, role: Role::Wanted }
    }

    /// True if it may be dropped when space runs short.
    pub(crate) fn gives_way(&self) -> bool {
        self.role != Role::Wanted
    }
}
