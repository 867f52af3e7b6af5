//! Documentation comments open with a noun phrase or a verb, and say something.
//!
//! "Returns the …", "Number of …", "True if …", not "What …" or "Whether …". A comment that only
//! sends its reader to the module says nothing. Old comments may owe: each crate has a count in
//! the ratchet that may only shrink.

use super::source::leading_word;
use super::{Source, shape::Excess};

/// Words that open a question instead of a description.
const QUESTIONS: [&str; 10] =
    ["What", "Whether", "Who", "Whose", "How", "Where", "Which", "When", "Why", "Whom"];

const NOTHING_SAID: &str = "See the module.";

/// Number of comments of `source` that open with a question or say nothing.
pub(super) fn owed(source: &Source) -> usize {
    let lines = source.text.lines().zip(&source.begins_in_string);
    let mut within = false;
    let mut owed = 0;
    for (line, in_string) in lines {
        let comment = line.trim_start().strip_prefix("///").filter(|_| !in_string);
        if let Some(text) = comment.map(str::trim).filter(|_| !within) {
            owed += usize::from(QUESTIONS.contains(&leading_word(text)) || text == NOTHING_SAID);
        }
        within = comment.is_some();
    }
    owed
}

/// Debts of each crate, for the ratchet.
pub(super) fn excesses(sources: &[Source]) -> Vec<Excess> {
    let mut crates: std::collections::BTreeMap<&str, usize> = Default::default();
    for source in sources {
        *crates.entry(source.room()).or_default() += owed(source);
    }
    let owing = crates.into_iter().filter(|(_, owed)| *owed > 0);
    owing
        .map(|(room, count)| Excess {
            place: format!("{room}::documentation"),
            path: format!("crates/{room}"),
            line: 0,
            count,
            max: 0,
            unit: "comments",
            instead: "open with a noun phrase or a verb".to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
