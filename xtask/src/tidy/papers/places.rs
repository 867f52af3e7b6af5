//! Files that a table of ARCHITECTURE.md names must be there.
//!
//! Between backticks stands a path below `crates/`, or, behind one, a path beside that file or in
//! its crate's `src`: `` `volume/src/reading.rs`; of mirrored chunks `routing.rs` ``. Words without
//! `/` and `.rs` are names of functions and of settings, and not looked at.

use super::Finding;

/// The paper whose tables are looked at.
pub(super) const PATH: &str = "ARCHITECTURE.md";

/// Finds files that are named in a table's last column and are not there.
pub(super) fn check(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_table = false;
    for (index, line) in text.lines().enumerate() {
        in_table = match line.starts_with("| question | where |") {
            true => true,
            false => in_table && line.starts_with('|'),
        };
        if !in_table {
            continue;
        }
        for name in missing(line, &exists) {
            let message = format!("`{name}` is no file: say where this is decided now");
            findings.push(Finding::new(path, index + 1, "places", message));
        }
    }
    findings
}

/// Files of a row that are not there.
fn missing<'a>(row: &'a str, exists: &impl Fn(&str) -> bool) -> Vec<&'a str> {
    let mut before: Option<String> = None;
    let mut missing = Vec::new();
    // Every second part lies between backticks.
    for name in row.split('`').skip(1).step_by(2) {
        if !name.ends_with(".rs") && !name.ends_with('/') {
            continue;
        }
        let mut places = vec![format!("crates/{name}")];
        if let Some((folder, _)) = before.as_deref().and_then(|path| path.rsplit_once('/')) {
            places.push(format!("{folder}/{name}"));
            let source = folder.find("/src").map_or(folder, |at| &folder[..at + "/src".len()]);
            places.push(format!("{source}/{name}"));
        }
        match places.into_iter().find(|place| exists(place.trim_end_matches('/'))) {
            Some(place) => before = Some(place),
            None => missing.push(name),
        }
    }
    missing
}

#[cfg(test)]
mod tests;
