//! Decision records, change notes and the change log keep their form.
//!
//! A decision is `docs/decisions/NNNN-title.md` with a number of its own and four sections. A
//! change that a user can see is `changes/topic.md` until the release that carries it, when its
//! text moves into CHANGELOG.md; so two branches never edit the same lines.

use super::Finding;
use std::collections::BTreeMap;

pub(super) const DECISIONS: &str = "docs/decisions/";
pub(super) const CHANGES: &str = "changes/";
pub(super) const CHANGELOG: &str = "CHANGELOG.md";

/// The page that opens a folder; that of the decisions lists them all with their status.
const INDEX: &str = "README.md";

const SECTIONS: [&str; 4] =
    ["## Context", "## Choice", "## Rejected", "## How we would know it was wrong"];

/// Words that a change note may open with.
const KINDS: [&str; 5] = ["Feature", "Fix", "Change", "Speed", "Security"];

/// Every decision record, by file name and text.
pub(super) fn decisions<'a>(records: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    let (index, records): (Vec<_>, Vec<_>) = records.partition(|(name, _)| *name == INDEX);
    let index = index.first().map_or("", |(_, text)| *text);
    for (name, text) in records {
        let mut found = |message: String| {
            findings.push(Finding::new(&format!("{DECISIONS}{name}"), 0, "decisions", message));
        };
        let Some(number) = number(name) else {
            found("the name is not `NNNN-title.md`, lower case with hyphens".to_string());
            continue;
        };
        if let Some(other) = taken.insert(number, name) {
            found(format!("number {number} is taken by {other}: use the next free one"));
        }
        if !index.contains(&format!("]({name})")) {
            found(format!("{DECISIONS}{INDEX} does not list it: add a line with its status"));
        }
        if !text.starts_with(&format!("# {number}")) {
            found(format!("the first line is not `# {number}: title`"));
        }
        for section in SECTIONS.iter().filter(|s| !text.lines().any(|line| line.trim() == **s)) {
            found(format!("the section `{section}` is missing"));
        }
    }
    findings
}

fn number(name: &str) -> Option<&str> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_number = number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit());
    (is_number && is_slug(title)).then_some(number)
}

fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// One change note: `Kind: what`, then what was wrong, then a paragraph that begins with `Now`.
pub(super) fn change(name: &str, text: &str) -> Vec<Finding> {
    if name == INDEX {
        return Vec::new();
    }
    let mut messages = Vec::new();
    if !name.strip_suffix(".md").is_some_and(is_slug) {
        messages.push("the name is not `topic.md`, lower case with hyphens".to_string());
    }
    let first = text.lines().next().unwrap_or_default();
    if !first.split_once(": ").is_some_and(|(kind, what)| KINDS.contains(&kind) && !what.is_empty())
    {
        messages
            .push(format!("the first line is not `KIND: what`, KIND one of {}", KINDS.join(", ")));
    }
    if !text.lines().any(|line| line.starts_with("Now")) {
        messages.push("no paragraph begins with `Now`: say what the user gets".to_string());
    }
    let path = format!("{CHANGES}{name}");
    messages.into_iter().map(|m| Finding::new(&path, 0, "changes", m)).collect()
}

/// The change log: `## X.Y.Z (YYYY-MM-DD)` a release, newest first.
pub(super) fn changelog(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("# ") {
        findings.push(Finding::new(CHANGELOG, 1, "changes", "is missing or has no title"));
    }
    let mut newer: Option<[u64; 3]> = None;
    for (index, line) in text.lines().enumerate() {
        let Some(heading) = line.strip_prefix("## ") else { continue };
        let mut found = |message: &str| {
            findings.push(Finding::new(CHANGELOG, index + 1, "changes", message));
        };
        match release(heading) {
            None => {
                found("a release is `## X.Y.Z (YYYY-MM-DD)`; what is not released is in changes/")
            }
            Some(version) if newer.is_some_and(|n| n <= version) => found("newest release first"),
            version => newer = version,
        }
    }
    findings
}

/// Reads `1.2.3 (2026-11-30)`.
fn release(heading: &str) -> Option<[u64; 3]> {
    let (version, date) = heading.split_once(' ')?;
    let date = date.strip_prefix('(')?.strip_suffix(')')?;
    let widths: Vec<usize> = date.split('-').map(str::len).collect();
    let digits = date.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if widths != [4, 2, 2] || !digits {
        return None;
    }
    let numbers: Option<Vec<u64>> = version.split('.').map(|n| n.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests;
