//! Policies of a run of `lab cache`: those named, a usual selection, or all that can compete.

use crate::config::library;
use crate::error::CliError;
use thermocline_sim::lab::Selection;

/// The policies that `words` name; the usual ones when there is none.
///
/// # Errors
/// When a word is no policy.
pub(super) fn chosen(words: &[String], objects: bool) -> Result<Selection, CliError> {
    let mut chosen = Selection::default();
    if words.is_empty() {
        chosen.add_usual(objects);
    }
    for word in words {
        let parse = |word: &str| library::policy(word).map_err(CliError::input);
        chosen.add(word, objects, parse)?;
    }
    Ok(chosen)
}
