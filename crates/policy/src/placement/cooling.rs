//! Cooling factors: how much a request of j epochs ago still heats its chunk (Tai 2015 §4.2.2.4,
//! eq. 20).
//!
//! The source cools linearly over the first half of its N epochs and exponentially over the second:
//! `C(j) = (N+1−j)/N` for `j < N/2 + 1`, else `2^−(j−3)`. At its N = 8 that is 1, 7/8, 6/8, 5/8,
//! 1/4, 1/8, 1/16, 1/32. The constant 3 fits N = 8 only: at N = 4 the third epoch would count 1,
//! more than the second's 3/4; at N = 16 the ninth would fall from 9/16 to 1/64. Decision 0013.

/// The shape of the cooling factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cooling {
    /// The second half is `2^−(8j/N − 3)`: the source's curve stretched to N epochs, equal to it at
    /// 8.
    Scaled,
    /// Eq. 20 as printed, whatever N.
    Printed,
    /// `2^−((j−1)/h)` with a half-life of `h` epochs: plain exponential ageing.
    HalfLife(f64),
}

impl Cooling {
    /// `C(1) … C(n)` for a history of `n` ≥ 1 epochs.
    pub(super) fn factors(self, n: usize) -> Vec<f64> {
        assert!(n > 0, "a history has at least one epoch");
        (1..=n).map(|j| self.factor(j as f64, n as f64)).collect()
    }

    fn factor(self, j: f64, n: f64) -> f64 {
        match self {
            Cooling::HalfLife(half_life) => (-(j - 1.0) / half_life).exp2(),
            _ if j < n / 2.0 + 1.0 => (n + 1.0 - j) / n,
            Cooling::Scaled => (3.0 - 8.0 * j / n).exp2(),
            Cooling::Printed => (3.0 - j).exp2(),
        }
    }
}
