//! Accesses to chunks in the running epoch, and the chunks' pools: state that the placements that
//! look at patterns share.
//!
//! 1. An access is *sequential* when it begins within 512 KiB of the end of the one before it in
//!    its volume (ChewAnalyzer, Ge 2017 §3.2), or exactly where the last one in its own chunk
//!    ended: of several streams side by side each is one. So is the first one in a chunk if it is
//!    for the chunk's beginning, where such a stream comes from the chunk before. All others are
//!    *random*.
//! 2. A write all of whose pages of 4 KiB were written in the epoch before it is an *overwrite*, as
//!    in the source, which counts blocks. Smaller writes count for the whole page.
//! 3. At the epoch's end `look` takes down where every chunk is; chunks met on a pool above the
//!    slowest are known from then on. Those that were never met are on the slowest pool, cold.
//! 4. `advance` forgets the epoch: what was touched, not what is known.
//!
//! Counters are far apart in memory, and waiting for them is most of the work: an access asks for
//! those of its chunk and is counted when 7 others have come, or at `catch_up`. That changes no
//! count, because all are counted in their order.
//!
//! The size of a chunk is first known at the end of the first epoch; until then it is taken for 1
//! MiB, the machine's default, and may misjudge who is sequential. Counters saturate.
//!
//! State: 58 B a chunk: 12 of address, 44 of counters, 2 for where it is; and 32 B for each MiB of
//! a chunk that was written in the epoch. O(1) an access, O(chunks met) an epoch, in the order of
//! memory: a list of those that were touched would be in another.

use super::chunks::Chunks;
use super::demand::Demand;
use super::{ChunkAccess, Pattern, VolumeView};
use thermocline_units::{Bytes, ChunkId, PoolId, prefetch};

const SECTOR: u64 = 512;
/// Greatest distance of a sequential access from the end of the one before, sectors.
const NEAR: u64 = (512 << 10) / SECTOR;
/// Sectors of a page.
const PAGE: u64 = (4 << 10) / SECTOR;
/// Accesses that wait for the counters of their chunk: those of the first are there when the last
/// has come. A power of two.
const AHEAD: usize = 8;
/// A chunk that there is none of.
const NONE: u32 = u32::MAX;

/// Requests for a chunk in an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Place of the bits of its written pages, counted from 1; 0: it was not written.
    map: u32,
    /// Accesses, and their units of 512 B, by pattern in the order of [`Pattern::ALL`].
    accesses: [u32; 4],
    sectors: [u32; 4],
    /// Writes of what had been written in the epoch.
    pub(super) overwrites: u32,
    /// End of the last access in the chunk, in sectors.
    end: u32,
}

impl Counts {
    /// True if there was an access at all.
    #[inline]
    pub(super) fn is_touched(&self) -> bool {
        self.accesses != [0; 4]
    }

    /// Adds what another chunk was asked for; which pages were written is forgotten.
    pub(super) fn add(&mut self, other: &Counts) {
        let add = |sums: &mut [u32; 4], more: &[u32; 4]| {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        };
        add(&mut self.accesses, &other.accesses);
        add(&mut self.sectors, &other.sectors);
        self.overwrites = self.overwrites.saturating_add(other.overwrites);
    }

    /// Accesses by pattern, in the order of [`Pattern::ALL`].
    pub(super) fn by_pattern(&self) -> [u64; 4] {
        self.accesses.map(u64::from)
    }

    fn sum(counts: &[u32; 4], patterns: [Pattern; 2]) -> u64 {
        patterns.iter().map(|&pattern| u64::from(counts[pattern as usize])).sum()
    }

    pub(super) fn accesses(&self) -> u64 {
        self.by_pattern().iter().sum()
    }

    pub(super) fn writes(&self) -> u64 {
        Counts::sum(&self.accesses, Pattern::WRITES)
    }

    pub(super) fn random(&self) -> u64 {
        Counts::sum(&self.accesses, Pattern::RANDOM)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sectors.iter().map(|&sectors| u64::from(sectors)).sum::<u64>() * SECTOR
    }

    pub(super) fn bytes_written(&self) -> u64 {
        Counts::sum(&self.sectors, Pattern::WRITES) * SECTOR
    }

    /// Demand on a pool in a second; `per_second` is 1 over the epoch's seconds.
    #[inline]
    pub(super) fn demand(&self, per_second: f64) -> Demand {
        let [random_reads, random_writes, ..] =
            self.accesses.map(|count| f64::from(count) * per_second);
        let bytes = self.sectors.map(|count| f64::from(count) * (SECTOR as f64 * per_second));
        let [random_read_bytes, random_written_bytes, ..] = bytes;
        let [.., sequential_read_bytes, sequential_written_bytes] = bytes;
        Demand {
            random_reads,
            random_writes,
            random_read_bytes,
            random_written_bytes,
            sequential_read_bytes,
            sequential_written_bytes,
        }
    }
}

impl Counts {
    /// Takes an access in.
    #[inline]
    fn count(&mut self, access: &Waiting, written: &mut Written) {
        // Few branches: what comes next, nobody can predict.
        let sequential = access.near | (access.first == u64::from(self.end));
        let pattern = usize::from(access.write) | usize::from(sequential) << 1;
        self.end = (access.first + access.sectors) as u32;
        self.accesses[pattern] = self.accesses[pattern].saturating_add(1);
        let sum = u64::from(self.sectors[pattern]) + access.sectors;
        self.sectors[pattern] = u32::try_from(sum).unwrap_or(u32::MAX);
        if access.write {
            if self.map == 0 {
                self.map = written.add();
            }
            let again = written.write(self.map, access.first, access.sectors);
            self.overwrites = self.overwrites.saturating_add(u32::from(again));
        }
    }
}

/// Pages that were written in the epoch: one bit each, of the chunks that were written.
#[derive(Debug, Default)]
struct Written {
    bits: Vec<u64>,
    /// Words of a chunk.
    words: usize,
}

impl Written {
    /// Forgets all; chunks are of this size from now on.
    fn restart(&mut self, chunk_sectors: u64) {
        self.bits.clear();
        self.words = chunk_sectors.div_ceil(PAGE * 64).max(1) as usize;
    }

    /// A map for one more chunk, none of whose pages was written; its number from 1 on, or 0 when
    /// there are too many to be told apart.
    fn add(&mut self) -> u32 {
        let number = self.bits.len() / self.words + 1;
        let Ok(number) = u32::try_from(number) else { return 0 };
        self.bits.resize(self.bits.len() + self.words, 0);
        number
    }

    /// Writes a range of a chunk's sectors; true if all its pages had been written. What lies
    /// behind the chunk's end, whose size is not known in the first epoch, never had.
    #[inline]
    fn write(&mut self, map: u32, first: u64, sectors: u64) -> bool {
        let (low, high) = (first / PAGE, (first + sectors.max(1) - 1) / PAGE);
        if map == 0 || high / 64 >= self.words as u64 {
            return false;
        }
        let map = (map as usize - 1) * self.words;
        let mut again = true;
        for word in low / 64..=high / 64 {
            let from = low.max(word * 64) % 64;
            let to = high.min(word * 64 + 63) % 64;
            let mask = (u64::MAX >> (63 - (to - from))) << from;
            let bits = &mut self.bits[map + word as usize];
            again &= *bits & mask == mask;
            *bits |= mask;
        }
        again
    }
}

/// An access whose counters are on their way.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u32,
    write: bool,
    /// True if it continues the one before it in its volume.
    near: bool,
    first: u64,
    sectors: u64,
}

const NOBODY: Waiting = Waiting { number: NONE, write: false, near: false, first: 0, sectors: 0 };

/// Requests for chunks in the running epoch, and the pools that hold them.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) chunks: Chunks,
    counts: Vec<Counts>,
    /// Pools by chunk, as of the last `look`.
    pools: Vec<u16>,
    slowest: u16,
    /// Ends of the last accesses by volume, in sectors.
    tails: Vec<u64>,
    chunk_sectors: u64,
    written: Written,
    /// The last accesses, the oldest at `oldest`.
    waiting: [Waiting; AHEAD],
    oldest: usize,
}

impl Default for Activity {
    fn default() -> Activity {
        let chunk_sectors = Bytes::from_mib(1).0 / SECTOR;
        let mut written = Written::default();
        written.restart(chunk_sectors);
        Activity {
            chunks: Chunks::default(),
            counts: Vec::new(),
            pools: Vec::new(),
            slowest: 0,
            tails: Vec::new(),
            chunk_sectors,
            written,
            waiting: [NOBODY; AHEAD],
            oldest: 0,
        }
    }
}

impl Activity {
    /// Takes an access in, which is counted soon; its chunk's number.
    #[inline]
    pub(super) fn record(&mut self, access: &ChunkAccess) -> u32 {
        let number = self.chunks.number(access.chunk);
        let index = number as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, Counts::default());
        }
        prefetch(&self.counts, index);
        let (first, sectors) = (access.offset.0 / SECTOR, access.bytes.0.div_ceil(SECTOR));
        let near = self.follow(access.chunk, first, sectors);
        let newest = Waiting { number, write: access.write, near, first, sectors };
        let oldest = std::mem::replace(&mut self.waiting[self.oldest % AHEAD], newest);
        self.oldest += 1;
        if oldest.number != NONE {
            self.counts[oldest.number as usize].count(&oldest, &mut self.written);
        }
        number
    }

    /// Catches up; chunks are of this size from now on, a power of two.
    pub(super) fn set_chunk_size(&mut self, size: Bytes) {
        self.catch_up();
        let chunk_sectors = (size.0 / SECTOR).max(1);
        if chunk_sectors != self.chunk_sectors {
            self.chunk_sectors = chunk_sectors;
            self.counts.iter_mut().for_each(|counts| counts.map = 0);
            self.written.restart(chunk_sectors);
        }
    }

    /// Counts what still waits.
    pub(super) fn catch_up(&mut self) {
        for at in self.oldest..self.oldest + AHEAD {
            let waiting = std::mem::replace(&mut self.waiting[at % AHEAD], NOBODY);
            if waiting.number != NONE {
                self.counts[waiting.number as usize].count(&waiting, &mut self.written);
            }
        }
        self.oldest = 0;
    }

    /// True if an access continues the last one of its volume, which it becomes.
    #[inline]
    fn follow(&mut self, chunk: ChunkId, first: u64, sectors: u64) -> bool {
        let volume = chunk.volume.0 as usize;
        if volume >= self.tails.len() {
            self.tails.resize(volume + 1, u64::MAX / 2);
        }
        let begin = u64::from(chunk.index) * self.chunk_sectors + first;
        let last = std::mem::replace(&mut self.tails[volume], begin + sectors);
        begin.abs_diff(last) <= NEAR
    }

    /// Catches up, and takes note of where every chunk is.
    pub(super) fn look(&mut self, view: &dyn VolumeView) {
        self.set_chunk_size(view.chunk_size());
        self.slowest = view.pool_count() - 1;
        self.pools.clear();
        self.pools.resize(self.chunks.len() as usize, self.slowest);
        for pool in 0..self.slowest {
            view.visit_pool(PoolId(pool), &mut |chunk| {
                let number = self.chunks.number(chunk) as usize;
                if number >= self.pools.len() {
                    self.pools.resize(number + 1, self.slowest);
                }
                self.pools[number] = pool;
            });
        }
        self.counts.resize(self.pools.len(), Counts::default());
    }

    /// The same, and meets the chunks of the slowest pool, too: every chunk that lives is known.
    pub(super) fn look_everywhere(&mut self, view: &dyn VolumeView) {
        self.look(view);
        view.visit_pool(PoolId(self.slowest), &mut |chunk| _ = self.chunks.number(chunk));
        let count = self.chunks.len() as usize;
        self.pools.resize(count, self.slowest);
        self.counts.resize(count, Counts::default());
    }

    /// Pool of `chunk` at the last `look`; the slowest when it was nowhere yet.
    #[inline]
    pub(super) fn pool_of(&self, number: u32) -> PoolId {
        PoolId(self.pools[number as usize])
    }

    /// Chunks that the epoch touched, in the order in which they were met.
    pub(super) fn touched(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.counts).filter(|(_, counts)| counts.is_touched()).map(|(number, _)| number)
    }

    /// Requests for a chunk in the epoch.
    #[inline]
    pub(super) fn counts(&self, number: u32) -> &Counts {
        &self.counts[number as usize]
    }

    /// Chunks above the slowest pool that the epoch did not touch.
    pub(super) fn idle(&self) -> impl Iterator<Item = u32> {
        let above = (0..).zip(&self.pools).filter(|(_, home)| **home != self.slowest);
        above.map(|(number, _)| number).filter(|&number| !self.counts(number).is_touched())
    }

    /// Chunks that count at the epoch's end: touched in it, or above the slowest pool. In the order
    /// in which they were met.
    pub(super) fn standing(&self) -> impl Iterator<Item = u32> {
        let all = (0..).zip(self.counts.iter().zip(&self.pools));
        let counts = |(_, (counts, home)): &(u32, (&Counts, &u16))| {
            **home != self.slowest || counts.is_touched()
        };
        all.filter(counts).map(|(number, _)| number)
    }

    /// Starts the next epoch.
    pub(super) fn advance(&mut self) {
        self.counts.fill(Counts::default());
        self.written.restart(self.chunk_sectors);
    }

    pub(super) fn bytes(&self) -> u64 {
        let vectors = self.counts.capacity() * size_of::<Counts>()
            + self.pools.capacity() * 2
            + self.tails.capacity() * 8
            + self.written.bits.capacity() * 8;
        self.chunks.bytes() + vectors as u64
    }
}

const _: () = assert!(size_of::<Counts>() == 44 && AHEAD.is_power_of_two());
const _: () = assert!(Pattern::RandomWrite as usize == 1 && Pattern::SequentialRead as usize == 2);

#[cfg(test)]
mod tests;
