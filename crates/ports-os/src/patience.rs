//! Time limits for one request to a device, and the device's state when they pass.
//!
//! A device that hangs is not one that fails: nothing comes back at all. So each request has two
//! limits, counted from the moment it was handed to the kernel, not from its submission: what waits
//! in a queue of ours says nothing about the device.
//!
//! 1. Behind the first limit the device is *suspect*. Nothing changes but what is told of it, and
//!    as soon as the request is answered all is well.
//! 2. Behind the second it is *given up*, for good: everything under way and everything to come is
//!    answered with [`thermocline_ports::DeviceError::Gone`]. Whatever the kernel still does for it
//!    is a request that failed: each sector is old or new.
//!
//! The second limit is longer than Linux itself needs to give a disk up (30 s a try, several tries,
//! and resets between them), so that a disk which the kernel still works on is left to it.

use thermocline_units::Nanos;

/// Limits for the time that a device may take for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Time after which the device is suspect; 30 s by default.
    pub suspect_after: Nanos,
    /// Time after which it is given up, counted from the same moment; 5 min by default.
    pub fail_after: Nanos,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience::DEFAULT
    }
}

/// State of a device, as far as its answers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// Requests are answered in time, or there are none.
    #[default]
    Well,
    /// A request is overdue.
    Suspect {
        /// Moment at which the oldest of them was handed to the kernel.
        since: Nanos,
    },
    /// A request was not answered at all, and nobody waits for the device any more.
    GivenUp,
}

impl Patience {
    /// Limits that suit disks and SSDs behind any kernel driver.
    pub const DEFAULT: Patience =
        Patience { suspect_after: Nanos::from_secs(30), fail_after: Nanos::from_secs(300) };

    /// Judges a device at `now` by the oldest request that it has not answered.
    pub fn judge(&self, now: Nanos, oldest: Option<Nanos>) -> Health {
        let Some(since) = oldest else { return Health::Well };
        let waited = now.saturating_sub(since);
        if waited >= self.fail_after {
            Health::GivenUp
        } else if waited >= self.suspect_after {
            Health::Suspect { since }
        } else {
            Health::Well
        }
    }
}

#[cfg(test)]
mod tests;
