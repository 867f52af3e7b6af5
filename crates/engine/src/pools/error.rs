//! Reasons for which devices do not make a volume group.

use std::fmt::Display;

/// A reason that devices do not make a volume group. The message names the device and says what to
/// do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The configuration, or what is on a device, is not what is needed.
    #[error("{0}")]
    Input(String),
    /// The system, or a device, did not do what was asked of it.
    #[error("{0}")]
    Failed(String),
}

impl StartError {
    pub(super) fn input(message: impl Display) -> StartError {
        StartError::Input(message.to_string())
    }

    pub(super) fn failed(message: impl Display) -> StartError {
        StartError::Failed(message.to_string())
    }
}
