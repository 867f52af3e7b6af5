//! Names of things, each its own type so that one cannot be passed for another.

use std::fmt;

/// A volume (a virtual disk, a VM's disk); dense, starting at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VolumeId(pub u32);

/// A pool of like devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PoolId(pub u16);

/// A chunk of a volume: `index` counts chunks of the volume's chunk size from its start.
/// The sources call a 1 MiB chunk a *bin*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ChunkId {
    /// The volume the chunk belongs to.
    pub volume: VolumeId,
    /// Chunks from the volume's start.
    pub index: u32,
}

/// A site that a balancer may send requests to: a server, a replica, a back end; dense, starting at
/// 0. The number of a site that was removed is given to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SiteId(pub u16);

impl SiteId {
    /// The number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A cache line, by a dense number: the i-th distinct line seen is line i−1. Whoever feeds a cache
/// policy owns the map from addresses to these; `u32::MAX − 8` and above are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct LineId(pub u32);

impl LineId {
    /// The largest usable line number.
    pub const MAX: LineId = LineId(u32::MAX - 8);

    /// The number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.volume, self.index)
    }
}
