//! Files that an engine keeps in its data folder, which no pool may have the path of: the engine
//! replaces them as a whole, and would so replace the pool.

use super::config::place;
use std::ffi::OsStr;
use std::path::Path;

/// Names of such files.
const NAMES: [&str; 5] =
    ["learnt", "hints.json", "started-with", "scrubbed", super::config::ADDED_POOLS_FILE];
/// One more where an engine was started without a configuration.
const TOKEN: &str = "token";
/// Endings of what is written before it takes a file's place, or set aside.
const ENDINGS: [&str; 3] = ["", ".new", ".unread"];

/// Refuses a path in the data folder that an engine keeps a file of its own at.
///
/// # Errors
/// The path is one of those; the text says what to do.
pub fn refuse_own_file(data: &Path, path: &Path) -> Result<(), String> {
    refuse(data, path, &NAMES)
}

/// The same, and the token of an engine without a configuration.
pub(super) fn refuse_any_own_file(data: &Path, path: &Path) -> Result<(), String> {
    refuse(data, path, &NAMES).and_then(|()| refuse(data, path, &[TOKEN]))
}

fn refuse(data: &Path, path: &Path, names: &[&str]) -> Result<(), String> {
    let (folder, wanted) = (place(data), place(path));
    let is_own = names.iter().any(|name| {
        ENDINGS.iter().any(|ending| place(&folder.join(format!("{name}{ending}"))) == wanted)
    });
    match is_own {
        true => Err(format!(
            "{}: the engine keeps a file of its own there, which it replaces as a whole; give \
             another name, such as {}.pool, and move the file there if there is one",
            path.display(),
            path.file_name().unwrap_or(OsStr::new("fast")).display()
        )),
        false => Ok(()),
    }
}
