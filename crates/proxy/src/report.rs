//! Load reports on the wire: a field of an answer, or JSON. docs/formats/load-report.md.
//!
//! Foreign bytes: whatever is not a report is an error, and no number is believed here; the
//! dispatcher judges them. Unknown members are passed over, so that a report may say more than this
//! version reads.

use serde::{Deserialize, Serialize};
use thermocline_balancer::LoadReport;
use thermocline_units::Nanos;
use utoipa::ToSchema;

/// Ages are below this, in seconds: longer ones are no use, and make no overflow.
const AGE_S_MAX: f64 = 1e6;

/// A load report in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoadReportJson {
    /// Requests waiting or in service, of all balancers.
    pub queue: u64,
    /// Requests that have ever arrived; 0 when it does not count.
    #[serde(default)]
    pub arrivals: u64,
    /// Balancers that send there; 0 when it does not know.
    #[serde(default)]
    pub balancers: u64,
    /// Seconds since it looked.
    #[serde(default)]
    pub age_s: f64,
}

/// A reason that bytes are no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReport {
    /// A member is not `name=number`.
    #[error(
        "`{0}` is not `name=number`; a report is `queue=3, arrivals=1207, balancers=2, age=0.25`"
    )]
    Member(String),
    /// Without a queue a report says nothing.
    #[error("the report has no queue; a report is `queue=3, arrivals=1207, balancers=2, age=0.25`")]
    NoQueue,
    /// The age is no time.
    #[error("an age of {0} s is none; expected 0 or more seconds")]
    Age(String),
    /// A text that is not the JSON that it should be.
    #[error(
        "{0}; a report is {{\"queue\": 3, \"arrivals\": 1207, \"balancers\": 2, \"age_s\": 0.25}}"
    )]
    Json(String),
}

/// Reads the field of an answer: a dictionary of numbers (RFC 9651 §3.2).
///
/// # Errors
/// When it is none, or tells no queue.
pub fn from_field(text: &str) -> Result<LoadReport, NoReport> {
    let mut queue = None;
    let mut report = LoadReport::default();
    for member in text.split(',').map(str::trim) {
        let wrong = || NoReport::Member(member.chars().take(40).collect());
        let (name, value) = member.split_once('=').ok_or_else(wrong)?;
        let count = || value.parse::<u64>().map_err(|_| wrong());
        match name {
            "queue" => queue = Some(count()?),
            "arrivals" => report.arrivals = count()?,
            "balancers" => report.balancers = count()?,
            "age" => report.age = age(value.parse().map_err(|_| wrong())?)?,
            _ => {}
        }
    }
    report.queue = queue.ok_or(NoReport::NoQueue)?;
    Ok(report)
}

/// Latency of requests at a server now, where the field of its answer tells: `latency=0.004`, in
/// seconds.
///
/// # Errors
/// When it is no time.
pub fn latency_from_field(text: &str) -> Result<Option<Nanos>, NoReport> {
    let members = text.split(',').map(str::trim);
    let latency = members.filter_map(|member| member.split_once('=')).find(|m| m.0 == "latency");
    let Some((_, value)) = latency else { return Ok(None) };
    age(value.parse().map_err(|_| NoReport::Member(format!("latency={value}")))?).map(Some)
}

/// The same where JSON tells: `"latency_s": 0.004`.
///
/// # Errors
/// When it is no time.
pub fn latency_from_json(bytes: &[u8]) -> Result<Option<Nanos>, NoReport> {
    #[derive(Deserialize)]
    struct Told {
        latency_s: Option<f64>,
    }
    let told: Told =
        serde_json::from_slice(bytes).map_err(|error| NoReport::Json(error.to_string()))?;
    told.latency_s.map(age).transpose()
}

/// Reads JSON.
///
/// # Errors
/// When it is not a report's.
pub fn from_json(bytes: &[u8]) -> Result<LoadReport, NoReport> {
    let json: LoadReportJson =
        serde_json::from_slice(bytes).map_err(|error| NoReport::Json(error.to_string()))?;
    json.report()
}

impl LoadReportJson {
    /// The report as the dispatcher takes it.
    ///
    /// # Errors
    /// When the age is none.
    pub fn report(&self) -> Result<LoadReport, NoReport> {
        let LoadReportJson { queue, arrivals, balancers, age_s } = *self;
        Ok(LoadReport { queue, arrivals, balancers, age: age(age_s)? })
    }
}

fn age(seconds: f64) -> Result<Nanos, NoReport> {
    if !(0.0..AGE_S_MAX).contains(&seconds) {
        return Err(NoReport::Age(seconds.to_string()));
    }
    Ok(Nanos((seconds * 1e9) as u64))
}

#[cfg(test)]
mod tests;
