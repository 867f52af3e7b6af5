//! The note in a data folder that says which configuration the group there was started with.
//!
//! Without it `thermocline up --data FOLDER` took a configured group for its own: it slowed real
//! devices down to what their files are called, and gave the decision to its own policy. A folder
//! without the note is one of a start without a configuration, or has not been started since there
//! is the note.

use crate::config::{Config, Origin};
use crate::error::CliError;
use crate::listeners;
use std::path::Path;
use thermocline_admin::files;

/// Name of the note in the data folder.
const NOTE: &str = "started-with";

/// Refuses a start without a configuration on a group that has one.
///
/// # Errors
/// When there is a note of a configuration.
pub(crate) fn check(config: &Config) -> Result<(), CliError> {
    let note = config.data.join(NOTE);
    let noted = std::fs::read_to_string(&note);
    match (&config.origin, noted) {
        (Origin::Standard, Ok(path)) => Err(CliError::input(format!(
            "the volume group in {} was started with a configuration, {}: give that, as in \
             `thermocline up {1}`; without it other pools are looked for, and slowed down. Where the group is not needed \
             any more, name another folder, or remove {} with its pools",
            config.data.display(),
            path.trim(),
            note.display()
        ))),
        _ => Ok(()),
    }
}

/// Notes the configuration that the group is started with, if there is one.
pub(crate) fn note(config: &Config) {
    let Origin::File(file) = &config.origin else { return };
    let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    if let Err(error) = write(&config.data.join(NOTE), &file) {
        listeners::say(&format!("{}: {error}", config.data.join(NOTE).display()));
    }
}

fn write(note: &Path, file: &Path) -> std::io::Result<()> {
    let text = format!("{}\n", file.display());
    if std::fs::read_to_string(note).is_ok_and(|known| known == text) {
        return Ok(());
    }
    files::replace(note, files::EVERYBODY_READS, |mut to| {
        std::io::Write::write_all(&mut to, text.as_bytes())
    })
}
