//! A server that all requests of one direction share, one after the other: the bandwidth of a
//! device or a link, and its limit of commands per second.

use super::profile::Lane;
use thermocline_units::Nanos;

/// A lane, and when it is free.
#[derive(Debug, Clone, Copy)]
pub struct LaneModel {
    command: u64,
    /// Nanoseconds per byte.
    per_byte: f64,
    free: Nanos,
}

impl LaneModel {
    /// A lane that is free.
    pub fn new(lane: &Lane) -> LaneModel {
        LaneModel {
            command: lane.command.0,
            per_byte: 1e9 / lane.bytes_per_s as f64,
            free: Nanos(0),
        }
    }

    /// Time that whatever comes at `now` waits for what came before it.
    pub fn wait(&self, now: Nanos) -> Nanos {
        self.free.saturating_sub(now)
    }

    /// Time at which `bytes` that come at `now` are through. Calls come in the order of time.
    #[inline]
    pub fn pass(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let start = self.free.max(now);
        let time = self.command + (bytes as f64 * self.per_byte) as u64;
        self.free = Nanos(start.0 + time);
        self.free
    }

    /// Time at which `bytes` are through that belong to a command which has passed already.
    pub fn pass_bytes(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let start = self.free.max(now);
        self.free = Nanos(start.0 + (bytes as f64 * self.per_byte) as u64);
        self.free
    }
}
