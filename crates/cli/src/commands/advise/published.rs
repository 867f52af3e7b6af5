//! Advice for a running engine, whose dashboard shows it.

use super::{Report, text};
use crate::error::CliError;
use hyper::Method;
use std::path::Path;
use thermocline_admin::client::Client;
use thermocline_engine::api::{
    Forecast, ForecastFigures, ForecastMeasured, ForecastTrial, ForecastVerdict, NewForecast,
};
use thermocline_sim::advise::{Answer, Figures, Measured, Ratio, Verdict};

/// Gives the advice to the engine.
///
/// # Errors
/// When the engine has gone, or does not take it.
pub(super) fn publish(api: &Path, report: &Report) -> Result<(), CliError> {
    let _: Forecast = Client::new(api).send(Method::POST, "/v1/forecasts", &forecast(report))?;
    Ok(())
}

fn forecast(report: &Report) -> NewForecast {
    let advice = &report.advice;
    NewForecast {
        span_seconds: advice.span_s,
        requests: advice.requests,
        touched_bytes: advice.touched_bytes,
        from_map: report.from_map,
        measured: advice.measured.map(|Measured { requests, mean_s, p99_s }| ForecastMeasured {
            requests,
            mean_us: mean_s * 1e6,
            p99_us: p99_s * 1e6,
        }),
        trials: advice.answers.iter().map(trial).collect(),
        sentences: text::sentences(report),
    }
}

fn trial(answer: &Answer) -> ForecastTrial {
    ForecastTrial {
        what: answer.what.clone(),
        policy: answer.policy.clone(),
        devices: text::parts(answer),
        verdict: match answer.verdict {
            Verdict::Now => ForecastVerdict::Now,
            Verdict::Better => ForecastVerdict::Better,
            Verdict::Worse => ForecastVerdict::Worse,
            Verdict::Same => ForecastVerdict::Same,
            Verdict::Unclear => ForecastVerdict::Unclear,
            Verdict::Impossible => ForecastVerdict::Impossible,
        },
        figures: answer.figures.as_ref().map(figures),
        problem: answer.problem.clone(),
    }
}

fn figures(figures: &Figures) -> ForecastFigures {
    // Ratios of latencies of nothing have no finite ends.
    let ends = |Ratio { mean, low, high }: Ratio| {
        [mean, low, high].map(|end| if end.is_finite() { end } else { 0.0 })
    };
    ForecastFigures {
        mean_us: figures.mean_s.mean * 1e6,
        p99_us: figures.p99_s.mean * 1e6,
        mean_ratio: ends(figures.mean_ratio),
        p99_ratio: ends(figures.p99_ratio),
        writes_a_day: figures.writes_a_day,
        month_cost: figures.month_cost,
    }
}
