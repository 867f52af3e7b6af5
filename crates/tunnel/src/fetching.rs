//! Chunks that flows wait for from the device of the second tier, and for how long.
//!
//! 1. A chunk that the device has not returned within the patience is asked for at the other end.
//!    What the device says of it afterwards is not heard.
//! 2. A device that was asked and has answered nothing at all for [`HUNG_AFTER`] is given up.

use crate::decoder::Fetch;
use crate::store::Ticket;
use std::collections::BTreeMap;
use thermocline_units::Nanos;

/// A device that says nothing for so long, while it is asked, does not come back.
pub(crate) const HUNG_AFTER: Nanos = Nanos::from_secs(30);

/// A flow that waits for a chunk.
struct Wait {
    flow: u32,
    fetch: Fetch,
    /// The time at which it waits no longer.
    until: Nanos,
}

/// Chunks that the device is asked for, and the flows that wait for them.
pub(crate) struct Fetching {
    patience: Nanos,
    /// Chunks in the order in which they were asked for, which is that of their times.
    waits: BTreeMap<Ticket, Wait>,
    /// Time of the oldest question since the device's last answer.
    silent_since: Option<Nanos>,
}

impl Fetching {
    /// Nothing is asked for. Nobody waits longer than the patience.
    pub(crate) fn new(patience: Nanos) -> Fetching {
        Fetching { patience, waits: BTreeMap::new(), silent_since: None }
    }

    pub(crate) fn begin(&mut self, now: Nanos, flow: u32, fetch: Fetch) {
        let until = Nanos(now.0.saturating_add(self.patience.0));
        self.waits.insert(fetch.ticket, Wait { flow, fetch, until });
        self.silent_since.get_or_insert(now);
    }

    /// The device said something.
    pub(crate) fn heard(&mut self, now: Nanos) {
        self.silent_since = (!self.waits.is_empty()).then_some(now);
    }

    /// The device is done with a chunk; the flow that still waits for it.
    pub(crate) fn answered(&mut self, ticket: Ticket) -> Option<(u32, Fetch)> {
        let wait = self.waits.remove(&ticket)?;
        Some((wait.flow, wait.fetch))
    }

    /// The next chunk that was waited for long enough.
    pub(crate) fn late(&mut self, now: Nanos) -> Option<(u32, Fetch)> {
        let first = self.waits.first_entry()?;
        (first.get().until <= now).then(|| {
            let Wait { flow, fetch, .. } = first.remove();
            (flow, fetch)
        })
    }

    /// True once, when the device is to be given up.
    pub(crate) fn is_hung(&mut self, now: Nanos) -> bool {
        let is_hung = self.hung_at().is_some_and(|at| at <= now);
        if is_hung {
            self.silent_since = None;
        }
        is_hung
    }

    /// Time at which the next wait is too long.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let first = self.waits.first_key_value().map(|(_, wait)| wait.until);
        first.into_iter().chain(self.hung_at()).min()
    }

    fn hung_at(&self) -> Option<Nanos> {
        self.silent_since.map(|since| Nanos(since.0.saturating_add(HUNG_AFTER.0)))
    }
}
