//! Citations: a source is named by its authors and year, never by a number of ours, and
//! docs/sources.md lists it.
//!
//! The documents that the project began with had numbers from 000 to 004, which tell a reader
//! nothing. What must be listed: RFCs wherever they are cited, and the sources of policies in the
//! registry, as far as they name a year.

use super::Finding;
use super::source::leading_word;

const RULE: &str = "citations";
const NUMBERS: [&str; 5] = ["000", "001", "002", "003", "004"];

/// Text that follows a number that cites.
const PLACES: [&str; 6] = [" §", " ch.", ", eq.", ", Fig", ", Table", ", table"];

/// The list of sources.
pub(super) const PATH: &str = "docs/sources.md";

/// Folder of the policies whose sources are checked.
const POLICIES: &str = "crates/policy/src/";

/// Finds citations by number in a source or a paper, and citations that `listed`, the text of
/// [`PATH`], does not have.
pub(super) fn check(path: &str, text: &str, listed: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let mut found = |message| findings.push(Finding::new(path, i + 1, RULE, message));
        for number in NUMBERS.into_iter().filter(|number| cites(line, number)) {
            found(format!("`{number}` names no source: cite authors and year"));
        }
        for number in rfcs(line).filter(|n| !listed.contains(&format!("| RFC {n} |"))) {
            found(format!("RFC {number} is not in {PATH}: add its row"));
        }
        if let Some(source) = policy_source(path, line) {
            for (name, year) in dated(source).filter(|dated| !has_row(listed, *dated)) {
                found(format!("{name} {year} is not in {PATH}: add its row"));
            }
        }
    }
    findings
}

/// True if a line cites a source by `number`.
fn cites(line: &str, number: &str) -> bool {
    line.match_indices(number).any(|(at, _)| {
        let stands_alone = !line[..at].ends_with(|c: char| c.is_ascii_digit() || c == '.');
        let rest = &line[at + number.len()..];
        stands_alone && PLACES.iter().any(|place| rest.starts_with(place))
    })
}

/// Numbers of the RFCs that a line cites.
fn rfcs(line: &str) -> impl Iterator<Item = &str> {
    let numbers = line.match_indices("RFC ").map(|(at, rfc)| leading_word(&line[at + rfc.len()..]));
    numbers.filter(|number| number.len() >= 3 && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The source that a line of a policy's entry in the registry names.
fn policy_source<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    let text = line.trim_start().strip_prefix("source: \"").filter(|_| path.starts_with(POLICIES));
    text.and_then(|text| text.split('"').next())
}

/// Years that a text names, each with the name before it: `("Dahlin", "1999")`.
fn dated(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '-');
    let mut name = "";
    words.filter_map(move |word| {
        let is_year = word.len() == 4 && (word.starts_with("19") || word.starts_with("20"));
        if is_year && word.bytes().all(|b| b.is_ascii_digit()) {
            return Some((name, word));
        }
        if word.starts_with(char::is_uppercase) {
            name = word;
        }
        None
    })
}

/// True if a row of the list has both the name and the year.
fn has_row(listed: &str, (name, year): (&str, &str)) -> bool {
    let mut rows = listed.lines().filter(|line| line.starts_with("| "));
    rows.any(|row| row.contains(name) && row.contains(year))
}

#[cfg(test)]
mod tests;
