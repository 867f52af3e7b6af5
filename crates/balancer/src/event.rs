//! Events of backends, as a dispatcher reports them.

use thermocline_units::Nanos;

/// An event of a backend, or of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A backend was added.
    Added(String),
    /// A backend was removed; its requests under way finish.
    Removed(String),
    /// Requests to it failed; it is left alone for so long.
    Ejected(String, Nanos),
    /// Its ejection is over.
    Returned(String),
    /// Its checks pass.
    Passed(String),
    /// Its checks fail.
    Failed(String),
    /// A backend is sent nothing new.
    Draining(String),
    /// A draining backend has nothing left.
    Drained(String),
    /// A backend may be sent requests again.
    Undrained(String),
    /// Its load reports were untrue; they are not used for a while.
    Silenced(String),
    /// No backend is fit: all are tried.
    Panic,
    /// Some are fit again.
    Calm,
}
