//! State of a store as others see it.

use crate::open_error::OpenError;
use thermocline_ports::DeviceError;

/// State of a store: only a ready one takes requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// Being formatted or opened.
    Opening,
    /// Taking requests.
    Ready,
    /// Not to be opened.
    Refused(OpenError),
    /// Its device failed, and the store could not continue. Everything that was flushed is found
    /// when the store is opened again.
    Stopped(DeviceError),
}
