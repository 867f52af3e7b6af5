//! State of a group's service.

use crate::opening::error::OpenError;

/// State of a group's service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// Formatting or recovering.
    Opening,
    /// Requests are served.
    Ready,
    /// Finishing what is under way.
    Closing,
    /// All is durable; nothing is in flight.
    Closed,
    /// Out of service for good; the devices are as a crash would leave them.
    Failed(OpenError),
}
