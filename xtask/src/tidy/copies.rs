//! A decision is coded once: no run of lines of one file stands in another one too.
//!
//! Compared are lines of code without spaces, comments, imports, attributes and brackets that
//! stand alone; [`RUN`] of them in a row that are the same in two files are a copy. Shorter
//! likenesses are what one language makes of one shape. Tests may repeat themselves.

use super::{Finding, Source};
use std::collections::BTreeMap;

const RULE: &str = "copies";

/// Lines that make a copy.
const RUN: usize = 14;
/// Shorter lines say too little to be counted.
const LINE_MIN: usize = 4;

/// Finds the first copy in each pair of files.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut first_seen: BTreeMap<Vec<&str>, (usize, usize)> = BTreeMap::new();
    let mut findings: BTreeMap<(usize, usize), Finding> = BTreeMap::new();
    let squeezed: Vec<Vec<(usize, String)>> = sources.iter().map(lines).collect();
    for (file, lines) in squeezed.iter().enumerate() {
        for run in lines.windows(RUN) {
            let key: Vec<&str> = run.iter().map(|(_, line)| line.as_str()).collect();
            let (other, line) = *first_seen.entry(key).or_insert((file, run[0].0));
            if other == file {
                continue;
            }
            findings.entry((other, file)).or_insert_with(|| {
                let message = format!(
                    "{RUN} lines from here on stand in {}:{line} too: keep one, and call it",
                    sources[other].path
                );
                Finding::new(sources[file].path, run[0].0, RULE, message)
            });
        }
    }
    findings.into_values().collect()
}

/// Lines of a library's or a program's code that count, each with its number.
fn lines(source: &Source<'_>) -> Vec<(usize, String)> {
    let is_code = source.path.starts_with("crates/") && source.path.contains("/src/");
    if !is_code || source.is_test() {
        return Vec::new();
    }
    // Comments are blank in the code, and strings too: of these the text is taken.
    let both = source.code.lines().zip(source.text.lines());
    let squeezed = both.map(|(code, text)| {
        let shown = if code.trim().is_empty() { code } else { text };
        shown.split_whitespace().collect::<String>()
    });
    let counts = |line: &str| {
        let other = ["use", "pubuse", "mod", "#", "//"];
        line.len() >= LINE_MIN && !other.iter().any(|word| line.starts_with(word))
    };
    (1..).zip(squeezed).filter(|(_, line)| counts(line)).collect()
}

#[cfg(test)]
mod tests;
