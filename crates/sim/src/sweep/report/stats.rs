//! Statistics over traces: means, percentiles, ranks, paired differences with an interval.
//!
//! The interval is the percentile bootstrap (Efron, "Bootstrap methods: another look at the
//! jackknife", Annals of Statistics 7, 1979): traces are drawn again with replacement, by a fixed
//! seed. Traces are the sample; whether they stand for a population is the reader's judgement.

use serde::Serialize;
use thermocline_units::Rng;

/// Draws of the bootstrap.
const DRAWS: usize = 1000;
/// Part of the draws on either side of the interval.
const TAIL: f64 = 0.025;
/// Traces of which an interval can be said. Of three, one draw of 27 is three times the least
/// value, which is more than the tail: the interval would be all that was seen, and of one trace a
/// point.
pub(super) const INTERVAL_TRACES_MIN: usize = 4;
const _: () = {
    let draws = INTERVAL_TRACES_MIN.pow(INTERVAL_TRACES_MIN as u32);
    assert!(1.0 / (draws as f64) < TAIL, "of four, one draw of 256 is four times the least value");
};

/// Mean; NaN of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The value below which this part (0 to 1) of `values` lies, between neighbours by linear
/// interpolation; NaN of nothing.
pub(super) fn percentile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = part * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// Ranks of `values`, 1 for the smallest; equal ones share the mean of their places.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Savings against a baseline, trace by trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Paired {
    /// Traces on which both ran.
    pub traces: u64,
    /// Mean saving: −1 to 1, see [`saving`].
    pub mean: f64,
    /// Lower end of the mean's 95 % interval; `None`: there are too few traces to say.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
    /// Saving that nine traces of ten exceed.
    pub p10: f64,
    /// Least saving.
    pub worst: f64,
    /// Traces on which it is better.
    pub better: u64,
    /// Traces on which it is worse; the others are equal.
    pub worse: u64,
}

/// Part of the baseline's value that `value` saves, where less is better; when it costs more, minus
/// the part of `value` that the baseline saves. From −1 to 1, and 0 when both are equal, so that
/// one trace with almost nothing to save does not outweigh the others.
pub fn saving(value: f64, baseline: f64) -> f64 {
    let larger = value.max(baseline);
    if larger == 0.0 { 0.0 } else { (baseline - value) / larger }
}

impl Paired {
    /// Compares (value, baseline) pairs; `None` when there is none.
    pub(super) fn of(pairs: &[(f64, f64)]) -> Option<Paired> {
        if pairs.is_empty() {
            return None;
        }
        let savings: Vec<f64> = pairs.iter().map(|(value, base)| saving(*value, *base)).collect();
        let (low, high) = interval(&savings).unzip();
        Some(Paired {
            traces: pairs.len() as u64,
            mean: mean(&savings),
            low,
            high,
            p10: percentile(&savings, 0.1),
            worst: percentile(&savings, 0.0),
            better: savings.iter().filter(|saving| **saving > 0.0).count() as u64,
            worse: savings.iter().filter(|saving| **saving < 0.0).count() as u64,
        })
    }
}

/// 95 % interval of the mean; `None` of too few values.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < INTERVAL_TRACES_MIN {
        return None;
    }
    let mut rng = Rng::seeded(1);
    let n = values.len() as u64;
    let draw = |_| {
        let sum: f64 = (0..n).map(|_| values[rng.below(n) as usize]).sum();
        sum / n as f64
    };
    let means: Vec<f64> = (0..DRAWS).map(draw).collect();
    Some((percentile(&means, TAIL), percentile(&means, 1.0 - TAIL)))
}
