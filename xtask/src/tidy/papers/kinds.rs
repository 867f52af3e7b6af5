//! The table of CONTRIBUTING.md names the folder of every kind of decision.
//!
//! A folder of `crates/policy/src` whose `mod.rs` has a list `ENTRIES` is one kind, and one row.
//! [`BESIDE`] has the exceptions.

use super::super::{Finding, Source};

pub(super) const PATH: &str = "CONTRIBUTING.md";

const RULE: &str = "kinds";
const POLICIES: &str = "crates/policy/src/";
const HEADER: &str = "| kind | folder |";
const LIST: &str = "const ENTRIES:";

/// Folders where table and lists differ, each with the reason.
const BESIDE: [(&str, &str); 2] = [
    ("crates/policy/src/cache/", "has a section of its own"),
    ("crates/policy/src/cache/partition/", "its policies are in `SHARED` of the folder above"),
];

/// Compares the table's folders with those that have a list of entries.
pub(super) fn check(text: &str, sources: &[Source]) -> Vec<Finding> {
    let has_list = |s: &&Source| s.path.starts_with(POLICIES) && s.code.contains(LIST);
    let lists = sources.iter().filter(has_list).filter_map(|s| s.path.strip_suffix("mod.rs"));
    let lists: Vec<&str> = lists.collect();
    let mut findings = Vec::new();
    let mut found = |line, message| findings.push(Finding::new(PATH, line, RULE, message));
    let is_beside = |folder: &str| BESIDE.iter().any(|(beside, _)| *beside == folder);
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(HEADER));
    let Some((header, _)) = lines.next() else {
        found(0, format!("no table begins with `{HEADER}`"));
        return findings;
    };
    let rows = lines.skip(1).take_while(|(_, line)| line.starts_with('|'));
    let rows = rows.map(|(index, line)| (index + 1, line.split('|').nth(2).unwrap_or_default()));
    let rows: Vec<(usize, &str)> =
        rows.map(|(line, cell)| (line, cell.trim().trim_matches('`'))).collect();
    for (line, folder) in &rows {
        if !lists.contains(folder) && !is_beside(folder) {
            found(*line, format!("`{folder}` has no list of entries"));
        }
    }
    for folder in lists.iter().filter(|folder| !is_beside(folder)) {
        if !rows.iter().any(|(_, row)| row == folder) {
            found(header + 1, format!("the table has no row for `{folder}`: add one"));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
