//! Files that a command is given: those that are named, and those below named folders.

use crate::error::CliError;
use std::path::{Path, PathBuf};

/// Regular files with their lengths: those that were named, and those below named folders, in the
/// order of their names. Links inside folders are not followed.
pub(crate) fn below_all(paths: &[PathBuf]) -> Result<Vec<(PathBuf, u64)>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        let named = |error| CliError::input(format!("{}: {error}", path.display()));
        let met = std::fs::metadata(path).map_err(named)?;
        if met.is_dir() {
            below(path, &mut files)?;
        } else if met.is_file() {
            files.push((path.clone(), met.len()));
        } else {
            let path = path.display();
            return Err(CliError::input(format!("{path} is neither a file nor a folder")));
        }
    }
    match files.is_empty() {
        true => Err(CliError::input("there is no file in what was named")),
        false => Ok(files),
    }
}

fn below(folder: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<(), CliError> {
    let named = |error| CliError::input(format!("{}: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(named)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(named)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let met = entry.metadata().map_err(named)?;
        if met.is_dir() {
            below(&entry.path(), files)?;
        } else if met.is_file() {
            files.push((entry.path(), met.len()));
        }
    }
    Ok(())
}
