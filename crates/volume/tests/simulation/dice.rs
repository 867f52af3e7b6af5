//! Drawing from a seeded generator: ranges, chances, choices.

use std::ops::RangeInclusive;
use thermocline_units::Rng;

/// A generator with the draws that a plan needs.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) Rng);

impl Dice {
    pub(crate) fn seeded(seed: u64) -> Dice {
        Dice(Rng::seeded(seed))
    }

    /// Uniform, ends included.
    pub(crate) fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.0.below(range.end() - range.start() + 1)
    }

    /// Uniform in the exponent: small values as likely as large ones.
    pub(crate) fn magnitude(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = (*range.start() as f64, *range.end() as f64);
        let drawn = low * (high / low).powf(self.0.unit_f64());
        (drawn.round() as u64).clamp(*range.start(), *range.end())
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.unit_f64() < probability
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    /// An index, as likely as its weight.
    pub(crate) fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut drawn = self.0.below(total);
        for (index, &weight) in weights.iter().enumerate() {
            if drawn < u64::from(weight) {
                return index;
            }
            drawn -= u64::from(weight);
        }
        unreachable!("the draw is below the sum of the weights")
    }
}
