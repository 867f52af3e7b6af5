//! What time it is, for whoever drives a machine. Machines themselves take `now` as an argument.

use thermocline_units::Nanos;

/// A clock that never runs backwards.
pub trait Clock {
    /// Nanoseconds since some fixed moment.
    fn now(&self) -> Nanos;
}

/// Virtual time: stands still until told otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct VirtualClock {
    now: Nanos,
}

impl VirtualClock {
    /// Moves on to `to`; a moment already past leaves the clock where it is.
    pub fn advance_to(&mut self, to: Nanos) {
        self.now = self.now.max(to);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        self.now
    }
}
