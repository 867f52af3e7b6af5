//! Answers for the machine above, until it fetches them.

use thermocline_ports::{Completion, DeviceError, Payload, Ticket};

/// Answers that are ready.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    ready: Vec<Completion>,
    /// True once a flush failed that may have forgotten writes.
    forgot: bool,
}

impl Answers {
    /// A flush failed that may have forgotten writes.
    pub(crate) fn forget(&mut self) {
        self.forgot = true;
    }

    /// True once that has happened.
    pub(crate) fn have_forgotten(&self) -> bool {
        self.forgot
    }

    /// Error of every request to a cache that has failed. After a flush that may have forgotten
    /// writes it is the one that says so: whoever flushes next must learn it, and the devices hold
    /// everything that was flushed before.
    pub(crate) fn refusal(&self) -> DeviceError {
        if self.forgot { DeviceError::Io } else { DeviceError::Gone }
    }

    /// Answers a request. What was under way when a flush forgot writes may be what was there
    /// before them, and is not shown.
    pub(crate) fn answer(&mut self, ticket: Ticket, result: Result<Payload, DeviceError>) {
        let result = if self.forgot { result.and(Err(self.refusal())) } else { result };
        self.ready.push(Completion { ticket, result });
    }

    /// True if none is ready.
    pub(crate) fn are_none(&self) -> bool {
        self.ready.is_empty()
    }

    /// Appends those that are ready.
    pub(crate) fn hand_over(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }
}
