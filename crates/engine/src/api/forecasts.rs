//! Forecasts of other devices and policies, as `thermocline advise --live --publish` makes them.
//!
//! The engine computes none: it knows no models. It keeps and shows what is published.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Trials of a forecast at most.
const TRIALS_MAX: usize = 64;
/// Sentences of a forecast at most.
const SENTENCES_MAX: usize = 64;
/// Bytes of a text in a forecast.
const TEXT_MAX: usize = 2048;

/// A forecast to be published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewForecast {
    /// Length of the sample, from its first request to its last.
    pub span_seconds: f64,
    /// Requests of the sample.
    pub requests: u64,
    /// Bytes of the chunks that it touched.
    pub touched_bytes: u64,
    /// True if the modelled chunks begin where those of the engine were.
    pub from_map: bool,
    /// Latencies that the engine had meanwhile; null: it told none.
    #[serde(default)]
    pub measured: Option<ForecastMeasured>,
    /// Trials: the machine as it is, then what was tried; 1 to 64.
    pub trials: Vec<ForecastTrial>,
    /// Conclusions, in sentences; at most 64.
    pub sentences: Vec<String>,
}

/// Latencies of the engine while it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForecastMeasured {
    /// Reads and writes that were answered.
    pub requests: u64,
    /// Their mean.
    pub mean_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

/// A trial of a forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForecastTrial {
    /// The change, in a few words.
    pub what: String,
    /// Its policy.
    pub policy: String,
    /// Its devices, in a few words.
    pub devices: String,
    /// Comparison with the pools as they are: now, better, worse, same, unclear, impossible.
    pub verdict: ForecastVerdict,
    /// Figures; null: it could not be run.
    #[serde(default)]
    pub figures: Option<ForecastFigures>,
    /// Reason why it could not be run.
    #[serde(default)]
    pub problem: Option<String>,
}

/// Comparison of a trial with the pools as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForecastVerdict {
    /// The machine as it is.
    Now,
    /// Its mean is lower.
    Better,
    /// Its mean is higher.
    Worse,
    /// No difference worth telling.
    Same,
    /// Its runs differ too much to say.
    Unclear,
    /// A trial that could not be run.
    Impossible,
}

/// Figures of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForecastFigures {
    /// Mean latency of reads and writes.
    pub mean_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Ratio of the mean to that of the pools as they are, with both ends of its 95 % interval.
    pub mean_ratio: [f64; 3],
    /// Ratio of the 99th percentile, likewise.
    pub p99_ratio: [f64; 3],
    /// Drive writes a day of the flash device that is worn most; null: nobody knows.
    #[serde(default)]
    pub writes_a_day: Option<f64>,
    /// Cost of a month; null: nobody knows.
    #[serde(default)]
    pub month_cost: Option<f64>,
}

/// A forecast that was published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// Its number: each has a higher one than those before.
    pub number: u64,
    /// Moment at which it was published, milliseconds since 1970.
    pub at_ms: u64,
    /// Policy of the engine at that moment.
    pub policy: String,
    /// The forecast.
    pub forecast: NewForecast,
}

impl NewForecast {
    /// Looks at the document as a whole.
    ///
    /// # Errors
    /// When it has no trial, too many trials or sentences, too long a text, or a number that is
    /// negative.
    pub fn check(&self) -> Result<(), String> {
        if self.trials.is_empty() || self.trials.len() > TRIALS_MAX {
            let count = self.trials.len();
            return Err(format!("a forecast has 1 to {TRIALS_MAX} trials, not {count}"));
        }
        if self.trials[0].verdict != ForecastVerdict::Now {
            return Err("the first trial is that of the pools as they are (`now`)".to_string());
        }
        if self.sentences.len() > SENTENCES_MAX {
            let count = self.sentences.len();
            return Err(format!("a forecast has at most {SENTENCES_MAX} sentences, not {count}"));
        }
        let texts = self.trials.iter().flat_map(|trial| {
            let problem = trial.problem.iter();
            [&trial.what, &trial.policy, &trial.devices].into_iter().chain(problem)
        });
        if let Some(long) = texts.chain(&self.sentences).find(|text| text.len() > TEXT_MAX) {
            return Err(format!("a text has {} bytes; at most {TEXT_MAX}", long.len()));
        }
        let told = self.measured.iter().flat_map(|told| [told.mean_us, told.p99_us]);
        let figures = self.trials.iter().filter_map(|trial| trial.figures.as_ref());
        let figures = figures.flat_map(|figures| {
            let known = [figures.writes_a_day, figures.month_cost].into_iter().flatten();
            let ratios = figures.mean_ratio.into_iter().chain(figures.p99_ratio);
            [figures.mean_us, figures.p99_us].into_iter().chain(ratios).chain(known)
        });
        let fits = |number: f64| number.is_finite() && number >= 0.0;
        match std::iter::once(self.span_seconds).chain(told).chain(figures).all(fits) {
            true => Ok(()),
            false => Err("all numbers are finite, and none is below 0".to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
