//! Miss-ratio curves: what an LRU cache of any size would miss, from one look at the accesses.
//!
//! A curve is plain data; what makes one (exact stack distances, SHARDS) knows how exact it is.
//! Sizes are in lines.

pub mod shards;
mod stack_distance;

pub use stack_distance::{StackDistances, StackHistogram};

/// Miss ratios at sizes 0, `step`, 2·`step`, …
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MissRatioCurve {
    step_lines: u64,
    ratios: Vec<f64>,
}

impl MissRatioCurve {
    /// A curve whose `k`-th point is the miss ratio of `k · step_lines` lines.
    ///
    /// # Panics
    /// When `step_lines` is zero, there is no point, or a ratio is not in `0..=1`.
    pub(crate) fn new(step_lines: u64, ratios: Vec<f64>) -> MissRatioCurve {
        assert!(step_lines > 0 && !ratios.is_empty(), "a curve has points, and room between them");
        assert!(ratios.iter().all(|r| (0.0..=1.0).contains(r)), "a ratio is from 0 to 1");
        MissRatioCurve { step_lines, ratios }
    }

    /// The points, from size 0 up.
    #[cfg(test)]
    pub(crate) fn ratios(&self) -> &[f64] {
        &self.ratios
    }

    /// The miss ratio of a cache of `lines`: linear between points, level past the last.
    pub(crate) fn at(&self, lines: u64) -> f64 {
        let before = (lines / self.step_lines) as usize;
        let Some([low, high]) = self.ratios.get(before..).and_then(|tail| tail.first_chunk())
        else {
            return self.ratios[self.ratios.len() - 1];
        };
        let part = (lines % self.step_lines) as f64 / self.step_lines as f64;
        low + (high - low) * part
    }
}
