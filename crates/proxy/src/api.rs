//! Data types of a balancer's API, in JSON. Latencies are microseconds, moments milliseconds since
//! 1970, as in the engine's API.

use serde::{Deserialize, Serialize};
use thermocline_admin::api::{Latency, Tactic};
use utoipa::ToSchema;

/// The balancer at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BalanceStatus {
    /// Time since the start.
    pub uptime_seconds: f64,
    /// Addresses at which it listens.
    pub listen: Vec<String>,
    /// The rule that picks, with its settings.
    pub policy: String,
    /// True if the rule believes that requests come in a burst; `null`: it does not ask.
    pub bursting: Option<bool>,
    /// Number of backends it chooses among (K); `null`: that has no meaning for it.
    pub candidates: Option<f64>,
    /// Balancers before the same servers, this one included, as far as reports tell.
    pub balancers: u32,
    /// True if no backend is fit and all are tried.
    pub panic: bool,
    /// Connections of clients.
    pub connections: u64,
    /// Connections that were ever accepted.
    pub accepted: u64,
    /// Connections that were closed at once, because there were too many from their address.
    pub connections_refused: u64,
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that wait for a place.
    pub waiting: u32,
    /// Requests that waited in vain, or found no place to wait.
    pub turned_away: u64,
    /// Requests that were no HTTP that is served here.
    pub bad_requests: u64,
    /// Retries that the budget did not allow.
    pub retries_denied: u64,
    /// Bytes of bodies and streams that clients were sent.
    pub sent_bytes: u64,
    /// Lines of the access log that were lost.
    pub log_lines_dropped: u64,
    /// Probes of servers.
    #[serde(default)]
    pub probes: ProbeStatus,
    /// Tactics in force, one of each kind, with their shadows.
    #[serde(default)]
    pub tactics: Vec<Tactic>,
    /// Each backend.
    pub backends: Vec<BackendStatus>,
}

/// Counts of probes, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbeStatus {
    /// Probes that were sent.
    pub sent: u64,
    /// Probes whose answers were used.
    pub answered: u64,
    /// Without an answer in time.
    pub late: u64,
    /// Probes whose connection broke, or whose answer was no report that can be believed.
    pub failed: u64,
    /// That were not sent, because too many were under way.
    pub skipped: u64,
}

/// A backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackendStatus {
    /// Its name.
    pub name: String,
    /// new, slow start, up, ejected, down or draining.
    pub state: String,
    /// Weight as configured.
    pub weight: f64,
    /// Part of its weight that counts now: less during slow start.
    pub share: f64,
    /// Requests under way.
    pub outstanding: u32,
    /// Requests at the same time, at most; `null`: no limit.
    pub requests_max: Option<u32>,
    /// Its load report, if there is one.
    pub report: Option<ReportStatus>,
    /// The last failure of a request or a check there; `null`: there was none.
    pub last_error: Option<LastError>,
    /// Counts since the start.
    pub counters: BackendCounters,
    /// Latency of the requests that were served.
    pub latency: Latency,
}

/// A backend's last report.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportStatus {
    /// Requests there, of all balancers.
    pub queue: u32,
    /// Seconds since it looked.
    pub age_s: f64,
}

/// A failure at a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastError {
    /// Time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The failure in words.
    pub text: String,
}

/// Counts of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct BackendCounters {
    /// Requests that were sent there, retries included.
    pub sent: u64,
    /// Answered, without an error of the server's.
    pub served: u64,
    /// Answered with 500 and above.
    pub errors: u64,
    /// No connection could be made.
    pub unreachable: u64,
    /// The connection broke, or what came was no answer.
    pub broken: u64,
    /// Requests that took too long.
    pub timed_out: u64,
    /// The client gave it up, or its body broke off, stalled or was no HTTP.
    pub abandoned: u64,
    /// Declined before anything was done with it (HTTP/2's REFUSED_STREAM).
    pub declined: u64,
    /// Failed here and was tried again.
    pub retried: u64,
    /// Times it was ejected.
    pub ejections: u64,
    /// Load reports that were used.
    pub reports: u64,
    /// Load reports that were refused or corrected.
    pub reports_refused: u64,
}

/// A second of the balancer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BalanceSecond {
    /// Its number since the start.
    pub number: u64,
    /// Requests that arrived in it.
    pub requests: u64,
    /// True if the rule believed to be in a burst at its end.
    pub bursting: Option<bool>,
    /// K at its end.
    pub candidates: Option<f64>,
    /// Each backend, by name.
    pub backends: Vec<BackendSecond>,
}

/// A second of a backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackendSecond {
    /// Its name.
    pub name: String,
    /// Requests that were sent there.
    pub sent: u64,
    /// Requests that failed there.
    pub failed: u64,
    /// Requests under way at its end.
    pub outstanding: u32,
    /// The queue last reported.
    pub queue: Option<u32>,
    /// Median and 99th percentile of requests served in it; 0: there were none.
    pub p50_us: f64,
    /// The 99th percentile, as above.
    pub p99_us: f64,
}
