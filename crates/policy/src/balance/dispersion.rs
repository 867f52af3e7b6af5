//! The index of dispersion of gaps between arrivals, one gap at a time, in bounded memory.
//!
//! I = SCV · (1 + 2 Σ ρ_k), k = 1 … lags: the squared coefficient of variation, raised by how much
//! neighbouring gaps resemble each other. A Poisson process has 1. Source: Tai 2015 §2.3, equation
//! 2, whose sum begins at k = 0; with ρ_0 = 1 a Poisson process would have 3 instead of the 1 that
//! the text says, so ours begins at 1.
//!
//! 1. Each gap adds to the sum, the sum of squares, and the sums of products with the gaps before.
//! 2. The covariance at lag k follows from these and from the first and last k gaps, which are kept
//!    for the purpose, so that the result is that of the plain computation over all gaps.
//!
//! Sums are of gaps less the first one, and so do not cancel out when gaps are nearly equal. The
//! variance is the biased one (divided by n), as are the covariances.
//!
//! State: 24 B and 24 B a lag. O(lags) a gap and a question.

/// Sums over a window of gaps.
#[derive(Debug, Clone)]
pub struct Dispersion {
    count: u64,
    /// The first gap; all others are counted from it.
    origin: f64,
    sum: f64,
    squares: f64,
    /// `products[k − 1]` is Σ x_i · x_(i+k).
    products: Vec<f64>,
    /// The first gaps, as many as there are lags.
    first: Vec<f64>,
    /// The last gaps, latest first.
    last: Vec<f64>,
}

impl Dispersion {
    /// An empty window that looks `lags` gaps back.
    pub fn new(lags: usize) -> Dispersion {
        Dispersion {
            count: 0,
            origin: 0.0,
            sum: 0.0,
            squares: 0.0,
            products: vec![0.0; lags],
            first: Vec::with_capacity(lags),
            last: vec![0.0; lags],
        }
    }

    /// One gap more, in any unit.
    pub fn add(&mut self, gap: f64) {
        if self.count == 0 {
            self.origin = gap;
        }
        let x = gap - self.origin;
        // Gaps before the first are 0 here, so their products add nothing.
        self.products.iter_mut().zip(&self.last).for_each(|(sum, before)| *sum += x * before);
        if self.first.len() < self.products.len() {
            self.first.push(x);
        }
        if !self.last.is_empty() {
            self.last.rotate_right(1);
            self.last[0] = x;
        }
        self.sum += x;
        self.squares += x * x;
        self.count += 1;
    }

    /// Forgets all gaps.
    pub fn clear(&mut self) {
        self.count = 0;
        (self.origin, self.sum, self.squares) = (0.0, 0.0, 0.0);
        self.products.fill(0.0);
        self.first.clear();
        self.last.fill(0.0);
    }

    /// Gaps in the window.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All gaps together, in their unit.
    pub fn total(&self) -> f64 {
        self.sum + self.origin * self.count as f64
    }

    /// The index of dispersion; 0 of fewer than two gaps, or when all are 0. Lags of at most half
    /// the window are used: the last covariances of a short window are of few pairs.
    pub fn index(&self) -> f64 {
        let n = self.count as f64;
        let mean = self.total() / n;
        if self.count < 2 || mean <= 0.0 {
            return 0.0;
        }
        let centre = self.sum / n;
        let variance = (self.squares / n - centre * centre).max(0.0);
        if variance == 0.0 {
            return 0.0;
        }
        let lags = self.products.len().min((self.count / 2) as usize);
        let (mut head, mut tail, mut correlations) = (0.0, 0.0, 0.0);
        for lag in 1..=lags {
            head += self.first[lag - 1];
            tail += self.last[lag - 1];
            let sums = (self.sum - tail) + (self.sum - head);
            let pairs = n - lag as f64;
            let products = self.products[lag - 1] - centre * sums + pairs * centre * centre;
            correlations += products / (n * variance);
        }
        variance / (mean * mean) * (1.0 + 2.0 * correlations)
    }
}

#[cfg(test)]
mod tests;
