//! Faults of a faulty disk: settings, plain data.

use thermocline_units::Nanos;

/// Slowdown of a delayed request.
pub(super) const DELAY_FACTOR: u64 = 100;

/// Contents of a sector that was never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Zero bytes.
    Zeroes,
    /// Bytes that follow from the disk's seed; catches whoever trusts a fresh place.
    Garbage,
}

/// Faults and their probabilities per request, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Contents of never-written sectors. Read when the disk is made.
    pub background: Background,
    /// Mean of a request's latency; exponentially distributed, at least 1 ns.
    pub latency_mean: Nanos,
    /// Time until a request that times out says so.
    pub time_out_after: Nanos,
    /// Probability of [`crate::DeviceError::Io`].
    pub fail: f64,
    /// Probability of [`crate::DeviceError::TimedOut`].
    pub time_out: f64,
    /// Probability of a latency a hundred times longer; a time-out comes in time.
    pub delay: f64,
    /// Probability, per read, that a stored bit in its range has flipped for good.
    pub flip: f64,
    /// True if a flush that fails with [`crate::DeviceError::Io`] forgets what it was to make
    /// durable: any subset of it is lost, and the next flush says that all is well.
    pub forgets: bool,
}

impl Faults {
    /// Nothing goes wrong; fresh sectors hold garbage, requests take 100 µs in the mean.
    pub const NONE: Faults = Faults {
        background: Background::Garbage,
        latency_mean: Nanos::from_micros(100),
        time_out_after: Nanos::from_secs(1),
        fail: 0.0,
        time_out: 0.0,
        delay: 0.0,
        flip: 0.0,
        forgets: false,
    };
}

impl Default for Faults {
    fn default() -> Faults {
        Faults::NONE
    }
}
