//! What the source reports, as checks with a verdict. They judge; they never tune.

use super::{Load, Outcome, Point, Runs};
use crate::experiment::Verdict;
use serde::Deserialize;

/// One expected feature.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expectation {
    /// Mean response without migration is, at every load, within this factor of the published one.
    Magnitude {
        /// At least 1.
        factor: f64,
    },
    /// LMsT lowers mean response, violations, and what violations exceed, at every load.
    Improves,
    /// LMsT's gain in mean response is, at every load, as published.
    GainAsPublished {
        /// Percentage points that it may be off.
        within_points: f64,
    },
    /// LMsT's gain in mean response at the heaviest load is less than at the lightest.
    GainShrinks,
    /// Mean response of strict applications is, at every load, at most so much above that without
    /// migration.
    StrictKept {
        /// Percent.
        within_percent: f64,
    },
    /// Requests to units that move wait longer under SMsT than under LMsT, at every load.
    SynchronisationCosts,
    /// The share of bursty slots on the fast tier falls from the lightest load to the heaviest.
    MigratedFalls {
        /// Percent, at least, at the lightest.
        from: f64,
        /// Percent, at most, at the heaviest.
        to: f64,
    },
    /// Mean response is least at an α close to the published one.
    AlphaBest {
        /// Standard deviations.
        near: f64,
        /// Greatest distance from the best.
        within: f64,
    },
    /// From the least to the greatest e the share migrated falls and mean response grows.
    EStops,
}

impl Expectation {
    pub(super) fn judge(&self, outcome: &Outcome) -> Verdict {
        let loads = &outcome.loads;
        match self {
            Expectation::Magnitude { factor } => {
                let ratios = by_load(outcome, |load, at| {
                    response(&load.nmst) / outcome.config.published.nmst.response[at.0][at.1]
                });
                let (low, high) = ends(&ratios);
                Verdict {
                    claim: format!(
                        "without migration the mean response is within a factor of {factor} of \
                         the published one at every load: {low:.2} to {high:.2} times"
                    ),
                    holds: low >= 1.0 / factor && high <= *factor,
                }
            }
            Expectation::Improves => improves(loads),
            Expectation::GainAsPublished { within_points } => {
                let published = &outcome.config.published;
                let off = by_load(outcome, |load, at| {
                    let without = published.nmst.response[at.0][at.1];
                    gain(load) - (1.0 - published.lmst.response[at.0][at.1] / without) * 100.0
                });
                let (low, high) = ends(&off);
                Verdict {
                    claim: format!(
                        "LMsT's gain in mean response is within {within_points} points of the \
                         published one at every load: {low:+.1} to {high:+.1} points"
                    ),
                    holds: low >= -within_points && high <= *within_points,
                }
            }
            Expectation::GainShrinks => gain_shrinks(loads),
            Expectation::StrictKept { within_percent } => strict(loads, *within_percent),
            Expectation::SynchronisationCosts => {
                let moving = |runs: &Runs| runs.mean(|run| run.moving_response_ms);
                let times: Vec<f64> =
                    loads.iter().map(|load| moving(&load.smst) / moving(&load.lmst)).collect();
                let (low, high) = ends(&times);
                Verdict {
                    claim: format!(
                        "requests to units that move wait longer under SMsT than under LMsT at \
                         every load: {low:.1} to {high:.1} times"
                    ),
                    holds: low > 1.0,
                }
            }
            Expectation::MigratedFalls { from, to } => {
                let (light, heavy) = (migrated(&first(loads).lmst), migrated(&last(loads).lmst));
                Verdict {
                    claim: format!(
                        "the share of bursty slots migrated falls from at least {from} % at the \
                         lightest load to at most {to} % at the heaviest: {light:.1} % and \
                         {heavy:.1} %"
                    ),
                    holds: light >= *from && heavy <= *to,
                }
            }
            Expectation::AlphaBest { near, within } => alpha(&outcome.alpha, *near, *within),
            Expectation::EStops => e_stops(&outcome.e),
        }
    }
}

fn response(runs: &Runs) -> f64 {
    runs.mean(|run| run.all.response_ms)
}

fn migrated(runs: &Runs) -> f64 {
    runs.mean(|run| run.migrated_percent)
}

/// LMsT's gain in mean response, percent.
fn gain(load: &Load) -> f64 {
    (1.0 - response(&load.lmst) / response(&load.nmst)) * 100.0
}

fn first(loads: &[Load]) -> &Load {
    loads.first().expect("a description has loads")
}

fn last(loads: &[Load]) -> &Load {
    loads.last().expect("a description has loads")
}

fn by_load(outcome: &Outcome, of: impl Fn(&Load, (usize, usize)) -> f64) -> Vec<f64> {
    let bursts = outcome.config.bursts.len();
    let loads = outcome.loads.iter().enumerate();
    loads.map(|(at, load)| of(load, (at / bursts, at % bursts))).collect()
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn improves(loads: &[Load]) -> Verdict {
    let better = |load: &&Load| {
        let less = |of: fn(&super::Measures) -> f64| load.lmst.mean(of) < load.nmst.mean(of);
        less(|run| run.all.response_ms)
            && less(|run| run.all.violations_percent)
            && less(|run| run.all.excess_ms)
    };
    let better = loads.iter().filter(better).count();
    Verdict {
        claim: format!(
            "LMsT lowers mean response, violations and their excess at every load: at {better} of \
             {}",
            loads.len()
        ),
        holds: better == loads.len(),
    }
}

fn gain_shrinks(loads: &[Load]) -> Verdict {
    let (light, heavy) = (gain(first(loads)), gain(last(loads)));
    Verdict {
        claim: format!(
            "LMsT's gain in mean response shrinks from the lightest load to the heaviest: \
             {light:.1} % and {heavy:.1} %"
        ),
        holds: heavy < light,
    }
}

fn strict(loads: &[Load], within: f64) -> Verdict {
    let above = |load: &Load| {
        let of = |runs: &Runs| runs.mean(|run| run.strict.response_ms);
        (of(&load.lmst) / of(&load.nmst) - 1.0) * 100.0
    };
    let above: Vec<f64> = loads.iter().map(above).collect();
    let (low, high) = ends(&above);
    Verdict {
        claim: format!(
            "mean response of strict applications is at most {within} % above that without \
             migration at every load: {low:+.1} % to {high:+.1} %"
        ),
        holds: high <= within,
    }
}

fn alpha(points: &[Point], near: f64, within: f64) -> Verdict {
    let best = points.iter().min_by(|a, b| response(&a.lmst).total_cmp(&response(&b.lmst)));
    let best = best.map_or(f64::NAN, |point| point.value);
    let (low, high) = ends(&points.iter().map(|point| response(&point.lmst)).collect::<Vec<_>>());
    Verdict {
        claim: format!(
            "mean response is least at an alpha within {within} of {near}: at {best}; it ranges \
             from {low:.1} to {high:.1} ms"
        ),
        holds: (best - near).abs() <= within + 1e-9,
    }
}

fn e_stops(points: &[Point]) -> Verdict {
    let least = points.iter().min_by(|a, b| a.value.total_cmp(&b.value));
    let most = points.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let figures = |point: Option<&Point>| {
        point.map_or((f64::NAN, f64::NAN), |point| (migrated(&point.lmst), response(&point.lmst)))
    };
    let ((many, fast), (few, slow)) = (figures(least), figures(most));
    Verdict {
        claim: format!(
            "with the greatest e instead of the least fewer bursty slots are migrated and \
             responses take longer: {many:.1} % and {few:.1} %, {fast:.1} ms and {slow:.1} ms"
        ),
        holds: few < many && slow > fast,
    }
}
