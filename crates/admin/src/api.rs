//! Data types that all administrative APIs share: events, refusals, latencies. Latencies are
//! microseconds, moments milliseconds since 1970.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use thermocline_policy::tactics::{Disagreement, Kind};
use thermocline_units::Latencies;
use utoipa::ToSchema;

/// A distribution of latencies, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// Number of requests.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// Latency that 99 of 100 do not exceed.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl From<&Latencies> for Latency {
    fn from(latencies: &Latencies) -> Latency {
        let micros = |nanos: thermocline_units::Nanos| nanos.0 as f64 / 1e3;
        Latency {
            count: latencies.count(),
            mean_us: micros(latencies.mean()),
            p50_us: micros(latencies.quantile(0.5)),
            p99_us: micros(latencies.quantile(0.99)),
            max_us: micros(latencies.max()),
        }
    }
}

/// A tactic in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tactic {
    /// Its kind, such as `allocation`.
    pub kind: String,
    /// The tactic as it was written.
    pub tactic: String,
    /// Tactics that are asked the same, and not followed.
    pub shadows: Vec<TacticShadow>,
}

/// A tactic that is asked the same as the one in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TacticShadow {
    /// The tactic as it was written.
    pub tactic: String,
    /// Questions since the start.
    pub asked: u64,
    /// Those of them that it would have answered otherwise.
    pub differed: u64,
}

impl Tactic {
    /// The tactics in force, by kind, each with the shadows of its kind.
    pub fn in_force<'a>(
        tactics: impl IntoIterator<Item = (Kind, &'a str)>,
        told: &[Disagreement],
    ) -> Vec<Tactic> {
        let shadow = |shadow: &Disagreement| TacticShadow {
            tactic: shadow.shadow.clone(),
            asked: shadow.asked,
            differed: shadow.differed,
        };
        let of = |(kind, tactic): (Kind, &str)| Tactic {
            kind: kind.name().to_string(),
            tactic: tactic.to_string(),
            shadows: told.iter().filter(|told| told.kind == kind).map(shadow).collect(),
        };
        tactics.into_iter().map(of).collect()
    }
}

/// Importance of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Somebody should look.
    Warning,
    /// Something is lost or broken.
    Error,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number since the start.
    pub id: u64,
    /// Time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its importance.
    pub severity: Severity,
    /// Subject: engine, volume, pool, policy, move, job, client, recording, and others by program.
    pub subject: String,
    /// The event in a sentence.
    pub text: String,
}

/// A wish that was not granted. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The reason, and what to do.
    pub message: String,
    /// The status of the HTTP response.
    #[serde(skip)]
    pub status: u16,
}

impl Refused {
    /// Something that is not there: 404.
    pub fn missing(message: impl ToString) -> Refused {
        Refused { message: message.to_string(), status: 404 }
    }

    /// Something that is in the way: 409.
    pub fn conflict(message: impl ToString) -> Refused {
        Refused { message: message.to_string(), status: 409 }
    }

    /// A wish that cannot be granted as it is: 422.
    pub fn invalid(message: impl ToString) -> Refused {
        Refused { message: message.to_string(), status: 422 }
    }

    /// Something that cannot be done now: 503.
    pub fn unavailable(message: impl ToString) -> Refused {
        Refused { message: message.to_string(), status: 503 }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        (status, Json(self)).into_response()
    }
}
