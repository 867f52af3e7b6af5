//! A dispatcher at a glance, for people.

use crate::backend::State;
use thermocline_policy::balance::Mood;
use thermocline_policy::tactics::{Disagreement, Kind};
use thermocline_units::{Latencies, Nanos};

/// Counters of a backend, and of all of them, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were sent there, retries included.
    pub sent: u64,
    /// That were answered without a server's error.
    pub served: u64,
    /// That were answered with one (HTTP 500 and above).
    pub errors: u64,
    /// Requests whose connection could not be made.
    pub unreachable: u64,
    /// Requests whose connection broke, or whose answer was none.
    pub broken: u64,
    /// That took too long.
    pub timed_out: u64,
    /// That the client gave up, or spoiled: its body broke off, stalled or was no HTTP.
    pub abandoned: u64,
    /// That the backend declined before doing anything (HTTP/2's REFUSED_STREAM).
    pub declined: u64,
    /// Retries of requests that had failed here.
    pub retried: u64,
    /// Ejections.
    pub ejections: u64,
    /// Load reports that were used.
    pub reports: u64,
    /// Load reports that were refused, or corrected.
    pub reports_refused: u64,
}

impl Counters {
    /// Requests that were sent there and have ended, in whatever way.
    pub(crate) fn ended(&self) -> u64 {
        let failed = self.errors + self.unreachable + self.broken + self.timed_out;
        self.served + failed + self.abandoned + self.declined
    }
}

/// One backend.
#[derive(Debug, Clone)]
pub struct BackendStatus {
    /// Number of this backend, never given twice by a dispatcher. A backend that is removed and
    /// added again under its name has another one, and its counters begin at 0.
    pub identity: u64,
    /// Its name.
    pub name: String,
    /// Its fitness.
    pub state: State,
    /// Its weight, as configured.
    pub weight: f64,
    /// Part of the weight that counts now: less during slow start.
    pub share: f64,
    /// Requests under way.
    pub outstanding: u32,
    /// Requests at the same time, at most.
    pub requests_max: u32,
    /// The queue last reported, of all balancers.
    pub reported_queue: Option<u32>,
    /// Age of that report.
    pub report_age: Option<Nanos>,
    /// Its counters.
    pub counters: Counters,
    /// Latencies of the requests that were served.
    pub latencies: Latencies,
}

/// The whole.
#[derive(Debug, Clone)]
pub struct Status {
    /// The rule's judgement of the arrivals.
    pub mood: Mood,
    /// True if unfit backends are tried because none is fit.
    pub panic: bool,
    /// Balancers that reports tell of, this one included.
    pub balancers: u32,
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that wait for a place.
    pub waiting: u32,
    /// Requests that waited in vain, or found no place to wait.
    pub turned_away: u64,
    /// Retries that the budget did not allow.
    pub retries_denied: u64,
    /// Tactics in force, as they were written.
    pub tactics: Vec<(Kind, String)>,
    /// Answers of their shadows beside theirs.
    pub disagreements: Vec<Disagreement>,
    /// Each backend.
    pub backends: Vec<BackendStatus>,
}
