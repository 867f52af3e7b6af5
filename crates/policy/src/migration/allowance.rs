//! Bytes that operations may move on one pool: a token bucket for the limit, and a tag for what is
//! reserved.
//!
//! The tag is mClock's R (Gulati et al., OSDI 2010): the moment at which operations are owed their
//! next bytes. Bytes that they move while clients leave the pool alone are not counted against it.

use super::{Copying, DISK_PIECE};
use thermocline_units::Nanos;

/// Allowance of the operations on one pool.
#[derive(Debug, Clone, Default)]
pub struct Allowance {
    bytes: f64,
    at: Nanos,
    owed_at: Nanos,
}

impl Allowance {
    /// Moment at which operations may move `bytes`: `now`, or a later one.
    pub(crate) fn time_for(&mut self, now: Nanos, bytes: u32, copying: &Copying) -> Nanos {
        let Some(rate) = copying.rate_per_second else { return now };
        let rate = (rate.0 as f64).max(1.0);
        // A tenth of a second's worth may be saved up, and at least two pieces.
        let piece = copying.piece.unwrap_or(DISK_PIECE);
        let burst = (rate / 10.0).max(2.0 * bytes.max(piece.0 as u32) as f64);
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.bytes = (self.bytes + rate * passed).min(burst);
        self.at = now;
        let missing = f64::from(bytes) - self.bytes;
        if missing <= 0.0 { now } else { Nanos(now.0 + (missing / rate * 1e9) as u64 + 1) }
    }

    /// Moment at which operations are owed their next bytes; `None`: nothing is reserved for them.
    pub(crate) fn owed_at(&self, copying: &Copying) -> Option<Nanos> {
        copying.reserve_per_second.map(|_| self.owed_at)
    }

    /// Counts `bytes` that operations were owed: R = max(R, now) + bytes / r.
    pub(crate) fn repay(&mut self, now: Nanos, bytes: u32, copying: &Copying) {
        let Some(rate) = copying.reserve_per_second else { return };
        let span = f64::from(bytes) / (rate.0 as f64).max(1.0) * 1e9;
        self.owed_at = Nanos(self.owed_at.max(now).0.saturating_add(span as u64));
    }

    /// Counts `bytes` against the limit.
    pub fn spend(&mut self, bytes: u32, copying: &Copying) {
        if copying.rate_per_second.is_some() {
            self.bytes -= f64::from(bytes);
        }
    }
}
