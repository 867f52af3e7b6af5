//! Latencies counted in logarithmic buckets: percentiles of any number of requests in bounded
//! memory.
//!
//! 1. Below 2⁷ ns every nanosecond has its own bucket.
//! 2. Each octave above is cut into 2⁶ equal buckets, so a bucket is at most 1/64 of its values
//!    wide.
//! 3. A percentile is the middle of the bucket in which its rank falls: at most 0.8 % off. Count,
//!    sum and maximum are exact.
//!
//! The idea is HdrHistogram's (G. Tene). State: 8 B a bucket up to the largest value seen, 30 KiB
//! at the very most. O(1) a value, O(buckets) a percentile.

use crate::Nanos;

/// Buckets of an octave, as a power of two.
const OCTAVE_BITS: u32 = 6;
const OCTAVE: u64 = 1 << OCTAVE_BITS;

/// A histogram of times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    let octave = (value | OCTAVE).ilog2() - OCTAVE_BITS;
    (u64::from(octave) * OCTAVE + (value >> octave)) as usize
}

/// The first value of a bucket, and how many values it takes.
fn span(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    let octave = (bucket / OCTAVE).saturating_sub(1);
    ((bucket - octave * OCTAVE) << octave, 1 << octave)
}

impl Latencies {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, took: Nanos) {
        let at = bucket(took.0);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.count += 1;
        self.sum += u128::from(took.0);
        self.max = self.max.max(took.0);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.max) = (0, 0, 0);
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Latencies) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, more)| *own += more);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Returns what was counted since `earlier`, a copy of these made then. The largest is the
    /// upper end of its bucket, at most 1.6 % off. Where `earlier` has counted what these have
    /// not, it is no copy of these: everything is returned.
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        if !self.continues(earlier) {
            return self.clone();
        }
        let mut buckets = self.buckets.clone();
        for (count, before) in buckets.iter_mut().zip(&earlier.buckets) {
            *count -= before;
        }
        let last = buckets.iter().rposition(|&count| count > 0);
        let max = last.map_or(0, |at| {
            let (first, width) = span(at);
            (first + (width - 1)).min(self.max)
        });
        buckets.truncate(last.map_or(0, |at| at + 1));
        let (count, sum) = (self.count - earlier.count, self.sum - earlier.sum);
        Latencies { buckets, count, sum, max }
    }

    /// Returns true if these may have been `earlier` once: no count is smaller than there.
    fn continues(&self, earlier: &Latencies) -> bool {
        let count = |at: usize| self.buckets.get(at).copied().unwrap_or(0);
        let no_smaller = |(at, before): (usize, &u64)| count(at) >= *before;
        earlier.buckets.iter().enumerate().all(no_smaller)
            && self.count >= earlier.count
            && self.sum >= earlier.sum
    }

    /// Counts of times that fall between one bound and the next: below the first, up to each
    /// further one, and beyond the last. A bucket across a bound counts below it when its middle
    /// does.
    pub fn between(&self, bounds: &[Nanos]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        for (at, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (first, width) = span(at);
            let middle = first + (width - 1) / 2;
            counts[bounds.partition_point(|bound| bound.0 < middle)] += count;
        }
        counts
    }

    /// All of them together.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum.min(u128::from(u64::MAX)) as u64)
    }

    /// Number of times recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, exact to a nanosecond; 0 of nothing.
    pub fn mean(&self) -> Nanos {
        Nanos((self.sum / u128::from(self.count.max(1))) as u64)
    }

    /// The largest, exact; 0 of nothing.
    pub fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// The smallest value that a share of `part` (0 to 1) of all does not exceed, at most 0.8 %
    /// off; 0 of nothing.
    pub fn quantile(&self, part: f64) -> Nanos {
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let (first, width) = span(at);
                return Nanos((first + (width - 1) / 2).min(self.max));
            }
        }
        Nanos(0)
    }
}

#[cfg(test)]
mod tests;
