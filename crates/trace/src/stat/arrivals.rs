//! Arrivals of requests: the times between them, and how bursty they are.
//!
//! Index of dispersion (Tai 2015, eq. 2): `I = SCV · (1 + 2 Σ ρ_k)` over the lags k = 1, 2, …, K,
//! where SCV is the squared coefficient of variation of the times between arrivals and ρ_k their
//! autocorrelation. The source's sum begins at k = 0; with ρ_0 = 1 a Poisson process would then
//! have I = 3 and not the 1 that the source gives for it, so we begin at 1. Steps:
//! 1. K = 100, or a tenth of the number of times between arrivals when that is less: longer lags of
//!    a short series are noise.
//! 2. Sums of products `x_i · x_(i−k)` are kept for every lag; means are taken out at the end,
//!    exactly, with the first and last K values.
//! 3. Autocovariances are divided by the full count (the biased estimate, which damps long lags),
//!    and a negative I, which only noise can make, is told as 0.
//!
//! Bursts longer than K arrivals are not seen by this I; counts of arrivals by the second, whose
//! variance over mean is also given, see those that last seconds.
//!
//! State: 3.2 KiB and a histogram.

use super::histogram::Histogram;
use thermocline_units::Nanos;

/// Lags of the autocorrelation at most.
pub const LAGS_MAX: usize = 100;
/// Lags whose sums are made together: half a processor's vector registers.
const LAGS_AT_ONCE: usize = 20;
const _: () = assert!(LAGS_MAX.is_multiple_of(LAGS_AT_ONCE), "no lag is left over");
/// The interval in which arrivals are counted.
pub const COUNTED_IN: Nanos = Nanos::from_secs(1);

/// Arrivals of one volume, or of all.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    count: u64,
    pub(super) first: Nanos,
    pub(super) last: Nanos,
    pub(super) gaps: Histogram,
    series: Series,
    seconds: Seconds,
}

impl Arrivals {
    #[inline]
    pub(super) fn arrive(&mut self, now: Nanos) {
        if self.count == 0 {
            self.first = now;
        } else {
            let gap = now.saturating_sub(self.last);
            self.gaps.add(gap.0);
            self.series.push(gap.as_secs_f64());
        }
        self.seconds.arrive(now, self.count == 0);
        self.count += 1;
        self.last = self.last.max(now);
    }

    pub(super) fn index_of_dispersion(&self) -> Option<f64> {
        self.series.index_of_dispersion()
    }

    pub(super) fn variance_over_mean(&self) -> Option<f64> {
        self.seconds.variance_over_mean()
    }

    pub(super) fn most_in_a_second(&self) -> u64 {
        self.seconds.most.max(self.seconds.here)
    }
}

/// A series of numbers, of which sums over lags are kept.
#[derive(Debug, Clone, Default)]
struct Series {
    count: u64,
    sum: f64,
    squares: f64,
    /// The first numbers, at most `LAGS_MAX`.
    head: Vec<f64>,
    /// The last numbers after [`LAGS_MAX`] older ones, or zeroes where there are none.
    recent: Vec<f64>,
    /// Sums of products, those of `recent` not yet among them; the last is of lag 1, the one before
    /// of lag 2, and so on.
    products: Vec<f64>,
}

impl Series {
    #[inline]
    fn push(&mut self, x: f64) {
        if self.recent.len() == 2 * LAGS_MAX {
            add_products(&mut self.products, &self.recent);
            self.recent.copy_within(LAGS_MAX.., 0);
            self.recent.truncate(LAGS_MAX);
        } else if self.count == 0 {
            self.products = vec![0.0; LAGS_MAX];
            self.recent = vec![0.0; LAGS_MAX];
        }
        self.recent.push(x);
        if self.head.len() < LAGS_MAX {
            self.head.push(x);
        }
        self.count += 1;
        self.sum += x;
        self.squares += x * x;
    }

    fn index_of_dispersion(&self) -> Option<f64> {
        /// Relative variance below which a series is constant: what rounding leaves.
        const CONSTANT: f64 = 1e-12;
        if self.count < 2 || self.sum <= 0.0 {
            return None;
        }
        let count = self.count as f64;
        let mean = self.sum / count;
        let variance = self.squares / count - mean * mean;
        if variance <= CONSTANT * mean * mean {
            return Some(0.0);
        }
        let mut products = self.products.clone();
        add_products(&mut products, &self.recent);
        let lags = usize::try_from(self.count / 10).unwrap_or(LAGS_MAX).min(LAGS_MAX);
        let (mut head, mut tail, mut correlation) = (0.0, 0.0, 0.0);
        for lag in 1..=lags {
            head += self.head[lag - 1];
            tail += self.recent[self.recent.len() - lag];
            let sums = (self.sum - head) + (self.sum - tail);
            let about_mean = (count - lag as f64) * mean * mean - mean * sums;
            let covariance = (products[LAGS_MAX - lag] + about_mean) / count;
            correlation += covariance / variance;
        }
        Some((variance / (mean * mean) * (1.0 + 2.0 * correlation)).max(0.0))
    }
}

/// Adds, for each of `recent` after the first [`LAGS_MAX`], its products with the [`LAGS_MAX`]
/// numbers before it, each to the sum of its lag.
///
/// Many numbers at a time, because a few lags' sums then stay in the processor's registers
/// meanwhile; number by number, loading and storing sums is most of the work. The order in which a
/// sum is made is the same.
fn add_products(products: &mut [f64], recent: &[f64]) {
    for (i, products) in products.as_chunks_mut::<LAGS_AT_ONCE>().0.iter_mut().enumerate() {
        let mut sums = *products;
        let from = i * LAGS_AT_ONCE;
        for (earlier, x) in recent[from..].array_windows().zip(&recent[LAGS_MAX..]) {
            let earlier: &[f64; LAGS_AT_ONCE] = earlier;
            for (sum, earlier) in sums.iter_mut().zip(earlier) {
                *sum += x * earlier;
            }
        }
        *products = sums;
    }
}

/// Arrivals by the second, from the second of the first one on. The last second, which the trace
/// may cut short, counts only for the maximum.
#[derive(Debug, Clone, Default)]
struct Seconds {
    current: u64,
    /// Arrivals in the current second.
    here: u64,
    /// Seconds that are over.
    over: u64,
    sum: u64,
    squares: u128,
    most: u64,
}

impl Seconds {
    #[inline]
    fn arrive(&mut self, now: Nanos, first: bool) {
        let second = now.0 / COUNTED_IN.0;
        if first {
            self.current = second;
        } else if second > self.current {
            self.over += second - self.current;
            self.sum += self.here;
            self.squares += u128::from(self.here) * u128::from(self.here);
            self.most = self.most.max(self.here);
            (self.current, self.here) = (second, 0);
        }
        self.here += 1;
    }

    fn variance_over_mean(&self) -> Option<f64> {
        if self.over < 2 {
            return None;
        }
        let mean = self.sum as f64 / self.over as f64;
        let variance = (self.squares as f64 / self.over as f64 - mean * mean).max(0.0);
        Some(variance / mean)
    }
}

#[cfg(test)]
mod tests;
