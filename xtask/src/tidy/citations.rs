//! Citations: a source is named by its authors and year, never by a number of ours.
//!
//! The documents that the project began with had numbers from 000 to 004, which tell a reader
//! nothing. docs/sources.md lists what is cited.

use super::Finding;

const RULE: &str = "citations";
const NUMBERS: [&str; 5] = ["000", "001", "002", "003", "004"];

/// Text that follows a number that cites.
const PLACES: [&str; 6] = [" §", " ch.", ", eq.", ", Fig", ", Table", ", table"];

/// Finds citations by number in a source or a paper.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let cites = |number: &str| {
            line.match_indices(number).any(|(at, _)| {
                let stands_alone = !line[..at].ends_with(|c: char| c.is_ascii_digit() || c == '.');
                let rest = &line[at + number.len()..];
                stands_alone && PLACES.iter().any(|place| rest.starts_with(place))
            })
        };
        for number in NUMBERS.into_iter().filter(|number| cites(number)) {
            let message = format!("`{number}` names no source: cite authors and year");
            findings.push(Finding::new(path, i + 1, RULE, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
