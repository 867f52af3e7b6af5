//! What decision crates may not reach for, each ban with its replacement.
//!
//! Clippy bans types, functions and macros by their path (`clippy.toml` of those crates); this rule
//! bans what clippy cannot name: whole modules of `std`, hash maps that are left at their default,
//! randomly seeded hasher, and `async`. Tests and examples may open traces and read the
//! environment.

use super::source::{closing, leading_word};
use super::{Finding, FloorTable, Source};

const RULE: &str = "bans";

/// Modules of `std`, and what to do instead.
const MODULES: [(&str, &str); 5] = [
    ("fs", "take `impl Read`, `BufRead` or `Write` from the caller; `cli` opens files"),
    ("net", "take `impl Read` or `Write` from the caller"),
    ("thread", "stay single-threaded and `Send`; `sim` spreads work over the cores"),
    ("env", "take a setting or an argument"),
    ("process", "return a typed error; only `cli` ends the process"),
];

/// Maps, with how many type parameters they have when the hasher is named.
const MAPS: [(&str, usize); 2] = [("HashMap", 3), ("HashSet", 2)];

pub(super) fn check(source: &Source, table: &FloorTable) -> Vec<Finding> {
    if source.is_test() || source.is_program() || !table.is_decision(source.room()) {
        return Vec::new();
    }
    let mut findings = modules(source);
    findings.extend(maps(source));
    let asyncs = source.words("async").chain(source.words("await"));
    findings.extend(asyncs.map(|at| {
        let message = "decision crates have no async: write a state machine that is told events";
        Finding::new(source.path, source.line_of(at), RULE, message)
    }));
    findings
}

fn modules(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, name) in names_in_std(source) {
        if let Some((module, instead)) = MODULES.iter().find(|(module, _)| *module == name) {
            let message = format!("decision crates have no `std::{module}`: {instead}");
            findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
        }
    }
    findings
}

/// Every name that follows `std::`, those in `use std::{a, b::c}` too, with its place.
fn names_in_std<'a>(source: &'a Source) -> Vec<(usize, &'a str)> {
    let mut names = Vec::new();
    for at in source.words("std") {
        let Some(rest) = source.code[at..].strip_prefix("std::") else { continue };
        let after = at + "std::".len();
        if !rest.starts_with('{') {
            names.push((after, leading_word(rest)));
            continue;
        }
        let end = closing(source.code.as_bytes(), after).unwrap_or(source.code.len());
        let group = &source.code[after + 1..end];
        names.extend(parts(group).into_iter().map(|(offset, part)| {
            let blank = part.len() - part.trim_start().len();
            (after + 1 + offset + blank, leading_word(part.trim_start()))
        }));
    }
    names
}

fn maps(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (map, parameters) in MAPS {
        for at in source.words(map) {
            let rest = source.code[at + map.len()..].trim_start_matches("::");
            let Some(generics) = rest.strip_prefix('<') else { continue };
            if parts(angle_group(generics)).len() < parameters {
                let message = format!(
                    "`{map}` with its default hasher iterates at random: use a BTree, a dense \
                     `Vec`, or name a fixed hasher and never depend on the order"
                );
                findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
            }
        }
    }
    findings
}

/// Up to the `>` that closes a group whose `<` has been read.
fn angle_group(text: &str) -> &str {
    let mut depth = 1;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
        before = c;
    }
    text
}

/// The parts between commas that lie in no bracket of any kind, each with its offset.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut depth = 0;
    let mut start = 0;
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push((start, &text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        found.push((start, &text[start..]));
    }
    found
}

#[cfg(test)]
mod tests;
