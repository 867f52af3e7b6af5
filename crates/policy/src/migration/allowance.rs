//! Bytes that operations may move on one pool: a token bucket for the limit, and a tag for what is
//! reserved.
//!
//! The tag is mClock's R (Gulati et al., OSDI 2010): the moment at which operations are owed their
//! next bytes. Bytes that they move while clients leave the pool alone are not counted against it.

use super::Copying;
use thermocline_units::Nanos;

/// Allowance of the operations on one pool.
#[derive(Debug, Clone, Default)]
pub struct Allowance {
    bytes: f64,
    at: Nanos,
    owed_at: Nanos,
}

impl Allowance {
    /// Moment at which operations may move their next piece: `now`, or a later one. A piece may go
    /// as soon as those before it are paid for, whatever its length is: a long one would otherwise
    /// wait for ever beside short ones, which always take what is there.
    pub(crate) fn time_for(&mut self, now: Nanos, copying: &Copying) -> Nanos {
        let Some(rate) = copying.rate_per_second else { return now };
        let rate = (rate.0 as f64).max(1.0);
        let passed = now.saturating_sub(self.at).as_secs_f64();
        // A tenth of a second's worth may be saved up.
        self.bytes = (self.bytes + rate * passed).min(rate / 10.0);
        self.at = now;
        if self.bytes >= 0.0 { now } else { Nanos(now.0 + (-self.bytes / rate * 1e9) as u64 + 1) }
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
