//! Refusal of files and devices that somebody uses without having locked them as this program does.

use crate::error::CliError;
use std::path::Path;
use thermocline_engine::probe;

/// Refuses what is in use, and says what to do instead.
///
/// # Errors
/// When it is in use.
pub(crate) fn refuse_used(path: &Path, advice: &str) -> Result<(), CliError> {
    match probe::use_of(path) {
        None => Ok(()),
        Some(by) => Err(CliError::input(format!("{} is in use {by}; {advice}", path.display()))),
    }
}
