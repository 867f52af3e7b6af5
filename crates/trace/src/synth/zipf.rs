//! Ranks after Zipf's law, one in O(1).
//!
//! Rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates
//! from monotone discrete distributions", ACM TOMACS 6(3), 1996, for p(k) ∝ k^−α, k = 1 … n:
//! 1. H(x) = ∫ t^−α dt, in the form (x^(1−α) − 1) / (1 − α), which is ln x for α = 1. The hat over
//!    rank k is the area of H between k − ½ and k + ½; over rank 1 it is cut down to p(1) itself.
//! 2. u is uniform between H(n + ½) and H(1.5) − p(1); x = H⁻¹(u); k is x rounded, within 1 … n.
//! 3. k is taken at once when k − x ≤ s, s = 2 − H⁻¹(H(2.5) − p(2)); or when u ≥ H(k + ½) − p(k).
//!    Otherwise again from 2. Fewer than 1.1 rounds are needed on average.
//!
//! Where we differ: ranks are returned from 0. Exact up to the rounding of `f64`; n below 2⁵².
//! State: 48 bytes, whatever n.

use thermocline_units::Rng;

/// A sampler of ranks 0 … n−1 with probability ∝ (rank + 1)^−α.
#[derive(Debug, Clone)]
pub struct Zipf {
    alpha: f64,
    count: f64,
    /// H(1.5) − p(1) and H(n + ½): the range of u.
    area_first: f64,
    area_last: f64,
    /// The s of step 3.
    at_once: f64,
}

impl Zipf {
    /// Ranks below `count`, exponent `alpha`; 0 is uniform.
    ///
    /// # Panics
    /// When `count` is zero or beyond 2⁵², or `alpha` is negative, not finite or beyond 100.
    pub fn new(count: u64, alpha: f64) -> Zipf {
        assert!((1..1 << 52).contains(&count), "Zipf's law needs 1 to 2^52 ranks, not {count}");
        assert!((0.0..=100.0).contains(&alpha), "an exponent of {alpha} is not of Zipf's law");
        let count = count as f64;
        let mut zipf = Zipf { alpha, count, area_first: 0.0, area_last: 0.0, at_once: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(count + 0.5);
        zipf.at_once = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    /// The next rank.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.area_last + rng.unit_f64() * (self.area_first - self.area_last);
            let x = self.area_inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.at_once || u >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// p(x), not normalised: x^−α.
    fn weight(&self, x: f64) -> f64 {
        (-self.alpha * x.ln()).exp()
    }

    /// H(x).
    fn area(&self, x: f64) -> f64 {
        let ln = x.ln();
        exp_m1_over((1.0 - self.alpha) * ln) * ln
    }

    /// H⁻¹(area).
    fn area_inverse(&self, area: f64) -> f64 {
        // Rounding may leave the argument a little below −1, where the logarithm ends.
        let t = (area * (1.0 - self.alpha)).max(-1.0);
        (ln_1p_over(t) * area).exp()
    }
}

/// Below this size the functions below are their series' first terms, exact to the last bit.
const SMALL: f64 = 1e-8;

/// (eˣ − 1) / x, 1 at 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > SMALL { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, 1 at 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > SMALL { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests;
