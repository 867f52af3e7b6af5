//! Counts of the requests that pools served, or would have served, and the time that these take.
//!
//! The time of requests on a pool, of one pattern: the latency of a lone request of 4 KiB by the
//! pool's [`PoolTraits`], and for what is longer the time of a stream of the same direction. This
//! is corrected by the pool's *level*: the mean latency that the machine measured on it in the
//! epoch, reads and writes apart, over the mean that the traits say for what the actual placement
//! asked of it. So the traits say how patterns differ, and the measurement how fast the pool is
//! now; the actual placement's mean comes out as it was measured. A pool with fewer than
//! [`MEASURED_MIN`] requests of the direction in the epoch keeps its last level, and has that of
//! its traits (1) before there was one.

use super::super::{ChunkAccess, FLASH, Pattern, PoolChange, PoolLoad, PoolTraits};
use thermocline_units::{Bytes, Nanos, PoolId};

/// Requests in an epoch from which on their mean latency says something.
pub(crate) const MEASURED_MIN: u64 = 32;

const SECTOR: u64 = 512;
/// Sectors of the requests that traits speak of.
const UNIT: f64 = 8.0;

/// Requests for a chunk in an epoch, by pattern.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    requests: [u32; 4],
    sectors: [u32; 4],
    /// End of the last access, in sectors of the chunk.
    end: u32,
}

const _: () = assert!(size_of::<Counts>() == 36);
const _: () = assert!(Pattern::RandomWrite as usize == 1 && Pattern::SequentialRead as usize == 2);

impl Counts {
    pub(super) fn is_empty(&self) -> bool {
        self.requests == [0; 4]
    }

    #[inline]
    pub(super) fn add(&mut self, access: &ChunkAccess) {
        let (first, sectors) = (access.offset.0 / SECTOR, access.bytes.0.div_ceil(SECTOR));
        let sequential = first == u64::from(self.end);
        let pattern = usize::from(access.write) + 2 * usize::from(sequential);
        self.end = (first + sectors) as u32;
        self.requests[pattern] = self.requests[pattern].saturating_add(1);
        let sum = u64::from(self.sectors[pattern]) + sectors;
        self.sectors[pattern] = u32::try_from(sum).unwrap_or(u32::MAX);
    }
}

/// Nanoseconds of a request of one unit, and of each unit more, by pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs([(f64, f64); 4]);

impl Costs {
    fn of(&self, pattern: usize, counts: &Counts) -> f64 {
        let (first, more) = self.0[pattern];
        let requests = f64::from(counts.requests[pattern]);
        let units = f64::from(counts.sectors[pattern]) / UNIT;
        requests * first + (units - requests).max(0.0) * more
    }
}

/// Slowdowns of pools against their traits: reads, writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Levels(Vec<[f64; 2]>);

impl Levels {
    /// Pools are at other places; of a new one nothing is known.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        change.shift(&mut self.0, [1.0; 2]);
    }

    fn level(&self, pool: PoolId) -> [f64; 2] {
        self.0.get(usize::from(pool.0)).copied().unwrap_or([1.0; 2])
    }

    pub(super) fn of(&self, pool: PoolId, traits: &PoolTraits) -> Costs {
        let level = self.level(pool);
        Costs(Pattern::ALL.map(|pattern| {
            let direction = pattern as usize % 2;
            let stream = traits.services[Pattern::SequentialRead as usize + direction];
            let more = 1e9 / stream.per_second as f64;
            let first = traits.of(pattern).latency.0 as f64;
            (first * level[direction], more * level[direction])
        }))
    }

    /// Compares what was measured on a pool with what its traits say of the same requests.
    pub(super) fn learn(&mut self, pool: PoolId, load: &PoolLoad, expected: &Tally) {
        let Some(served) = expected.pools.get(usize::from(pool.0)) else { return };
        let mut level = self.level(pool);
        let sides = [
            (load.reads, load.read_latency, served.reads, served.time[0]),
            (load.writes, load.write_latency, served.writes, served.time[1]),
        ];
        for (level, (requests, measured, told, time)) in level.iter_mut().zip(sides) {
            if requests.min(told) >= MEASURED_MIN && measured > Nanos(0) && time > 0.0 {
                *level = measured.0 as f64 / (time / told as f64);
            }
        }
        let index = usize::from(pool.0);
        self.0.resize(self.0.len().max(index + 1), [1.0; 2]);
        self.0[index] = level;
    }
}

/// Requests that one pool served.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Served {
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that wrote.
    pub writes: u64,
    /// Bytes read by clients.
    pub read_bytes: Bytes,
    /// Bytes written by clients.
    pub written_bytes: Bytes,
    /// Bytes of chunks that were moved to it.
    pub moved_in: Bytes,
    /// Nanoseconds of all reads and of all writes, as expected.
    time: [f64; 2],
}

impl Served {
    /// Accesses of both kinds.
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes of both kinds.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.read_bytes.0 + self.written_bytes.0)
    }

    /// Bytes written, by clients and by moves: what wears flash.
    pub fn wear(&self) -> Bytes {
        Bytes(self.written_bytes.0 + self.moved_in.0)
    }

    fn add(&mut self, other: &Served) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes.0 += other.read_bytes.0;
        self.written_bytes.0 += other.written_bytes.0;
        self.moved_in.0 += other.moved_in.0;
        self.time.iter_mut().zip(other.time).for_each(|(sum, time)| *sum += time);
    }

    /// Load as the pool would have measured it.
    pub(super) fn load(&self) -> PoolLoad {
        let mean = |time: f64, count: u64| Nanos((time / count.max(1) as f64) as u64);
        PoolLoad {
            reads: self.reads,
            writes: self.writes,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            read_latency: mean(self.time[0], self.reads),
            write_latency: mean(self.time[1], self.writes),
        }
    }
}

/// Requests that all pools served in some time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// Served requests by pool; pools behind the last one that did anything may be missing.
    pub pools: Vec<Served>,
    /// Requests that pools served which are gone.
    gone: Served,
}

impl Tally {
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        if let PoolChange::Left(pool) = change {
            self.gone.add(&self.of(pool));
        }
        change.shift(&mut self.pools, Served::default());
    }

    fn pool(&mut self, pool: PoolId) -> &mut Served {
        let index = usize::from(pool.0);
        self.pools.resize(self.pools.len().max(index + 1), Served::default());
        &mut self.pools[index]
    }

    pub(super) fn add(&mut self, pool: PoolId, counts: &Counts, costs: &Costs) {
        let served = self.pool(pool);
        for pattern in Pattern::ALL.map(|pattern| pattern as usize) {
            let requests = u64::from(counts.requests[pattern]);
            let bytes = u64::from(counts.sectors[pattern]) * SECTOR;
            let writes = pattern % 2 == 1;
            let (count, sum) = match writes {
                false => (&mut served.reads, &mut served.read_bytes),
                true => (&mut served.writes, &mut served.written_bytes),
            };
            *count += requests;
            sum.0 += bytes;
            served.time[usize::from(writes)] += costs.of(pattern, counts);
        }
    }

    pub(super) fn add_move(&mut self, to: PoolId, chunk: Bytes) {
        self.pool(to).moved_in.0 += chunk.0;
    }

    pub(super) fn add_all(&mut self, other: &Tally) {
        for (index, served) in other.pools.iter().enumerate() {
            self.pool(PoolId(index as u16)).add(served);
        }
        self.gone.add(&other.gone);
    }

    /// Requests that a pool served.
    pub fn of(&self, pool: PoolId) -> Served {
        self.pools.get(usize::from(pool.0)).copied().unwrap_or_default()
    }

    /// Requests that the fastest pool served.
    pub fn fastest(&self) -> Served {
        self.of(FLASH)
    }

    /// Requests that all of them served, and those that are gone.
    pub fn all(&self) -> Served {
        let mut all = self.gone;
        self.pools.iter().for_each(|served| all.add(served));
        all
    }

    /// The expected mean latency; `None` without an access.
    pub fn mean_latency(&self) -> Option<Nanos> {
        let all = self.all();
        let time = all.time[0] + all.time[1];
        (all.accesses() > 0).then(|| Nanos((time / all.accesses() as f64).round() as u64))
    }

    /// The share of the accesses that the fastest pool served; `None` without an access.
    pub fn fastest_share(&self) -> Option<f64> {
        let all = self.all().accesses();
        (all > 0).then(|| self.fastest().accesses() as f64 / all as f64)
    }
}
