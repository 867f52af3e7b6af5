//! Shape: heads, names, width, and how long files and functions may be.
//!
//! Lengths go through the ratchet (`ratchet.rs`), because old code may owe; the rest is never owed.

use super::{Finding, Source};

/// Characters of a line of code or of prose.
pub(super) const WIDTH_MAX: usize = 100;
const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// A head shorter than this many characters says nothing.
const HEAD_CHARACTERS_MIN: usize = 24;

/// File and folder names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "helper", "helpers", "manager", "common", "misc", "data", "info"];

/// Something of which there is more than there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excess {
    /// `path` of a file, `path::name` of a function.
    pub(super) place: String,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) count: usize,
    pub(super) max: usize,
    /// Name of what is counted.
    pub(super) unit: &'static str,
    /// The remedy.
    pub(super) instead: String,
}

/// Remedy for something long.
const SPLIT: &str = "split it along its ideas";

/// Every file opens by saying what it is.
pub(super) fn head(source: &Source) -> Option<Finding> {
    let mut lines = source.text.lines().skip_while(|l| l.starts_with("#!["));
    let head = lines.next().and_then(|l| l.strip_prefix("//!")).map(str::trim).unwrap_or_default();
    (head.chars().count() < HEAD_CHARACTERS_MIN).then(|| {
        let message = "open with `//!`: what this file is, its invariants, what it does not do";
        Finding::new(source.path, 1, "head", message)
    })
}

/// No line is wider than the page; text inside string literals and links keep their own width.
pub(super) fn width(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().zip(source.code.lines()).zip(&source.begins_in_string);
    let wide = lines.enumerate().filter(|(_, ((text, code), in_string))| {
        !**in_string
            && text.chars().count() > WIDTH_MAX
            && !text.contains("://")
            && !ends_in_literal(text, code)
    });
    wide.map(|(i, ((text, _), _))| too_wide(source.path, i + 1, text)).collect()
}

/// A line that is wider than [`WIDTH_MAX`].
pub(super) fn too_wide(path: &str, line: usize, text: &str) -> Finding {
    let message = format!("{} characters wide, at most {WIDTH_MAX}", text.chars().count());
    Finding::new(path, line, "width", message)
}

/// True if only a string literal, and what closes it, reaches over the page's edge: a message or a
/// pattern is not broken to fit.
fn ends_in_literal(text: &str, code: &str) -> bool {
    let edge = text.char_indices().nth(WIDTH_MAX).map_or(text.len(), |(byte, _)| byte);
    let beyond = code.get(edge..).unwrap_or_default();
    !text.contains("//") && !beyond.contains(|c: char| c.is_alphanumeric())
}

/// A file is named after what is in it.
pub(super) fn name(source: &Source) -> Option<Finding> {
    let mut parts = source.path.split('/').map(|p| p.strip_suffix(".rs").unwrap_or(p));
    parts.find(|part| EMPTY_NAMES.contains(part)).map(|part| {
        let message =
            format!("`{part}` names nothing: use the word of the field for what is in it");
        Finding::new(source.path, 0, "name", message)
    })
}

/// The file, and every function in it, that is too long.
pub(super) fn excesses(source: &Source) -> Vec<Excess> {
    let path = source.path;
    let mut found = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let place = path.to_string();
        found.push(Excess {
            path: place.clone(),
            place,
            line: 0,
            count: lines,
            max: FILE_LINES_MAX,
            unit: "lines",
            instead: SPLIT.to_string(),
        });
    }
    for function in source.functions().iter().filter(|f| f.lines > FUNCTION_LINES_MAX) {
        found.push(Excess {
            place: format!("{path}::{}", function.name),
            path: path.to_string(),
            line: function.line,
            count: function.lines,
            max: FUNCTION_LINES_MAX,
            unit: "lines",
            instead: SPLIT.to_string(),
        });
    }
    found
}

#[cfg(test)]
mod tests;
