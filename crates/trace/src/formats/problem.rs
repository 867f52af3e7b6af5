//! Problem of a line or record that a parser reports, and counters of every reader.

use crate::order::counted;
use std::fmt;

/// The fault in one line or record; whoever knows the place adds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem(Box<str>);

impl Problem {
    #[cold]
    pub(crate) fn new(text: String) -> Problem {
        Problem(text.into_boxed_str())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error of a reader that is asked again after an error.
pub(crate) const FAILED_BEFORE: &str = "nothing is read after an error";

/// Counts that every reader keeps.
#[derive(Debug, Default)]
pub(crate) struct ReaderState {
    /// Requests read.
    pub(crate) requests: u64,
    /// Lines seen that were not blank.
    pub(crate) lines_seen: u64,
    /// True if an error was reported.
    pub(crate) failed: bool,
    zero_sized: u64,
    first_zero_sized: Option<String>,
}

impl ReaderState {
    /// Counts a read, write or trim of zero bytes.
    #[cold]
    pub(crate) fn note_zero_sized(&mut self, place: impl FnOnce() -> String) {
        self.zero_sized += 1;
        self.first_zero_sized.get_or_insert_with(place);
    }

    /// The reason that there is no request, where all were of zero bytes.
    pub(crate) fn why_empty(&self) -> Option<String> {
        (self.zero_sized > 0)
            .then(|| format!("all requests are of zero bytes, {} of them", self.zero_sized))
    }

    /// Appends the omissions in words.
    pub(crate) fn repairs(&self, repairs: &mut Vec<String>) {
        if let Some(first) = &self.first_zero_sized {
            repairs.push(format!(
                "{} of zero bytes and left out; the first at {first}",
                counted(self.zero_sized, "request was", "requests were"),
            ));
        }
    }
}
