//! Regions of chunks that the journal expects writes to.
//!
//! A write to a chunk whose table of checksums is right must wait until the journal no longer says
//! so (`block_checksums.rs`). If every chunk waited for a record of its own, writes that are
//! scattered over data at rest would cost a commit each. So the first of them speaks for its whole
//! region, as in a dirty region log (md's write-intent bitmap, dm-integrity's bitmap mode, DRBD's
//! activity log):
//!
//! 1. A write to a chunk at rest opens the region: the commit that it waits for says of no chunk
//!    there that its table is right. The tables of the others stay right, and reads are still
//!    verified by them; only the journal does not say so.
//! 2. While the region is open, the first write to such a chunk needs no commit: its table ceases
//!    to be right in memory. A chunk that comes to rest gets its table, and no record.
//! 3. When nobody has written to the region for a while, and when the group closes, it is closed:
//!    records say which tables are right.
//!
//! What this costs: after a crash the chunks of open regions have no tables, whether they were
//! written or not. They are read again, and contents that rotted before count as right. A region is
//! small, and the number of open ones is bounded, so that this is little of a large group.
//!
//! Bookkeeping only: which regions are open, who waits for one, which is to be looked at. What is
//! said of their chunks is up to `block_checksums.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thermocline_units::{ChunkId, Nanos, VolumeId};

/// Bytes of a region at most, if a chunk is not larger.
const REGION_BYTES: u64 = 256 << 20;
/// Time between two looks at a region; one in which nobody wrote in between is closed.
const LOOK: Nanos = Nanos(10_000_000_000);
/// Regions that are opened ahead of a client that writes in order.
const AHEAD_MAX: u32 = 16;

/// Chunks side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Region {
    volume: VolumeId,
    /// Index of its first chunk.
    first: u32,
    /// Chunks; fewer where the volume ends.
    size: u32,
}

impl Region {
    /// Region so many further on.
    fn moved(self, by: i64) -> Option<Region> {
        let first = i64::from(self.first) + by * i64::from(self.size);
        Some(Region { first: u32::try_from(first).ok()?, ..self })
    }

    /// Chunks of a region of a volume that has so many.
    pub(crate) fn chunks(self, count: u32) -> impl Iterator<Item = ChunkId> {
        let indexes: Range<u32> = self.first..count.min(self.first.saturating_add(self.size));
        indexes.map(move |index| ChunkId { volume: self.volume, index })
    }

    /// Volume that it is of.
    pub(crate) fn volume(self) -> VolumeId {
        self.volume
    }
}

/// State of an open region, by what it waits for.
#[derive(Debug)]
enum State {
    /// Its commit, for which writes to these chunks wait.
    Opening(Vec<ChunkId>),
    /// Nothing: the journal calls the table of none of its unsaid chunks right.
    Open,
}

/// Open regions.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    open: BTreeMap<Region, State>,
    /// Each once, the one that was looked at longest ago first, and when that was.
    looks: VecDeque<(Region, Nanos)>,
}

impl Regions {
    /// Region of a chunk, where chunks have so many bytes, and regions at most so many chunks.
    pub(crate) fn of(chunk: ChunkId, chunk_size: u32, most: u32) -> Region {
        let size = ((REGION_BYTES / u64::from(chunk_size)) as u32).clamp(1, most);
        Region { volume: chunk.volume, first: chunk.index - chunk.index % size, size }
    }

    /// True if no region is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// True if the region is open, or is being opened.
    pub(crate) fn has(&self, region: Region) -> bool {
        self.open.contains_key(&region)
    }

    /// Begins to open a region; false if it is open, or so many are.
    pub(crate) fn begin(&mut self, region: Region, now: Nanos, most: usize) -> bool {
        if self.has(region) || self.open.len() >= most {
            return false;
        }
        self.open.insert(region, State::Opening(Vec::new()));
        self.looks.push_back((region, now));
        assert_eq!(self.open.len(), self.looks.len(), "each open region is looked at");
        true
    }

    /// Regions to be opened together with one: as many behind it as are open just before it. A
    /// client that writes in order will be there soon.
    pub(crate) fn ahead_of(&self, region: Region) -> impl Iterator<Item = Region> + use<> {
        let is_open = |by: &i64| region.moved(-by).is_some_and(|before| self.has(before));
        let run = (1..=i64::from(AHEAD_MAX)).take_while(is_open).count() as i64;
        (1..=run).filter_map(move |by| region.moved(by))
    }

    /// Takes note that the commit that opens a region is durable; the chunks that waited for it.
    pub(crate) fn opened(&mut self, region: Region) -> Vec<ChunkId> {
        assert!(self.has(region), "a region is opened that was begun");
        match self.open.insert(region, State::Open) {
            Some(State::Opening(waiting)) => waiting,
            Some(State::Open) | None => Vec::new(),
        }
    }

    /// True if the region is being opened; the chunk is told when it is open.
    pub(crate) fn awaits(&mut self, region: Region, chunk: ChunkId) -> bool {
        let Some(State::Opening(waiting)) = self.open.get_mut(&region) else { return false };
        if !waiting.contains(&chunk) {
            waiting.push(chunk);
        }
        assert!(waiting.len() <= region.size as usize, "only its own chunks wait for it");
        true
    }

    /// Region to be looked at, where one is due.
    pub(crate) fn due(&self, now: Nanos) -> Option<Region> {
        let (region, at) = self.looks.front()?;
        (now.saturating_sub(*at) >= LOOK).then_some(*region)
    }

    /// Region that was looked at longest ago.
    pub(crate) fn first(&self) -> Option<Region> {
        self.looks.front().map(|(region, _)| *region)
    }

    /// True if the region may be closed: it is open, and not only about to be.
    pub(crate) fn may_close(&self, region: Region) -> bool {
        matches!(self.open.get(&region), Some(State::Open))
    }

    /// Takes note that the first region was looked at, and whether it was closed.
    pub(crate) fn looked_at(&mut self, region: Region, now: Nanos, closed: bool) {
        let front = self.looks.pop_front();
        assert!(front.is_some_and(|(first, _)| first == region), "regions are looked at in turn");
        if closed {
            assert!(self.may_close(region), "a region is open before it is closed");
            self.open.remove(&region);
        } else {
            self.looks.push_back((region, now));
        }
    }
}

#[cfg(test)]
mod tests;
