//! The shape a figure shows, as checks with a verdict. They judge; they never tune.

use serde::{Deserialize, Serialize};
use thermocline_sim::balance::Estimate;
use thermocline_sim::lab::Row;

/// One expected feature of the results of one workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expectation {
    /// The hit ratio of `policy` gains on the best of `against` from the smallest to the largest
    /// size.
    CatchesUp {
        /// Policy that catches up.
        policy: String,
        /// On whom.
        against: Vec<String>,
    },
    /// At the largest size, the hit ratio of `policy` is at most `within_points` below the best of
    /// `against`.
    HitRatioReaches {
        /// Policy that reaches.
        policy: String,
        /// Policies that it is compared with.
        against: Vec<String>,
        /// Percentage points.
        within_points: f64,
    },
    /// At the largest size, the I/O cost of `policy` is at most `percent` of that of `against`, in
    /// the source's accounting.
    CostAtMost {
        /// Policy whose cost it is.
        policy: String,
        /// Compared with whose.
        against: String,
        /// Percent.
        percent: f64,
    },
    /// At the largest size, the hit ratio of `policy` under one of the workloads is a printed one.
    HitRatioNear {
        /// The workload's name.
        workload: String,
        /// Policy whose hit ratio it is.
        policy: String,
        /// Printed figure.
        percent: f64,
        /// Percentage points that it may be off, to either side.
        within_points: f64,
    },
}

/// Judgement of an expected feature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The expectation, and the figures.
    pub claim: String,
    /// True if it holds.
    pub holds: bool,
}

impl Expectation {
    /// Policies that it names.
    pub(super) fn policies(&self) -> Vec<&str> {
        let (policy, others): (_, &[String]) = match self {
            Expectation::CatchesUp { policy, against }
            | Expectation::HitRatioReaches { policy, against, .. } => (policy, against),
            Expectation::CostAtMost { policy, against, .. } => {
                (policy, std::slice::from_ref(against))
            }
            Expectation::HitRatioNear { policy, .. } => (policy, &[]),
        };
        others.iter().chain([policy]).map(String::as_str).collect()
    }

    /// True if it is about a comparison, and names nobody to compare with.
    pub(super) fn compares_with_nobody(&self) -> bool {
        match self {
            Expectation::CatchesUp { against, .. }
            | Expectation::HitRatioReaches { against, .. } => against.is_empty(),
            Expectation::CostAtMost { .. } | Expectation::HitRatioNear { .. } => false,
        }
    }

    /// The workload that it names, if it is not about all of them.
    pub(super) fn workload(&self) -> Option<&String> {
        match self {
            Expectation::HitRatioNear { workload, .. } => Some(workload),
            _ => None,
        }
    }

    /// Judges the rows of the workload of that name, a list a draw of it; nothing where they lack
    /// the policies named, or where another workload is meant. A made workload is drawn several
    /// times, and the whole 95 % interval has to keep to what is expected; a trace is one draw, and
    /// is judged as it is.
    pub fn judge(&self, name: &str, draws: &[Vec<Row>]) -> Option<Verdict> {
        match self {
            Expectation::CatchesUp { policy, against } => catches_up(draws, policy, against),
            Expectation::HitRatioReaches { policy, against, within_points } => {
                reaches(draws, policy, against, *within_points)
            }
            Expectation::CostAtMost { policy, against, percent } => {
                costs(draws, policy, against, *percent)
            }
            Expectation::HitRatioNear { workload, policy, percent, within_points } => {
                let is_meant = workload == name;
                is_meant.then(|| near(draws, policy, *percent, *within_points)).flatten()
            }
        }
    }
}

/// Estimate over the draws of what `of` makes of each.
fn each(draws: &[Vec<Row>], of: impl Fn(&[Row]) -> Option<f64>) -> Option<Estimate> {
    let values: Option<Vec<f64>> = draws.iter().map(|rows| of(rows)).collect();
    values.filter(|values| !values.is_empty()).map(|values| Estimate::of(&values))
}

/// The interval's half width; 0 of one draw.
fn half(estimate: &Estimate) -> f64 {
    estimate.ci95.max(0.0)
}

/// A figure with its interval, where there is one.
fn figure(estimate: &Estimate, signed: bool) -> String {
    let Estimate { mean, ci95 } = estimate;
    let mean = if signed { format!("{mean:+.2}") } else { format!("{mean:.2}") };
    if ci95.is_finite() { format!("{mean} ±{ci95:.2}") } else { mean }
}

fn catches_up(draws: &[Vec<Row>], policy: &str, against: &[String]) -> Option<Verdict> {
    let ahead = |large: bool| {
        move |rows: &[Row]| {
            let own = end(rows, policy, large)?.request_hit_ratio;
            Some((own - best(rows, against, large)?) * 100.0)
        }
    };
    let (small, large) = (each(draws, ahead(false))?, each(draws, ahead(true))?);
    let gained = each(draws, |rows| Some(ahead(true)(rows)? - ahead(false)(rows)?))?;
    let size = |large: bool| end(draws.first()?, policy, large).map(|row| row.size.clone());
    Some(Verdict {
        claim: format!(
            "{policy} catches up with the best of {} as flash grows: {} points at {}, {} at {}",
            against.join(", "),
            figure(&small, true),
            size(false)?,
            figure(&large, true),
            size(true)?,
        ),
        holds: gained.mean - half(&gained) > 0.0 || large.mean - half(&large) >= 0.0,
    })
}

fn reaches(draws: &[Vec<Row>], policy: &str, against: &[String], within: f64) -> Option<Verdict> {
    let own = |rows: &[Row]| Some(end(rows, policy, true)?.request_hit_ratio * 100.0);
    let other = |rows: &[Row]| Some(best(rows, against, true)? * 100.0);
    let apart = each(draws, |rows| Some(own(rows)? - other(rows)?))?;
    Some(Verdict {
        claim: format!(
            "hit ratio of {policy} at {} reaches the best of {} within {within} points: {} % and \
             {} %",
            end(draws.first()?, policy, true)?.size,
            against.join(", "),
            figure(&each(draws, own)?, false),
            figure(&each(draws, other)?, false),
        ),
        holds: apart.mean - half(&apart) >= -within,
    })
}

fn near(draws: &[Vec<Row>], policy: &str, printed: f64, within: f64) -> Option<Verdict> {
    let own = each(draws, |rows| Some(end(rows, policy, true)?.request_hit_ratio * 100.0))?;
    Some(Verdict {
        claim: format!(
            "hit ratio of {policy} at {} is the printed {printed} % within {within} points: {} %",
            end(draws.first()?, policy, true)?.size,
            figure(&own, false),
        ),
        holds: (own.mean - printed).abs() + half(&own) <= within,
    })
}

fn costs(draws: &[Vec<Row>], policy: &str, against: &str, percent: f64) -> Option<Verdict> {
    let share = |cost: fn(&Row) -> f64| {
        each(draws, |rows| {
            Some(cost(end(rows, policy, true)?) / cost(end(rows, against, true)?) * 100.0)
        })
    };
    let charged = share(|row| row.cost_source_s)?;
    Some(Verdict {
        claim: format!(
            "I/O cost of {policy} at {} is at most {percent} % of {against}'s: {} % as the source \
             charges it ({} % at real sizes)",
            end(draws.first()?, policy, true)?.size,
            figure(&charged, false),
            figure(&share(|row| row.cost_real_s)?, false),
        ),
        holds: charged.mean + half(&charged) <= percent,
    })
}

/// A figure that the source prints, and ours at the largest size.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The figure's measure.
    pub measure: PublishedMeasure,
    /// Policies of the figure; the best of them where there are several.
    pub policies: Vec<String>,
    /// The contender of whose costs these are a share.
    pub against: Option<String>,
    /// Place of it in the source: workload and size.
    pub at: String,
    /// Percent.
    pub percent: f64,
}

/// Measures of published figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedMeasure {
    /// Share of requests served by flash.
    HitRatio,
    /// I/O cost as the source charges it, as a share of another's.
    Cost,
}

impl Published {
    /// Policies that it needs.
    pub(super) fn names(&self) -> Vec<&str> {
        let beside = match self.measure {
            PublishedMeasure::HitRatio => None,
            PublishedMeasure::Cost => Some(self.beside()),
        };
        self.policies.iter().map(String::as_str).chain(beside).collect()
    }

    /// Policy of whose costs these are a share.
    fn beside(&self) -> &str {
        self.against.as_deref().unwrap_or("lru")
    }

    /// The measure in words.
    pub fn words(&self) -> String {
        let policies = self.policies.join(", ");
        match self.measure {
            PublishedMeasure::HitRatio => format!("hits of {policies}"),
            PublishedMeasure::Cost => format!("cost of {policies} beside {}", self.beside()),
        }
    }

    /// Ours, percent, at the largest size; nothing where the policies did not run.
    pub fn ours(&self, draws: &[Vec<Row>]) -> Option<Estimate> {
        each(draws, |rows| match self.measure {
            PublishedMeasure::HitRatio => Some(best(rows, &self.policies, true)? * 100.0),
            PublishedMeasure::Cost => {
                let cost = |policy: &str| Some(end(rows, policy, true)?.cost_source_s);
                Some(cost(self.policies.first()?)? / cost(self.beside())? * 100.0)
            }
        })
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
