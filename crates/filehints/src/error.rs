//! Reasons that no hints can be given.

use thermocline_admin::client::CallError;

/// A reason that no hints can be given. The message names the file or device and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum HintError {
    /// The caller named something that is not there, or is no file or device of a volume.
    #[error("{0}")]
    Input(String),
    /// The system did not do what was asked of it.
    #[error("{0}")]
    Failed(String),
    /// The engine did not answer, or refused.
    #[error(transparent)]
    Engine(#[from] CallError),
}
