//! Documentation comments open with a noun phrase or a verb, and say something.
//!
//! "Returns the …", "Number of …", "True if …", not "What …" or "Whether …". This holds for items
//! (`///`) and for heads of modules (`//!`). A comment that only sends its reader to the module
//! says nothing. A heading such as `# Errors` has its line for itself. Comments that open with the
//! rest of a sentence ("Of the pool.") may still be owed by a crate, in the ratchet.

use super::shape::Excess;
use super::source::leading_word;
use super::{Finding, Source};
use std::collections::BTreeMap;

const RULE: &str = "documentation";

/// Words that open a question instead of a description.
const QUESTIONS: [&str; 10] =
    ["What", "Whether", "Who", "Whose", "How", "Where", "Which", "When", "Why", "Whom"];

/// Words that open a rest of a sentence, which says nothing without what stands around it.
const FRAGMENTS: [&str; 11] =
    ["As", "By", "In", "It", "Nobody", "None", "Of", "Since", "So", "To", "With"];

/// Headings of sections that comments of items have.
const HEADINGS: [&str; 4] = ["# Errors", "# Panics", "# Safety", "# Examples"];

const NOTHING_SAID: &str = "See the module.";

/// Finds comments that open with a question or say nothing, and headings with text behind them.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Comment { line, text, is_opening } in comments(source) {
        let opening = if is_opening { opening_fault(text) } else { None };
        let messages = opening.into_iter().chain(heading_fault(text));
        findings.extend(messages.map(|m| Finding::new(source.path, line, RULE, m)));
    }
    findings
}

/// Crates with comments that open with a fragment, and the places of these.
pub(super) fn excesses(sources: &[Source<'_>]) -> Vec<Excess> {
    let mut crates: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        let openings = comments(source).into_iter().filter(|comment| comment.is_opening);
        let faults = openings.filter(|comment| FRAGMENTS.contains(&leading_word(comment.text)));
        let places = faults.map(|comment| format!("{}:{}", source.path, comment.line));
        crates.entry(source.room()).or_default().extend(places);
    }
    let owing = crates.into_iter().filter(|(_, places)| !places.is_empty());
    owing
        .map(|(room, places)| Excess {
            place: format!("{room}::documentation"),
            path: format!("crates/{room}"),
            line: 0,
            count: places.len(),
            max: 0,
            unit: "comments that open with the rest of a sentence",
            instead: format!("open with a noun phrase or a verb: {}", places.join(", ")),
        })
        .collect()
}

/// A line of a documentation comment.
struct Comment<'a> {
    /// Its number, from 1.
    line: usize,
    text: &'a str,
    /// True for the first line of its comment.
    is_opening: bool,
}

fn comments<'a>(source: &Source<'a>) -> Vec<Comment<'a>> {
    let mut found = Vec::new();
    let mut before = None;
    for ((i, line), in_string) in source.text.lines().enumerate().zip(&source.begins_in_string) {
        let comment = comment(line).filter(|_| !in_string);
        let marker = comment.map(|(marker, _)| marker);
        found.extend(comment.map(|(_, text)| Comment {
            line: i + 1,
            text,
            is_opening: marker != before,
        }));
        before = marker;
    }
    found
}

/// The marker and the text of a line that is a documentation comment.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let of = |marker| Some((marker, line.strip_prefix(marker)?.trim()));
    of("///").or_else(|| of("//!"))
}

/// The fault of a comment whose first line is `text`.
fn opening_fault(text: &str) -> Option<String> {
    let word = leading_word(text);
    if QUESTIONS.contains(&word) {
        return Some(format!("opens with `{word}`: open with a noun phrase or a verb"));
    }
    text.starts_with(NOTHING_SAID).then(|| "says nothing: describe the item itself".to_string())
}

/// The fault of a line of a comment that goes on behind a heading.
fn heading_fault(text: &str) -> Option<String> {
    let goes_on = |h: &&&str| text.strip_prefix(**h).is_some_and(|rest| rest.starts_with(' '));
    let heading = HEADINGS.iter().find(goes_on)?;
    Some(format!("text behind `{heading}`: begin it on the next line"))
}

#[cfg(test)]
mod tests;
