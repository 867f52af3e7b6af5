//! How a dispatcher behaves: plain data, with the defaults and their reasons.

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
    /// Active checks; `None`: backends are fit until requests fail.
    pub checks: Option<Checks>,
    /// Load reports older than this are refused.
    pub report_age_max: Nanos,
}

/// Rules by which failing requests take a backend out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outliers {
    /// Failures in a row; 0 switches this off.
    pub consecutive: u32,
    /// The window over which shares of failures are taken.
    pub interval: Nanos,
    /// Failures among a backend's requests in a window, in per cent, that take it out when the
    /// others together have less than half that share; 0 switches this off.
    pub failed_percent: u8,
    /// Requests in a window below which shares mean nothing.
    pub requests_min: u32,
    /// Length of the first ejection; each further one is twice as long.
    pub ejection: Nanos,
    /// The longest ejection.
    pub ejection_max: Nanos,
    /// Backends that may be ejected at the same time, in per cent, rounded down; one always may,
    /// where there are two.
    pub ejected_percent_max: u8,
}

/// Rules for results of active checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Checks {
    /// Time between checks of a backend, on average.
    pub interval: Nanos,
    /// Successes in a row that bring a backend back. The first check of a new one decides alone.
    pub rise: u32,
    /// Failures in a row that take a backend out.
    pub fall: u32,
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
            checks: None,
            report_age_max: Nanos::from_secs(10),
        }
    }
}

impl Default for Outliers {
    fn default() -> Outliers {
        Outliers {
            consecutive: 5,
            interval: Nanos::from_secs(10),
            failed_percent: 50,
            requests_min: 20,
            ejection: Nanos::from_secs(10),
            ejection_max: Nanos::from_secs(300),
            ejected_percent_max: 50,
        }
    }
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { interval: Nanos::from_secs(2), rise: 2, fall: 3 }
    }
}
