//! Facts about a pool for placements, beside how full it is: its capabilities, and its load.
//!
//! Plain numbers, the same in the laboratory, live, and in a recording, which keeps them as a list
//! ([`PoolTraits::figures`], [`PoolLoad::figures`]) so that a replayed placement reads what the
//! recorded one read. Nothing here is measured or decided.

use thermocline_units::{Bytes, Nanos, PoolId};

/// Kinds of requests, as far as devices care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Reads here and there.
    RandomRead,
    /// Writes here and there.
    RandomWrite,
    /// Reads one after the other.
    SequentialRead,
    /// Writes one after the other.
    SequentialWrite,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 4] = [
        Pattern::RandomRead,
        Pattern::RandomWrite,
        Pattern::SequentialRead,
        Pattern::SequentialWrite,
    ];
    /// Those that write.
    pub const WRITES: [Pattern; 2] = [Pattern::RandomWrite, Pattern::SequentialWrite];
    /// Those that are random.
    pub(crate) const RANDOM: [Pattern; 2] = [Pattern::RandomRead, Pattern::RandomWrite];
}

/// Service of one pattern by a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Mean latency of a request of 4 KiB that is alone.
    pub latency: Nanos,
    /// Units of 4 KiB a second at most: requests where the pattern is random, a stream's bytes
    /// divided by 4,096 where it is sequential. At least 1.
    pub per_second: u64,
}

/// Abilities and costs of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolTraits {
    /// Service by [`Pattern`], in the order of [`Pattern::ALL`].
    pub services: [Service; 4],
    /// Price of a GiB in millionths of whatever currency, where it is known.
    pub price_per_gib: Option<u64>,
    /// Power in operation, in milliwatts, where it is known.
    pub milliwatts: Option<u64>,
    /// Times that all of it may be written over before it is worn out; `None`: it does not wear, or
    /// nobody knows.
    pub overwrites: Option<u64>,
}

/// Numbers of [`PoolTraits::figures`].
const TRAIT_FIGURES: usize = 11;
/// Numbers of [`PoolLoad::figures`].
const LOAD_FIGURES: usize = 6;

const fn service(latency_ns: u64, per_second: u64) -> Service {
    Service { latency: Nanos(latency_ns), per_second }
}

/// An NVMe SSD, a SATA SSD, a disk of 7,200 rpm: what the device profiles `nvme`, `ssd-sata` and
/// `hdd-7200` come to, rounded. Their order is that of [`Pattern::ALL`].
const ASSUMED: [[Service; 4]; 3] = [
    [
        service(66_000, 366_000),
        service(18_000, 158_000),
        service(66_000, 1_340_000),
        service(18_000, 600_000),
    ],
    [
        service(100_000, 100_000),
        service(27_800, 27_000),
        service(100_000, 134_000),
        service(27_800, 127_000),
    ],
    [
        service(12_460_000, 80),
        service(12_460_000, 80),
        service(79_000, 35_000),
        service(79_000, 35_000),
    ],
];

impl PoolTraits {
    /// Assumptions about a pool of which nothing is known, by its place among `pools`: the fastest
    /// is an NVMe SSD, the slowest of several a disk of 7,200 rpm, all between are SATA SSDs.
    /// Nothing is said of price, power and wear.
    pub fn assumed(pool: PoolId, pools: u16) -> PoolTraits {
        let class = match pool.0 {
            0 => 0,
            slowest if slowest + 1 >= pools => 2,
            _ => 1,
        };
        PoolTraits {
            services: ASSUMED[class],
            price_per_gib: None,
            milliwatts: None,
            overwrites: None,
        }
    }

    /// Service of requests of `pattern`.
    #[inline]
    pub fn of(&self, pattern: Pattern) -> Service {
        self.services[pattern as usize]
    }

    /// Random reads that it serves at the same time, at least 1: a disk one, flash as many as it
    /// has dies that are not in each other's way. By Little's law, latency times rate.
    pub fn at_once(&self) -> u32 {
        let read = self.of(Pattern::RandomRead);
        let served = read.latency.as_secs_f64() * read.per_second as f64;
        (served.round() as u32).max(1)
    }

    /// All of it as numbers, for a recording.
    pub fn figures(&self) -> impl Iterator<Item = u64> {
        let known = |value: Option<u64>| value.map_or(0, |value| value.saturating_add(1));
        let others = [self.price_per_gib, self.milliwatts, self.overwrites].map(known);
        let services = self.services.map(|service| [service.latency.0, service.per_second]);
        services.into_iter().flatten().chain(others)
    }

    /// Reads the numbers of [`PoolTraits::figures`]; `None` when these are too few. Numbers behind
    /// them are left out.
    pub fn from_figures(figures: &[u64]) -> Option<PoolTraits> {
        let figures: &[u64; TRAIT_FIGURES] = figures.first_chunk()?;
        let [price_per_gib, milliwatts, overwrites] =
            [8, 9, 10].map(|at: usize| figures[at].checked_sub(1));
        let services = [0, 2, 4, 6].map(|at: usize| Service {
            latency: Nanos(figures[at]),
            per_second: figures[at + 1].max(1),
        });
        Some(PoolTraits { services, price_per_gib, milliwatts, overwrites })
    }
}

/// Load of clients on a pool in the epoch that ends, as the machine measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolLoad {
    /// Requests to the device that read.
    pub reads: u64,
    /// Requests to the device that wrote.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Bytes written.
    pub written_bytes: Bytes,
    /// Mean latency of reads, the wait in the device included; 0 without any.
    pub read_latency: Nanos,
    /// Mean latency of writes, the wait in the device included; 0 without any.
    pub write_latency: Nanos,
}

impl PoolLoad {
    /// Requests to the device.
    pub fn requests(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Mean latency of all requests; `None` without any.
    pub fn latency(&self) -> Option<Nanos> {
        // Figures of a recording may be anything.
        let of = |count: u64, mean: Nanos| u128::from(count) * u128::from(mean.0);
        let sum =
            of(self.reads, self.read_latency).saturating_add(of(self.writes, self.write_latency));
        (self.requests() > 0).then(|| Nanos((sum / u128::from(self.requests())) as u64))
    }

    /// All of it as numbers, for a recording.
    pub fn figures(&self) -> [u64; LOAD_FIGURES] {
        let PoolLoad { reads, writes, read_bytes, written_bytes, read_latency, write_latency } =
            *self;
        [reads, writes, read_bytes.0, written_bytes.0, read_latency.0, write_latency.0]
    }

    /// Reads the numbers of [`PoolLoad::figures`], and returns those behind them; `None` when these
    /// are too few.
    pub fn from_figures(figures: &[u64]) -> Option<(PoolLoad, &[u64])> {
        let (&[reads, writes, read, written, read_ns, write_ns], rest) =
            figures.split_first_chunk::<LOAD_FIGURES>()?;
        let load = PoolLoad {
            reads,
            writes,
            read_bytes: Bytes(read),
            written_bytes: Bytes(written),
            read_latency: Nanos(read_ns),
            write_latency: Nanos(write_ns),
        };
        Some((load, rest))
    }
}

#[cfg(test)]
mod tests;
