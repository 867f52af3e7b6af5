//! The shape a figure shows, as checks with a verdict. They judge; they never tune.

use crate::lab::Row;
use serde::{Deserialize, Serialize};

/// One expected feature of the results of one workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expectation {
    /// The hit ratio of `policy` gains on the best of `against` from the smallest to the largest
    /// size.
    CatchesUp {
        /// Who catches up.
        policy: String,
        /// On whom.
        against: Vec<String>,
    },
    /// At the largest size, the hit ratio of `policy` is at most `within_points` below the best of
    /// `against`.
    HitRatioReaches {
        /// Who reaches.
        policy: String,
        /// Whom.
        against: Vec<String>,
        /// Percentage points.
        within_points: f64,
    },
    /// At the largest size, the I/O cost of `policy` is at most `percent` of that of `against`, in
    /// the source's accounting.
    CostAtMost {
        /// Whose cost.
        policy: String,
        /// Compared with whose.
        against: String,
        /// Percent.
        percent: f64,
    },
}

/// Whether an expected feature appeared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// What was expected, and the figures.
    pub claim: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Expectation {
    /// Judges the rows of one workload; nothing where they lack the policies named.
    pub fn judge(&self, rows: &[Row]) -> Option<Verdict> {
        match self {
            Expectation::CatchesUp { policy, against } => {
                let (small, large) = (end(rows, policy, false)?, end(rows, policy, true)?);
                let behind_small = best(rows, against, false)? - small.request_hit_ratio;
                let behind_large = best(rows, against, true)? - large.request_hit_ratio;
                let claim = format!(
                    "{policy} catches up with the best of {} as flash grows: {:+.2} points at {}, \
                     {:+.2} at {}",
                    against.join(", "),
                    -behind_small * 100.0,
                    small.size,
                    -behind_large * 100.0,
                    large.size,
                );
                let holds = behind_large < behind_small || behind_large <= 0.0;
                Some(Verdict { claim, holds })
            }
            Expectation::HitRatioReaches { policy, against, within_points } => {
                let row = end(rows, policy, true)?;
                let (own, other) =
                    (row.request_hit_ratio * 100.0, best(rows, against, true)? * 100.0);
                let claim = format!(
                    "hit ratio of {policy} at {} reaches the best of {} within {within_points} \
                     points: {own:.2} % and {other:.2} %",
                    row.size,
                    against.join(", "),
                );
                Some(Verdict { claim, holds: own >= other - within_points })
            }
            Expectation::CostAtMost { policy, against, percent } => {
                let (own, other) = (end(rows, policy, true)?, end(rows, against, true)?);
                let share = own.cost_source_s / other.cost_source_s * 100.0;
                let real = own.cost_real_s / other.cost_real_s * 100.0;
                let claim = format!(
                    "I/O cost of {policy} at {} is at most {percent} % of {against}'s: {share:.2} % \
                     as the source charges it ({real:.2} % at real sizes)",
                    own.size,
                );
                Some(Verdict { claim, holds: share <= *percent })
            }
        }
    }
}

/// The row of `policy` at its smallest or largest capacity.
fn end<'a>(rows: &'a [Row], policy: &str, largest: bool) -> Option<&'a Row> {
    let mine = rows.iter().filter(|row| row.policy == policy);
    if largest {
        mine.max_by_key(|row| row.capacity_bytes)
    } else {
        mine.min_by_key(|row| row.capacity_bytes)
    }
}

/// The best hit ratio among `policies` at that end.
fn best(rows: &[Row], policies: &[String], largest: bool) -> Option<f64> {
    let ratios = policies.iter().filter_map(|p| end(rows, p, largest));
    ratios.map(|row| row.request_hit_ratio).max_by(f64::total_cmp)
}
