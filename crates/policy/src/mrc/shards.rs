//! SHARDS: the miss-ratio curve of LRU from a small, hashed sample of lines.
//!
//! 1. A line is in the sample if the hash of its group is below a threshold; the rate R is the
//!    threshold's part of the hash space. Every access to a sampled line is sampled.
//! 2. The stack distance within the sample, over R, estimates the distance in the full trace.
//! 3. *Fixed size*: beyond `lines_max` sampled lines, the lines with the largest hash leave, the
//!    threshold falls to that hash, and what was counted shrinks by new over old threshold.
//! 4. *Adjusted* (SHARDS-adj): N accesses should have given R·N samples. The difference, which skew
//!    makes large (a hot line is in the sample wholly or not at all), goes to distance 0, and R·N
//!    is the denominator. Without the new denominator the adjustment is wrong at every size.
//!
//! Source: C. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015. Differs:
//! whole groups of lines are sampled, so that a request of several lines is in the sample as a
//! whole. The same sampler serves miniature simulation (Waldspurger et al., "Cache Modeling and
//! Optimization using Miniature Simulations", ATC 2017) of any policy.
//!
//! State: about 90 B a sampled line, 8 B a point of the curve. O(log sample) a sampled access, one
//! hash any other.

mod distance;

pub(crate) use distance::StackDistance;

use super::MissRatioCurve;
use std::collections::BTreeSet;

/// Hashes are 32 bits wide; a threshold of this keeps every line.
const HASH_SPACE: u64 = 1 << 32;

/// A sample of lines, drawn by hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// Keep hashes below this; at most [`HASH_SPACE`].
    threshold: u64,
    group_bits: u32,
    seed: u64,
}

impl Sampler {
    /// A sampler of about the part `rate` of all groups of `group_lines` lines.
    ///
    /// # Panics
    /// When `rate` is not in `(0, 1]`, or `group_lines` no power of two.
    pub fn new(rate: f64, group_lines: u64, seed: u64) -> Sampler {
        assert!(rate > 0.0 && rate <= 1.0, "a sampling rate is above 0 and at most 1");
        assert!(group_lines.is_power_of_two(), "a group of lines is a power of two");
        let threshold = ((rate * HASH_SPACE as f64).round() as u64).max(1);
        Sampler { threshold, group_bits: group_lines.trailing_zeros(), seed }
    }

    /// True if the line with this `key` is in the sample. Neighbouring keys are neighbouring lines:
    /// a block number with the volume in the high bits, or a line's dense number.
    #[inline]
    pub fn keeps(&self, key: u64) -> bool {
        self.hash(key) < self.threshold
    }

    /// The same for a line whose [`Sampler::hash`] is known.
    #[inline]
    pub fn keeps_hash(&self, hash: u32) -> bool {
        u64::from(hash) < self.threshold
    }

    /// Keeps only hashes below `threshold` ≥ 1 from now on.
    pub fn lower(&mut self, threshold: u64) {
        assert!((1..=self.threshold).contains(&threshold), "a threshold only falls");
        self.threshold = threshold;
    }

    /// Hashes below this are kept; 1 to 2³².
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The seed of its hash.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The part of all lines that is kept.
    pub fn rate(&self) -> f64 {
        self.threshold as f64 / HASH_SPACE as f64
    }

    /// 32 well-mixed bits of the key's group (the finaliser of SplitMix64).
    #[inline]
    pub fn hash(&self, key: u64) -> u64 {
        let mut z = (key >> self.group_bits) ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) >> 32
    }
}

/// Places of a curve's points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// Lines between two points, ≥ 1.
    pub step_lines: u64,
    /// Points above size 0, ≥ 1.
    pub points: usize,
}

/// The bound of a sample of fixed size.
#[derive(Debug)]
struct Bound {
    /// Sampled lines at most.
    lines_max: usize,
    /// Hash and key of every sampled line.
    hashes: BTreeSet<(u64, u64)>,
}

/// Builds a miss-ratio curve of LRU from the accesses it is shown.
#[derive(Debug)]
pub(crate) struct Shards {
    sampler: Sampler,
    /// Bound on the sample; `None` at a fixed rate.
    bound: Option<Bound>,
    stack: StackDistance,
    resolution: Resolution,
    /// Sampled re-references by distance over step, scaled to the present rate.
    distances: Vec<f64>,
    /// Sampled accesses that count, scaled to the present rate.
    sampled: f64,
    /// Accesses that count.
    total: f64,
}

impl Shards {
    /// Samples at `sampler`'s rate; memory grows with the distinct lines.
    pub(crate) fn fixed_rate(sampler: Sampler, resolution: Resolution) -> Shards {
        assert!(resolution.step_lines > 0 && resolution.points > 0, "a curve has points");
        Shards {
            sampler,
            bound: None,
            stack: StackDistance::default(),
            resolution,
            distances: vec![0.0; resolution.points],
            sampled: 0.0,
            total: 0.0,
        }
    }

    /// Starts at `sampler`'s rate and lowers it so that at most `lines_max` ≥ 1 lines are tracked.
    pub(crate) fn fixed_size(sampler: Sampler, lines_max: usize, resolution: Resolution) -> Shards {
        assert!(lines_max > 0, "a sample has at least one line");
        let bound = Some(Bound { lines_max, hashes: BTreeSet::new() });
        Shards { bound, ..Shards::fixed_rate(sampler, resolution) }
    }

    /// Takes note of an access.
    #[inline]
    pub(crate) fn access(&mut self, key: u64) {
        self.total += 1.0;
        let hash = self.sampler.hash(key);
        if hash < self.sampler.threshold {
            self.sampled += 1.0;
            if let Some(distance) = self.touch(key, hash) {
                let bucket = (distance as f64 / self.sampler.rate()) as u64;
                let bucket = (bucket / self.resolution.step_lines) as usize;
                if let Some(count) = self.distances.get_mut(bucket) {
                    *count += 1.0;
                }
            }
        }
    }

    /// Takes note of an access that brings its line to the front but earns nothing by a hit: it is
    /// in neither the counts nor the denominator (ECI-Cache's writes).
    #[inline]
    pub(crate) fn access_uncounted(&mut self, key: u64) {
        let hash = self.sampler.hash(key);
        if hash < self.sampler.threshold {
            self.touch(key, hash);
        }
    }

    /// The stack distance in the sample, before the access; keeps the sample within its bound.
    fn touch(&mut self, key: u64, hash: u64) -> Option<u64> {
        let distance = self.stack.access(key);
        if let (None, Some(bound)) = (distance, &mut self.bound) {
            bound.hashes.insert((hash, key));
            if bound.hashes.len() > bound.lines_max {
                self.lower_threshold();
            }
        }
        distance
    }

    /// Drops the sampled lines with the largest hash, which becomes the threshold.
    fn lower_threshold(&mut self) {
        let bound = self.bound.as_mut().expect("only a bounded sample outgrows its bound");
        let &(largest, _) = bound.hashes.last().expect("a sample over its bound has lines");
        let dropped = bound.hashes.split_off(&(largest, 0));
        dropped.iter().for_each(|(_, key)| self.stack.remove(*key));
        // A threshold of 0 would keep nothing; one group in 2³² is as good as that.
        let lowered = largest.max(1);
        self.scale(lowered as f64 / self.sampler.threshold as f64);
        self.sampler.threshold = lowered;
    }

    fn scale(&mut self, factor: f64) {
        self.distances.iter_mut().for_each(|count| *count *= factor);
        self.sampled *= factor;
    }

    /// Multiplies all that was counted by `factor` in `0..=1`, so that old accesses weigh less.
    pub(crate) fn fade(&mut self, factor: f64) {
        self.scale(factor);
        self.total *= factor;
    }

    /// Accesses that count, less what faded.
    pub(crate) fn accesses(&self) -> f64 {
        self.total
    }

    /// The part of all lines that is in the sample now.
    pub(crate) fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// The adjusted curve (SHARDS-adj). Misses everything if nothing was accessed.
    pub(crate) fn curve(&self) -> MissRatioCurve {
        let expected = self.total * self.rate();
        self.curve_over(expected, expected - self.sampled)
    }

    /// The curve without adjustment, for comparison: it is far off on skewed accesses.
    #[cfg(test)]
    fn raw_curve(&self) -> MissRatioCurve {
        self.curve_over(self.sampled, 0.0)
    }

    fn curve_over(&self, denominator: f64, at_zero: f64) -> MissRatioCurve {
        let mut hits = at_zero;
        let sizes = self.distances.iter().map(|count| {
            hits += count;
            let ratio = if denominator > 0.0 { hits / denominator } else { 0.0 };
            1.0 - ratio.clamp(0.0, 1.0)
        });
        MissRatioCurve::new(self.resolution.step_lines, [1.0].into_iter().chain(sizes).collect())
    }

    /// Memory in use now, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        /// Key, hash and their part of a tree's node.
        const HASH_BYTES: u64 = 24;
        let hashes = self.bound.as_ref().map_or(0, |bound| bound.hashes.len() as u64);
        self.stack.bytes() + hashes * HASH_BYTES + self.distances.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests;
