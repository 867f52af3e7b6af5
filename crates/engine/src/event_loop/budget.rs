//! Memory for requests that all connections share: granted in the order in which it was asked for.
//!
//! Bookkeeping only, told by whoever owns the connections. A request that does not fit waits, and
//! those behind it wait too, so that small requests never keep a large one out for ever. What
//! connections hold without asking is not counted here.

use std::collections::VecDeque;
use thermocline_units::{Bytes, Nanos};

/// A connection whose next request waits.
#[derive(Debug)]
struct Waiting {
    connection: u64,
    bytes: u64,
    since: Nanos,
}

/// Budget of memory for clients' requests.
#[derive(Debug)]
pub(super) struct Budget {
    limit: Bytes,
    used: u64,
    waiting: VecDeque<Waiting>,
}

impl Budget {
    pub(super) fn new(limit: Bytes) -> Budget {
        Budget { limit, used: 0, waiting: VecDeque::new() }
    }

    /// Asks for memory for a connection's next request: true if it is granted at once; otherwise
    /// [`Budget::next`] will say when.
    pub(super) fn ask(&mut self, connection: u64, bytes: u64, now: Nanos) -> bool {
        let earlier = self.waiting.iter_mut().find(|waiting| waiting.connection == connection);
        if let Some(waiting) = earlier {
            waiting.bytes = bytes;
            return false;
        }
        if self.waiting.is_empty() && self.fits(bytes) {
            self.used += bytes;
            return true;
        }
        self.waiting.push_back(Waiting { connection, bytes, since: now });
        false
    }

    /// Grants what has waited longest, if it fits now: the connection, and the bytes.
    pub(super) fn next(&mut self) -> Option<(u64, u64)> {
        let bytes = self.waiting.front()?.bytes;
        if !self.fits(bytes) {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.used += first.bytes;
        Some((first.connection, first.bytes))
    }

    /// True if so much can be granted. A request larger than the limit goes when it is alone.
    fn fits(&self, bytes: u64) -> bool {
        self.used == 0 || self.used + bytes <= self.limit.0
    }

    /// Takes back what was granted.
    pub(super) fn release(&mut self, bytes: u64) {
        self.used = self.used.checked_sub(bytes).expect("only what was granted comes back");
    }

    /// A connection has gone: what was `granted` to it comes back, and its requests that are still
    /// on devices hold `held`, which comes back with their answers.
    pub(super) fn leave(&mut self, connection: u64, granted: u64, held: u64) {
        self.waiting.retain(|waiting| waiting.connection != connection);
        self.release(granted);
        self.used += held;
    }

    /// Time since which the first request has waited.
    pub(super) fn waits_since(&self) -> Option<Nanos> {
        self.waiting.front().map(|waiting| waiting.since)
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes granted and not come back.
    pub(super) fn used(&self) -> Bytes {
        Bytes(self.used)
    }

    /// Bytes that may be granted at once.
    pub(super) fn limit(&self) -> Bytes {
        self.limit
    }
}

#[cfg(test)]
mod tests;
