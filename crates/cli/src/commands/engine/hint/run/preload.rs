//! The library that is loaded into a command: where it is, and how the command is told of it.

use crate::error::CliError;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thermocline_advice::SOCKET_VARIABLE;

const NAME: &str = "libthermocline_hints.so";
/// The dynamic linker's variable (ld.so(8)).
const VARIABLE: &str = "LD_PRELOAD";

/// Path of the library: the one given, else beside this program, else in `lib` beside its folder.
///
/// # Errors
/// When it is not there, or its path cannot be told to the dynamic linker.
pub(super) fn library(named: Option<&Path>) -> Result<PathBuf, CliError> {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let usual = [folder.join(NAME), folder.join("../lib").join(NAME)];
    let places = named.map_or(usual.to_vec(), |path| vec![path.to_path_buf()]);
    let found = places.iter().find_map(|path| path.canonicalize().ok());
    let found = found.ok_or_else(|| {
        CliError::input(format!(
            "{} is not there, so the command is not listened to: build it with `cargo build \
             --release -p thermocline-preload`, or name it with --preload-library",
            places[0].display()
        ))
    })?;
    if found.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(CliError::input(format!(
            "{}: blanks and colons separate names in {VARIABLE}; copy the library elsewhere",
            found.display()
        )));
    }
    Ok(found)
}

/// The variables of a command that is listened to at `socket`; what is loaded already still is.
pub(super) fn environment(library: &Path, socket: &Path) -> Vec<(&'static str, OsString)> {
    let mut loaded = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(VARIABLE).filter(|others| !others.is_empty()) {
        loaded.push(":");
        loaded.push(others);
    }
    vec![(VARIABLE, loaded), (SOCKET_VARIABLE, socket.as_os_str().to_owned())]
}
