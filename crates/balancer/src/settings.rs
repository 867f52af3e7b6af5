//! Settings of a dispatcher: plain data, with the defaults and their reasons.

use thermocline_policy::balance::fitness::{Checks, Outliers};
use thermocline_policy::tactics::BalancerTactics;
use thermocline_units::Nanos;

/// Most backends of one dispatcher; every pick looks at each of them.
pub const BACKENDS_MAX: usize = 4096;

/// Settings of a dispatcher.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Requests that wait for a place when all backends are at their limits.
    pub queue_max: u32,
    /// Longest time that a request waits.
    pub queue_patience: Nanos,
    /// Most retries of one request.
    pub retries_max: u32,
    /// Retries for each request that arrives, 0 to 1: when everything fails, retries are this
    /// share on top of the load, and no more.
    pub retry_share: f64,
    /// Retries a second that are always allowed, so that few requests can be tried again too.
    pub retry_floor_per_s: f64,
    /// Time until a backend that comes (back) gets its full share; 0: at once.
    pub slow_start: Nanos,
    /// True if requests go to unfit backends when there is no fit one.
    pub panic: bool,
    /// Passive detection.
    pub outliers: Outliers,
    /// Answers to small questions: who is left alone, what is retried, how shares grow.
    pub tactics: BalancerTactics,
    /// Active checks; `None`: backends are fit until requests fail.
    pub checks: Option<Checks>,
    /// Load reports older than this are refused.
    pub report_age_max: Nanos,
}

/// One backend.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendSettings {
    /// Its name, unique among the backends.
    pub name: String,
    /// Speed relative to the others, above 0.
    pub weight: f64,
    /// Requests at the same time, at most.
    pub requests_max: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            queue_max: 1024,
            queue_patience: Nanos::from_secs(1),
            retries_max: 2,
            retry_share: 0.2,
            retry_floor_per_s: 10.0,
            slow_start: Nanos::from_secs(10),
            panic: true,
            outliers: Outliers::default(),
            tactics: BalancerTactics::default(),
            checks: None,
            report_age_max: Nanos::from_secs(10),
        }
    }
}
