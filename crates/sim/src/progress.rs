//! Progress of a run, for whoever waits: the command's bar, a Python program's callback.

/// Amount of work in a part of a run; `None` where it is not known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes of input.
    Bytes(Option<u64>),
    /// Requests, lines, cells: things.
    Things(Option<u64>),
}

/// Receiver of progress. It is told from any thread, often, and must answer at once.
pub trait ProgressSink: Sync {
    /// A part of the run begins: what it does ("reading"), and how much there is to do.
    fn begin(&self, what: &str, amount: Amount);

    /// Tells how much of the part is done.
    fn at(&self, done: u64);

    /// Tells how much more of the part is done.
    fn more(&self, done: u64);
}
