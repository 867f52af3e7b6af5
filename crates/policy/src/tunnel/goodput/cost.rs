//! Processor time for each byte, by choice.
//!
//! 1. Each choice has a mean of cost a byte and of chunks a byte, over its last [`MEMORY`] bytes.
//!    A sample above [`SPIKE`] times what was expected counts as that: the processor was elsewhere.
//! 2. Over the means, cost = a + b · chunks is fitted by least squares, weighted by evidence: one b
//!    for all, and an a for each kind of cutting. A guess of b with little weight keeps the fit
//!    sound while all evidence is of one size.
//! 3. What a choice costs is its own mean, so far as it has evidence, and the fit for the rest:
//!    fingerprints are not equally fast at all sizes, so the line is no more than a guide.
//!
//! Means of choices that are not in force grow old; their weight in the fit halves in each `stale`
//! bytes. State: 32 B a choice.

use crate::tunnel::{Choice, Kind, Sample};

/// Bytes that a mean remembers.
const MEMORY: f64 = 16.0 * 1048576.0;
/// Bytes of its own after which a choice's mean counts as much as the fit.
const TRUSTED: f64 = 1048576.0;
/// A sample costs at most so many times what was expected.
const SPIKE: f64 = 4.0;
/// Guesses before anything is known, in seconds: a chunk's fingerprint and look-up; a byte relayed,
/// cut by counting, cut by content. Of the order measured for BLAKE3, TCP with TLS, and gear.
const CHUNK_S: f64 = 0.6e-6;
const BYTE_S: [f64; 3] = [0.5e-9, 0.6e-9, 0.9e-9];
/// Chunks for each that the expected size would give: a least size before the search makes
/// content's chunks longer.
const DENSITY: [f64; 3] = [0.0, 1.0, 0.8];
/// Weight of the guess of b: as if this many bytes had been seen at chunks of 0 and 1 KiB.
const GUESS: f64 = 0.02 * 1048576.0 / (1024.0 * 1024.0);
/// No cost is below this; a byte in a picosecond.
const LEAST_S: f64 = 1e-12;

#[derive(Clone, Copy, Default)]
struct Mean {
    /// Bytes, at most [`MEMORY`].
    weight: f64,
    /// Seconds a byte.
    cost: f64,
    /// Chunks a byte.
    chunks: f64,
    /// Bytes of the class when it was last seen.
    at: f64,
}

pub(super) struct Cost {
    means: [Mean; Choice::COUNT],
    stale: f64,
    per_chunk: f64,
    per_byte: [f64; 3],
    density: [f64; 3],
}

impl Cost {
    pub(super) fn new(stale: f64) -> Cost {
        let means = [Mean::default(); Choice::COUNT];
        Cost { means, stale, per_chunk: CHUNK_S, per_byte: BYTE_S, density: DENSITY }
    }

    /// Enters a sample; `seen` bytes of the class have passed.
    pub(super) fn observe(&mut self, sample: &Sample, seen: f64) {
        let bytes = sample.bytes.0 as f64;
        let spent = sample.processing.as_secs_f64();
        if bytes <= 0.0 || spent <= 0.0 {
            return;
        }
        let expected = self.of(sample.choice);
        let mean = &mut self.means[sample.choice.index()];
        let limit = if mean.weight > 0.0 { SPIKE * expected } else { f64::INFINITY };
        let cost = (spent / bytes).clamp(LEAST_S, limit);
        mean.weight = (mean.weight + bytes).min(MEMORY);
        let share = (bytes / mean.weight).min(1.0);
        // A mean that was far above the sample loses it in rounding.
        mean.cost = (mean.cost + (cost - mean.cost) * share).max(LEAST_S);
        mean.chunks += (sample.chunks as f64 / bytes - mean.chunks) * share;
        mean.at = seen;
    }

    /// Fits the line anew; `seen` bytes of the class have passed.
    pub(super) fn fit(&mut self, seen: f64) {
        let mut kinds = [Sums::default(); 3];
        let mut density = [(0.0, 0.0); 3];
        for choice in Choice::all() {
            let mean = &self.means[choice.index()];
            let weight = mean.weight * (-(seen - mean.at) / self.stale).exp2();
            if weight <= 0.0 {
                continue;
            }
            kinds[kind(choice)].add(weight, mean.chunks, mean.cost);
            if let Some(size) = choice.size() {
                let (sum, weights) = &mut density[kind(choice)];
                *sum += weight * mean.chunks * f64::from(size.bytes());
                *weights += weight;
            }
        }
        let above: f64 = kinds.iter().map(Sums::covariance).sum();
        let below: f64 = kinds.iter().map(Sums::variance).sum();
        self.per_chunk = ((above + GUESS * CHUNK_S) / (below + GUESS)).max(0.0);
        for (kind, sums) in kinds.iter().enumerate() {
            if sums.weight > 0.0 {
                let rest = (sums.cost - self.per_chunk * sums.chunks) / sums.weight;
                self.per_byte[kind] = rest.max(LEAST_S);
            }
            let (sum, weights) = density[kind];
            if sum > 0.0 {
                self.density[kind] = sum / weights;
            }
        }
    }

    /// Seconds that a byte takes under `choice`; above 0.
    pub(super) fn of(&self, choice: Choice) -> f64 {
        let mean = &self.means[choice.index()];
        let own = mean.weight / (mean.weight + TRUSTED);
        own * mean.cost + (1.0 - own) * self.fitted(choice)
    }

    fn fitted(&self, choice: Choice) -> f64 {
        let kind = kind(choice);
        let chunks = choice.size().map_or(0.0, |size| self.density[kind] / f64::from(size.bytes()));
        self.per_byte[kind] + self.per_chunk * chunks
    }
}

fn kind(choice: Choice) -> usize {
    match choice.kind() {
        Kind::None => 0,
        Kind::Fixed => 1,
        Kind::Content => 2,
    }
}

/// Weighted sums of a regression of cost on chunks.
#[derive(Clone, Copy, Default)]
struct Sums {
    weight: f64,
    chunks: f64,
    cost: f64,
    chunks_squared: f64,
    product: f64,
}

impl Sums {
    fn add(&mut self, weight: f64, chunks: f64, cost: f64) {
        self.weight += weight;
        self.chunks += weight * chunks;
        self.cost += weight * cost;
        self.chunks_squared += weight * chunks * chunks;
        self.product += weight * chunks * cost;
    }

    fn variance(&self) -> f64 {
        match self.weight > 0.0 {
            true => (self.chunks_squared - self.chunks * self.chunks / self.weight).max(0.0),
            false => 0.0,
        }
    }

    fn covariance(&self) -> f64 {
        match self.weight > 0.0 {
            true => self.product - self.chunks * self.cost / self.weight,
            false => 0.0,
        }
    }
}
