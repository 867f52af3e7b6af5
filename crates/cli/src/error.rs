//! Failure of a command: one message on stderr and an exit status.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use thermocline_admin::client::CallError;
use thermocline_engine::pools::StartError;
use thermocline_filehints::HintError;

/// A failed command.
#[derive(Debug)]
pub(crate) struct CliError {
    message: String,
    status: u8,
}

impl CliError {
    /// The input, the configuration or the command line is wrong (status 2).
    pub(crate) fn input(message: impl Display) -> CliError {
        CliError { message: message.to_string(), status: 2 }
    }

    /// The work could not be done, or a verdict is negative (status 1).
    pub(crate) fn failed(message: impl Display) -> CliError {
        CliError { message: message.to_string(), status: 1 }
    }

    /// A command that was to be run cannot be: 127 it is not there, 126 it is not allowed.
    pub(crate) fn command(message: impl Display, status: u8) -> CliError {
        CliError { message: message.to_string(), status }
    }

    /// The same error, with more that is wrong below it.
    #[must_use]
    pub(crate) fn with(self, more: &str) -> CliError {
        CliError { message: format!("{}\n{more}", self.message), ..self }
    }

    /// Prints the message; the exit code. A reader that closed our pipe (`… | head`) is no failure.
    #[allow(clippy::print_stderr)]
    pub(crate) fn report(self) -> ExitCode {
        // A full or closed standard error must not change the status.
        let _ = writeln!(std::io::stderr(), "error: {}", self.message);
        ExitCode::from(self.status)
    }
}

impl Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<CallError> for CliError {
    /// Error of a call: a refusal is a fault of the command, a missing answer is not.
    fn from(error: CallError) -> CliError {
        match error {
            CallError::Refused(refused) if refused.status < 500 => CliError::input(refused),
            other => CliError::failed(other),
        }
    }
}

impl From<StartError> for CliError {
    /// Error of devices that make no volume group.
    fn from(error: StartError) -> CliError {
        match error {
            StartError::Input(text) => CliError::input(text),
            StartError::Failed(text) => CliError::failed(text),
        }
    }
}

impl From<HintError> for CliError {
    /// Error of hints for files: what the caller named, the system, or the engine.
    fn from(error: HintError) -> CliError {
        match error {
            HintError::Input(text) => CliError::input(text),
            HintError::Failed(text) => CliError::failed(text),
            HintError::Engine(error) => error.into(),
        }
    }
}
