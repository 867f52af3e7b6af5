//! Places where a lint that carries a house rule may be switched off.
//!
//! The workspace's lints forbid `unwrap()` outside tests, printing in libraries, `unsafe`, dead
//! code and (in sealed crates) the banned calls. `#[allow]` and `#[expect]` of these lints are
//! found everywhere but where the rule itself makes room.

use super::source::closing;
use super::{Finding, LayerTable, Source};

const RULE: &str = "allows";

/// Lints whose `allow` is judged, and the reason that is given when it is refused.
const GUARDED: [(&str, &str); 9] = [
    ("unwrap_used", "write `expect(\"why it cannot fail\")` or return the error"),
    ("print_stdout", "libraries return values; `cli` and `xtask` print"),
    ("print_stderr", "libraries return values; `cli` and `xtask` print"),
    ("disallowed_methods", "sealed crates take what they need as arguments"),
    ("disallowed_types", "sealed crates take what they need as arguments"),
    ("disallowed_macros", "sealed crates return values"),
    ("unsafe_code", "only files that the layer table of ARCHITECTURE.md lists hold unsafe code"),
    ("dead_code", "delete what nothing uses"),
    ("missing_docs", "document it: unit, range, errors, panics"),
];

pub(super) fn check(source: &Source, table: &LayerTable) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in source.words("allow").chain(source.words("expect")) {
        let Some(lints) = attribute_list(source, at) else { continue };
        for (lint, instead) in GUARDED {
            let named = lints.split([',', ':', ' ', '\n']).any(|word| word == lint);
            if named && !may_allow(source, table, lint, at) {
                let message = format!("`{lint}` may not be allowed here: {instead}");
                findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
            }
        }
    }
    findings
}

fn may_allow(source: &Source, table: &LayerTable, lint: &str, at: usize) -> bool {
    match lint {
        "unsafe_code" => table.may_be_unsafe(source.path),
        "unwrap_used" | "dead_code" => source.is_test(),
        "print_stdout" | "print_stderr" => {
            let prints = ["cli", "xtask", "seeds"].contains(&source.room());
            source.is_program() || source.is_test() || prints
        }
        "disallowed_methods" | "disallowed_types" | "disallowed_macros" => {
            // `#![cfg_attr(test, allow(…))]` opens the whole crate to its tests, and to nothing
            // else.
            let before = source.code[..at].trim_end();
            source.is_test() || source.is_program() || before.ends_with("cfg_attr(test,")
        }
        _ => false,
    }
}

/// The list in `allow(…)` when it is (part of) an attribute, not a call.
fn attribute_list<'a>(source: &'a Source, at: usize) -> Option<&'a str> {
    let open = at + source.code[at..].find(|c: char| !c.is_alphanumeric())?;
    if !source.code[open..].starts_with('(') {
        return None;
    }
    let before = source.code[..at].trim_end();
    let in_attribute = before.ends_with("#[") || before.ends_with("#![") || {
        let line = &before[before.rfind('\n').map_or(0, |n| n + 1)..];
        line.contains("cfg_attr(") && before.ends_with(',')
    };
    let close = closing(source.code.as_bytes(), open)?;
    in_attribute.then(|| &source.code[open + 1..close])
}

#[cfg(test)]
mod tests;
