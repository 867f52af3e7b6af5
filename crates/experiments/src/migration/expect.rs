//! Expectations of an experiment with migration: what the source reports, as checks with a verdict.
//! They judge; they never tune.
//!
//! Contenders at one load and seed are given the same requests, so figures are compared seed by
//! seed, and a feature holds when it does over the whole 95 % interval of the mean, at every load.
//! A single seed has no interval: it is judged as it is.

use super::{Load, Measures, Outcome, Point, Runs};
use crate::Verdict;
use serde::Deserialize;
use thermocline_sim::balance::Estimate;

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
            Expectation::Magnitude { factor } => magnitude(outcome, *factor),
            Expectation::Improves => improves(loads),
            Expectation::GainAsPublished { within_points } => {
                gain_as_published(outcome, *within_points)
            }
            Expectation::GainShrinks => gain_shrinks(loads),
            Expectation::StrictKept { within_percent } => strict(loads, *within_percent),
            Expectation::SynchronisationCosts => synchronisation_costs(loads),
            Expectation::MigratedFalls { from, to } => migrated_falls(loads, *from, *to),
            Expectation::AlphaBest { near, within } => alpha(&outcome.alpha, *near, *within),
            Expectation::EStops => e_stops(&outcome.e),
        }
    }
}

/// Figure of a run.
type Figure = fn(&Measures) -> f64;

const RESPONSE: Figure = |run| run.all.response_ms;
const MIGRATED: Figure = |run| run.migrated_percent;

/// A figure over the seeds.
fn mean(runs: &Runs, of: Figure) -> Estimate {
    Estimate::of(&runs.0.iter().map(of).collect::<Vec<_>>())
}

/// A figure of one contender over that of another, seed by seed.
fn ratio(own: &Runs, other: &Runs, of: Figure) -> Estimate {
    let pairs = own.0.iter().zip(&other.0);
    Estimate::of(&pairs.map(|(own, other)| of(own) / of(other)).collect::<Vec<_>>())
}

fn scaled(estimate: Estimate, times: f64) -> Estimate {
    Estimate { mean: estimate.mean * times, ci95: estimate.ci95 * times.abs() }
}

fn shifted(estimate: Estimate, by: f64) -> Estimate {
    Estimate { mean: estimate.mean + by, ..estimate }
}

/// LMsT's gain in mean response, percent.
fn gain(load: &Load) -> Estimate {
    shifted(scaled(ratio(&load.lmst, &load.nmst, RESPONSE), -100.0), 100.0)
}

/// The ends of an interval; both are the figure itself where there is one run.
fn low(estimate: &Estimate) -> f64 {
    estimate.mean - estimate.ci95.max(0.0)
}

fn high(estimate: &Estimate) -> f64 {
    estimate.mean + estimate.ci95.max(0.0)
}

/// A figure with its interval, where there is one.
fn text(estimate: &Estimate) -> String {
    let Estimate { mean, ci95 } = estimate;
    if ci95.is_finite() { format!("{mean:.2} ±{ci95:.2}") } else { format!("{mean:.2} (one run)") }
}

fn texts(estimates: &[Estimate]) -> String {
    estimates.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn first(loads: &[Load]) -> &Load {
    loads.first().expect("a description has loads")
}

fn last(loads: &[Load]) -> &Load {
    loads.last().expect("a description has loads")
}

/// An estimate for each load, told its size and share of bursts by their places.
fn by_load(outcome: &Outcome, of: impl Fn(&Load, (usize, usize)) -> Estimate) -> Vec<Estimate> {
    let bursts = outcome.config.bursts.len();
    let loads = outcome.loads.iter().enumerate();
    loads.map(|(at, load)| of(load, (at / bursts, at % bursts))).collect()
}

fn magnitude(outcome: &Outcome, factor: f64) -> Verdict {
    let published = &outcome.config.published.nmst.response;
    let ratios = by_load(outcome, |load, at| {
        scaled(mean(&load.nmst, RESPONSE), 1.0 / published[at.0][at.1])
    });
    Verdict {
        claim: format!(
            "without migration the mean response is within a factor of {factor} of the published \
             one at every load: {} times",
            texts(&ratios)
        ),
        holds: ratios.iter().all(|ratio| low(ratio) >= 1.0 / factor && high(ratio) <= factor),
    }
}

fn improves(loads: &[Load]) -> Verdict {
    let figures: [Figure; 3] =
        [RESPONSE, |run| run.all.violations_percent, |run| run.all.excess_ms];
    let better =
        |load: &&Load| figures.iter().all(|&of| high(&ratio(&load.lmst, &load.nmst, of)) < 1.0);
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

fn gain_as_published(outcome: &Outcome, within: f64) -> Verdict {
    let published = &outcome.config.published;
    let off = by_load(outcome, |load, at| {
        let without = published.nmst.response[at.0][at.1];
        shifted(gain(load), (published.lmst.response[at.0][at.1] / without - 1.0) * 100.0)
    });
    Verdict {
        claim: format!(
            "LMsT's gain in mean response is within {within} points of the published one at every \
             load: {} points above it",
            texts(&off)
        ),
        holds: off.iter().all(|off| low(off) >= -within && high(off) <= within),
    }
}

fn gain_shrinks(loads: &[Load]) -> Verdict {
    let (light, heavy) = (first(loads), last(loads));
    let of = |load: &Load, seed: usize| {
        1.0 - RESPONSE(&load.lmst.0[seed]) / RESPONSE(&load.nmst.0[seed])
    };
    let seeds = 0..light.lmst.0.len();
    let change = seeds.map(|seed| (of(heavy, seed) - of(light, seed)) * 100.0);
    let change = Estimate::of(&change.collect::<Vec<_>>());
    Verdict {
        claim: format!(
            "LMsT's gain in mean response shrinks from the lightest load to the heaviest: {} % and \
             {} %, {} points",
            text(&gain(light)),
            text(&gain(heavy)),
            text(&change)
        ),
        holds: high(&change) < 0.0,
    }
}

fn strict(loads: &[Load], within: f64) -> Verdict {
    let above = |load: &Load| {
        let times = ratio(&load.lmst, &load.nmst, |run| run.strict.response_ms);
        shifted(scaled(times, 100.0), -100.0)
    };
    let above: Vec<Estimate> = loads.iter().map(above).collect();
    Verdict {
        claim: format!(
            "mean response of strict applications is at most {within} % above that without \
             migration at every load: {} %",
            texts(&above)
        ),
        holds: above.iter().all(|above| high(above) <= within),
    }
}

fn synchronisation_costs(loads: &[Load]) -> Verdict {
    let times = |load: &Load| ratio(&load.smst, &load.lmst, |run| run.moving_response_ms);
    let times: Vec<Estimate> = loads.iter().map(times).collect();
    Verdict {
        claim: format!(
            "requests to units that move wait longer under SMsT than under LMsT at every load: {} \
             times",
            texts(&times)
        ),
        holds: times.iter().all(|times| low(times) > 1.0),
    }
}

fn migrated_falls(loads: &[Load], from: f64, to: f64) -> Verdict {
    let (light, heavy) = (mean(&first(loads).lmst, MIGRATED), mean(&last(loads).lmst, MIGRATED));
    Verdict {
        claim: format!(
            "the share of bursty slots migrated falls from at least {from} % at the lightest load \
             to at most {to} % at the heaviest: {} % and {} %",
            text(&light),
            text(&heavy)
        ),
        holds: low(&light) >= from && high(&heavy) <= to,
    }
}

/// The least response is at one of the values near the published one: each value farther away
/// takes longer than the best of these.
fn alpha(points: &[Point], near: f64, within: f64) -> Verdict {
    let of = |point: &Point| mean(&point.lmst, RESPONSE).mean;
    let (close, far): (Vec<&Point>, Vec<&Point>) =
        points.iter().partition(|point| (point.value - near).abs() <= within + 1e-9);
    let best = close.into_iter().min_by(|a, b| of(a).total_cmp(&of(b)));
    let times: Vec<(f64, Estimate)> = far
        .iter()
        .filter_map(|point| Some((point.value, ratio(&point.lmst, &best?.lmst, RESPONSE))))
        .collect();
    let told = times.iter().map(|(value, times)| format!("{value}: {}", text(times)));
    Verdict {
        claim: format!(
            "mean response is least at an alpha within {within} of {near}; the best of these is \
             {}, and beside it the others take, times: {}",
            best.map_or(f64::NAN, |point| point.value),
            told.collect::<Vec<_>>().join(", ")
        ),
        holds: best.is_some()
            && !times.is_empty()
            && times.iter().all(|(_, times)| low(times) > 1.0),
    }
}

fn e_stops(points: &[Point]) -> Verdict {
    let least = points.iter().min_by(|a, b| a.value.total_cmp(&b.value));
    let most = points.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let (Some(least), Some(most)) = (least, most) else {
        return Verdict { claim: "e was not changed".to_string(), holds: false };
    };
    let times = |of: Figure| ratio(&most.lmst, &least.lmst, of);
    let (moved, response) = (times(MIGRATED), times(RESPONSE));
    Verdict {
        claim: format!(
            "with the greatest e instead of the least fewer bursty slots are migrated and \
             responses take longer: {} times as many, {} times as long",
            text(&moved),
            text(&response)
        ),
        holds: high(&moved) < 1.0 && low(&response) > 1.0,
    }
}

#[cfg(test)]
mod tests;
