//! Tests: where they live, what they are called, and what they may not do.
//!
//! A test's name is its claim; tests live in `tests.rs` or below `tests/`; none is switched off,
//! expects a panic, or waits for the clock.

use super::{Finding, Source};

const RULE: &str = "tests";

/// Attributes that tests may not carry, and what to do instead.
const ATTRIBUTES: [(&str, &str); 2] = [
    ("#[ignore", "start slow suites by an environment variable, and say SKIPPED without it"),
    ("#[should_panic", "test the typed error, or the state that an assertion protects"),
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |at, message: String| {
        findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
    };
    for (at, name) in test_functions(source) {
        if name.starts_with("test_") || !name.contains('_') {
            found(at, format!("`{name}` claims nothing: name a test after what it shows"));
        }
        if !source.is_test() {
            found(at, format!("`{name}` stands beside the code: move it to `tests.rs`"));
        }
    }
    let is_empty = !source.code.contains("#[test]") && source.words("mod").next().is_none();
    if source.path.ends_with("/tests.rs") && is_empty {
        found(0, "holds no test: write one, or delete the file and its `mod`".to_string());
    }
    for (attribute, instead) in ATTRIBUTES {
        for (at, _) in source.code.match_indices(attribute) {
            found(at, format!("`{attribute}]`: {instead}"));
        }
    }
    if source.is_test() {
        for at in source.words("sleep") {
            found(at, "tests do not sleep: drive the time, or wait for the event".to_string());
        }
    }
    findings
}

/// Every `#[test]` function: its place and name.
fn test_functions<'a>(source: &'a Source) -> Vec<(usize, &'a str)> {
    let functions = source.functions();
    let attributes = source.code.match_indices("#[test]");
    attributes
        .filter_map(|(at, _)| functions.iter().find(|f| f.start > at).map(|f| (f.start, f.name)))
        .collect()
}

#[cfg(test)]
mod tests;
