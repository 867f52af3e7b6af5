//! Documentation comments open with a noun phrase or a verb, and say something.
//!
//! "Returns the …", "Number of …", "True if …", not "What …", "Whether …", or the rest of a
//! sentence that stands elsewhere ("Of the pool."). This holds for items (`///`) and for heads of
//! modules (`//!`). A comment that only sends its reader to the module says nothing. A heading such
//! as `# Errors` has its line for itself.

use super::source::leading_word;
use super::{Finding, Source};

const RULE: &str = "documentation";

/// Words that open a question instead of a description.
const QUESTIONS: [&str; 10] =
    ["What", "Whether", "Who", "Whose", "How", "Where", "Which", "When", "Why", "Whom"];

/// Words that open the rest of a sentence, which says nothing without what stands around it.
const FRAGMENTS: [&str; 11] =
    ["As", "By", "In", "It", "Nobody", "None", "Of", "Since", "So", "To", "With"];

/// Headings of sections that comments of items have.
const HEADINGS: [&str; 4] = ["# Errors", "# Panics", "# Safety", "# Examples"];

const NOTHING_SAID: &str = "See the module.";

/// Finds comments that open with a question or a fragment or say nothing, and headings with text
/// behind them.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().zip(&source.begins_in_string);
    let mut findings = Vec::new();
    let mut before = None;
    for (i, (line, in_string)) in lines.enumerate() {
        let comment = comment(line).filter(|_| !in_string);
        let marker = comment.map(|(marker, _)| marker);
        if let Some((_, text)) = comment {
            let opening = if marker == before { None } else { opening_fault(text) };
            let messages = opening.into_iter().chain(heading_fault(text));
            findings.extend(messages.map(|m| Finding::new(source.path, i + 1, RULE, m)));
        }
        before = marker;
    }
    findings
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
    if QUESTIONS.contains(&word) || FRAGMENTS.contains(&word) {
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
