//! Addresses of the requests of a part: a pattern of [`super::Pattern`] at work.
//!
//! Invariants: every place lies in the part's region; the same seed gives the same places. State:
//! O(1), 16 bytes a sequential stream.

use super::spec::{Drift, Layout, Part, Pattern, Region};
use super::zipf::Zipf;
use thermocline_units::{Bytes, Nanos, Rng};

/// Seeds the order in which files are popular, together with where their region starts.
const FILES_SEED: u64 = 0x6669_6c65_7365_7276;

/// Sequential streams start and jump to multiples of this.
const STREAM_ALIGNMENT: u64 = 4096;

/// A pattern at work.
#[derive(Debug, Clone)]
pub(super) enum Places {
    Zipf(ZipfPlaces),
    Sequential(SequentialPlaces),
    Files(FilePlaces),
    Scan(ScanPlaces),
}

impl Places {
    pub(super) fn new(part: &Part, rng: &mut Rng) -> Places {
        match part.pattern {
            Pattern::Zipf { alpha, block, layout, drift } => {
                let count = part.region.length.div_floor(block);
                Places::Zipf(ZipfPlaces {
                    zipf: Zipf::new(count, alpha),
                    count,
                    block,
                    scatter: (layout == Layout::Scattered).then(|| Scatter::new(count, rng)),
                    drift,
                })
            }
            Pattern::Sequential { streams, run } => {
                Places::Sequential(SequentialPlaces::new(part.region, streams, run, rng))
            }
            Pattern::Files { file, alpha } => {
                let count = part.region.length.div_floor(file);
                // Not of the VM's generator: parts over one region agree on what is popular.
                let mut rng = Rng::seeded(part.region.start.0 ^ FILES_SEED);
                Places::Files(FilePlaces {
                    zipf: Zipf::new(count, alpha),
                    scatter: Scatter::new(count, &mut rng),
                    file,
                    current: 0,
                    position: file.0,
                })
            }
            Pattern::Scan { every } => Places::Scan(ScanPlaces { every, started: 0, position: 0 }),
        }
    }

    /// Offset in the region for a request of `length` bytes, from the region's start.
    #[inline]
    pub(super) fn place(&mut self, now: Nanos, length: u64, region: Region, rng: &mut Rng) -> u64 {
        match self {
            Places::Zipf(places) => places.place(now, rng),
            Places::Sequential(places) => places.place(length, region, rng),
            Places::Files(places) => places.place(length, rng),
            Places::Scan(places) => places.place(length),
        }
    }

    /// Time at which the part goes on: `now` when it is not silent.
    #[inline]
    pub(super) fn active_from(&mut self, now: Nanos, region: Region) -> Nanos {
        match self {
            Places::Zipf(_) | Places::Sequential(_) | Places::Files(_) => now,
            Places::Scan(places) => places.active_from(now, region),
        }
    }
}

/// Popular blocks.
#[derive(Debug, Clone)]
pub(super) struct ZipfPlaces {
    zipf: Zipf,
    count: u64,
    block: Bytes,
    scatter: Option<Scatter>,
    drift: Option<Drift>,
}

impl ZipfPlaces {
    #[inline]
    fn place(&self, now: Nanos, rng: &mut Rng) -> u64 {
        let mut rank = self.zipf.sample(rng);
        if let Some(drift) = self.drift {
            let steps = now.0 / drift.every.0;
            let blocks = (drift.by * self.count as f64) as u64;
            let moved = u128::from(steps) * u128::from(blocks) % u128::from(self.count);
            rank = (rank + moved as u64) % self.count;
        }
        self.scatter.as_ref().map_or(rank, |scatter| scatter.place(rank)) * self.block.0
    }
}

/// A seeded permutation of 0 … n−1 without a table.
///
/// Steps: multiply by an odd number and fold the high half onto the low half, twice, in the
/// smallest power of two that holds n (both are one-to-one there); again while the result is n or
/// more (cycle walking: J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA
/// 2002; fewer than two rounds on average).
#[derive(Debug, Clone)]
struct Scatter {
    count: u64,
    mask: u64,
    fold: u32,
    factors: [u64; 2],
    shift: u64,
}

impl Scatter {
    fn new(count: u64, rng: &mut Rng) -> Scatter {
        let bits = u64::BITS - (count - 1).leading_zeros();
        Scatter {
            count,
            mask: (1 << bits) - 1,
            fold: bits.div_ceil(2).max(1),
            factors: [rng.next_u64() | 1, rng.next_u64() | 1],
            shift: rng.next_u64(),
        }
    }

    #[inline]
    fn place(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            x = x.wrapping_add(self.shift) & self.mask;
            for factor in self.factors {
                x = x.wrapping_mul(factor) & self.mask;
                x ^= x >> self.fold;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

/// Streams that go on where they stopped.
#[derive(Debug, Clone)]
pub(super) struct SequentialPlaces {
    streams: Vec<Stream>,
    run: Option<Bytes>,
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    position: u64,
    /// Bytes until it jumps.
    left: u64,
}

impl SequentialPlaces {
    fn new(region: Region, count: u32, run: Option<Bytes>, rng: &mut Rng) -> SequentialPlaces {
        let spacing = region.length.0 / u64::from(count);
        let streams = (0..u64::from(count)).map(|index| Stream {
            position: index * spacing / STREAM_ALIGNMENT * STREAM_ALIGNMENT,
            left: run_length(run, rng),
        });
        SequentialPlaces { streams: streams.collect(), run }
    }

    #[inline]
    fn place(&mut self, length: u64, region: Region, rng: &mut Rng) -> u64 {
        let chosen = rng.below(self.streams.len() as u64) as usize;
        let stream = &mut self.streams[chosen];
        if stream.position >= region.length.0 {
            stream.position = 0;
        }
        if stream.left == 0 {
            let places = region.length.0.div_ceil(STREAM_ALIGNMENT);
            stream.position = rng.below(places) * STREAM_ALIGNMENT;
            stream.left = run_length(self.run, rng);
        }
        let place = stream.position;
        stream.position += length;
        stream.left = stream.left.saturating_sub(length);
        place
    }
}

/// Bytes of the next run; at least one.
fn run_length(mean: Option<Bytes>, rng: &mut Rng) -> u64 {
    mean.map_or(u64::MAX, |mean| (rng.exponential(mean.0 as f64) as u64).max(1))
}

/// Whole files, one after the other.
#[derive(Debug, Clone)]
pub(super) struct FilePlaces {
    zipf: Zipf,
    scatter: Scatter,
    file: Bytes,
    /// Beginning of the current file in the region, and how far it is done.
    current: u64,
    position: u64,
}

impl FilePlaces {
    #[inline]
    fn place(&mut self, length: u64, rng: &mut Rng) -> u64 {
        if self.position >= self.file.0 {
            self.current = self.scatter.place(self.zipf.sample(rng)) * self.file.0;
            self.position = 0;
        }
        let place = self.current + self.position;
        self.position += length;
        place
    }
}

/// A scan of the whole region at fixed intervals.
#[derive(Debug, Clone)]
pub(super) struct ScanPlaces {
    every: Nanos,
    /// Number of the scan that runs or ran last.
    started: u64,
    position: u64,
}

impl ScanPlaces {
    fn place(&mut self, length: u64) -> u64 {
        let place = self.position;
        self.position += length;
        place
    }

    /// A scan that outlasts the interval is finished before the next begins.
    fn active_from(&mut self, now: Nanos, region: Region) -> Nanos {
        if self.position < region.length.0 {
            return now;
        }
        let due = now.0 / self.every.0;
        if due > self.started {
            self.started = due;
            self.position = 0;
            return now;
        }
        Nanos(self.every.0.saturating_mul(self.started.saturating_add(1)))
    }
}
