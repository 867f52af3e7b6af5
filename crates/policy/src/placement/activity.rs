//! What chunks were asked for in the running epoch, and where they are: what the placements that
//! look at patterns share.
//!
//! 1. An access is *sequential* when it begins within 512 KiB of the end of the one before it in
//!    its volume (S2: 000 §3.2), or exactly where the last one in its own chunk ended: of several
//!    streams side by side each is one. All others are *random*.
//! 2. A chunk has 64 cells. A write all of whose cells were written in the epoch before it is an
//!    *overwrite*. The source counts blocks; a cell of a chunk of 1 MiB is 16 KiB.
//! 3. At the epoch's end `look` takes down where every chunk is; chunks met on a pool above the
//!    slowest are known from then on. Those that were never met are on the slowest pool, cold.
//! 4. `advance` forgets the epoch: what was touched, not what is known.
//!
//! The size of a chunk is first known at the end of the first epoch; until then it is taken for 1
//! MiB, the machine's default, and may misjudge who is sequential. Counters saturate.
//!
//! State: 62 B a chunk: 12 of address, 48 of counters, 2 for where it is. O(1) an access, O(chunks
//! met) an epoch, in the order of memory: a list of those that were touched would be in another.

use super::chunks::Chunks;
use super::demand::Demand;
use super::{ChunkAccess, VolumeView};
use thermocline_units::{Bytes, ChunkId, PoolId};

const SECTOR: u64 = 512;
/// How far from the end of the one before a sequential access may begin.
const NEAR: u64 = (512 << 10) / SECTOR;
/// Cells of a chunk.
const CELLS: u64 = 64;

/// What a chunk was asked for in an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// One bit a cell that was written.
    written: u64,
    /// Accesses.
    pub(super) random_reads: u32,
    pub(super) random_writes: u32,
    pub(super) sequential_reads: u32,
    pub(super) sequential_writes: u32,
    /// Writes of what had been written in the epoch.
    pub(super) overwrites: u32,
    /// Units of 512 B.
    pub(super) sectors_read: u32,
    pub(super) sectors_written: u32,
    /// Of both, those of sequential accesses.
    sequential_read: u32,
    sequential_written: u32,
    /// Where in the chunk the last access ended, in sectors.
    end: u32,
}

impl Counts {
    /// Whether there was an access at all.
    #[inline]
    pub(super) fn is_touched(&self) -> bool {
        self.random_reads | self.random_writes | self.sequential_reads | self.sequential_writes != 0
    }

    pub(super) fn reads(&self) -> u64 {
        u64::from(self.random_reads) + u64::from(self.sequential_reads)
    }

    pub(super) fn writes(&self) -> u64 {
        u64::from(self.random_writes) + u64::from(self.sequential_writes)
    }

    pub(super) fn accesses(&self) -> u64 {
        self.reads() + self.writes()
    }

    pub(super) fn bytes(&self) -> u64 {
        (u64::from(self.sectors_read) + u64::from(self.sectors_written)) * SECTOR
    }

    /// What a second of it asks of a pool; `per_second` is 1 over the epoch's seconds.
    #[inline]
    pub(super) fn demand(&self, per_second: f64) -> Demand {
        let rate = |count: u32| f64::from(count) * per_second;
        let bytes = |sectors: u32| f64::from(sectors) * (SECTOR as f64 * per_second);
        Demand {
            random_reads: rate(self.random_reads),
            random_writes: rate(self.random_writes),
            random_read_bytes: bytes(self.sectors_read - self.sequential_read),
            random_written_bytes: bytes(self.sectors_written - self.sequential_written),
            sequential_read_bytes: bytes(self.sequential_read),
            sequential_written_bytes: bytes(self.sequential_written),
        }
    }
}

/// Where the last access of a volume ended.
#[derive(Debug, Clone, Copy)]
struct Tail {
    chunk: u32,
    /// In the chunk, in sectors.
    end: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) chunks: Chunks,
    counts: Vec<Counts>,
    /// Pools by chunk, as of the last `look`.
    homes: Vec<u16>,
    slowest: u16,
    tails: Vec<Tail>,
    chunk_sectors: u64,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity {
            chunks: Chunks::default(),
            counts: Vec::new(),
            homes: Vec::new(),
            slowest: 0,
            tails: Vec::new(),
            chunk_sectors: Bytes::from_mib(1).0 / SECTOR,
        }
    }
}

fn add(count: &mut u32, more: u64) {
    *count = u32::try_from(u64::from(*count) + more).unwrap_or(u32::MAX);
}

impl Activity {
    /// Counts an access; its chunk's number.
    #[inline]
    pub(super) fn record(&mut self, access: &ChunkAccess) -> u32 {
        let number = self.chunks.number(access.chunk);
        let index = number as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, Counts::default());
        }
        let (first, sectors) = (access.offset.0 / SECTOR, access.bytes.0.div_ceil(SECTOR));
        let near = self.follow(access.chunk, first, first + sectors);
        let cells = self.cells(first, sectors);
        let counts = &mut self.counts[index];
        let sequential = near || first == u64::from(counts.end);
        counts.end = (first + sectors) as u32;
        let (accesses, all, of_streams) = match (access.write, sequential) {
            (false, true) => (
                &mut counts.sequential_reads,
                &mut counts.sectors_read,
                &mut counts.sequential_read,
            ),
            (false, false) => {
                (&mut counts.random_reads, &mut counts.sectors_read, &mut counts.sequential_read)
            }
            (true, true) => (
                &mut counts.sequential_writes,
                &mut counts.sectors_written,
                &mut counts.sequential_written,
            ),
            (true, false) => (
                &mut counts.random_writes,
                &mut counts.sectors_written,
                &mut counts.sequential_written,
            ),
        };
        add(accesses, 1);
        add(all, sectors);
        add(of_streams, if sequential { sectors } else { 0 });
        if access.write {
            add(&mut counts.overwrites, u64::from(counts.written & cells == cells));
            counts.written |= cells;
        }
        number
    }

    /// Whether an access continues the last one of its volume, which it becomes.
    #[inline]
    fn follow(&mut self, chunk: ChunkId, first: u64, end: u64) -> bool {
        let volume = chunk.volume.0 as usize;
        if volume >= self.tails.len() {
            self.tails.resize(volume + 1, Tail { chunk: u32::MAX, end: 0 });
        }
        let last = std::mem::replace(&mut self.tails[volume], Tail { chunk: chunk.index, end });
        let distance = if last.chunk == chunk.index {
            first.abs_diff(last.end)
        } else if last.chunk.wrapping_add(1) == chunk.index && last.chunk != u32::MAX {
            self.chunk_sectors.saturating_sub(last.end) + first
        } else {
            u64::MAX
        };
        distance <= NEAR
    }

    /// The cells of a range, one bit each.
    #[inline]
    fn cells(&self, first: u64, sectors: u64) -> u64 {
        let cell = (self.chunk_sectors / CELLS).max(1);
        let low = (first / cell).min(CELLS - 1);
        let high = ((first + sectors.max(1) - 1) / cell).min(CELLS - 1);
        (u64::MAX >> (CELLS - 1 - (high - low))) << low
    }

    /// Takes note of where every chunk is.
    pub(super) fn look(&mut self, view: &dyn VolumeView) {
        self.chunk_sectors = (view.chunk_size().0 / SECTOR).max(1);
        self.slowest = view.pool_count() - 1;
        self.homes.clear();
        self.homes.resize(self.chunks.len() as usize, self.slowest);
        for pool in 0..self.slowest {
            view.visit_pool(PoolId(pool), &mut |chunk| {
                let number = self.chunks.number(chunk) as usize;
                if number >= self.homes.len() {
                    self.homes.resize(number + 1, self.slowest);
                }
                self.homes[number] = pool;
            });
        }
        self.counts.resize(self.homes.len(), Counts::default());
    }

    /// Where `chunk` was at the last `look`; on the slowest pool, or nowhere yet, when it was on no
    /// other.
    #[inline]
    pub(super) fn home(&self, number: u32) -> PoolId {
        PoolId(self.homes[number as usize])
    }

    /// Chunks that the epoch touched, in the order in which they were met.
    pub(super) fn touched(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.counts).filter(|(_, counts)| counts.is_touched()).map(|(number, _)| number)
    }

    /// What the epoch asked of a chunk.
    #[inline]
    pub(super) fn counts(&self, number: u32) -> &Counts {
        &self.counts[number as usize]
    }

    /// Chunks that count at the epoch's end: touched in it, or above the slowest pool. In the order
    /// in which they were met.
    pub(super) fn standing(&self) -> impl Iterator<Item = u32> {
        let all = (0..).zip(self.counts.iter().zip(&self.homes));
        let counts = |(_, (counts, home)): &(u32, (&Counts, &u16))| {
            **home != self.slowest || counts.is_touched()
        };
        all.filter(counts).map(|(number, _)| number)
    }

    /// Starts the next epoch.
    pub(super) fn advance(&mut self) {
        self.counts.fill(Counts::default());
    }

    pub(super) fn bytes(&self) -> u64 {
        let vectors = self.counts.capacity() * size_of::<Counts>()
            + self.homes.capacity() * 2
            + self.tails.capacity() * size_of::<Tail>();
        self.chunks.bytes() + vectors as u64
    }
}

const _: () = assert!(size_of::<Counts>() == 48);

#[cfg(test)]
mod tests;
