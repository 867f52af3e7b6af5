//! Outcome of a run of a sweep, as the command prints it.

use serde::Serialize;
use std::path::Path;

/// Jobs without a result that a message names.
const NAMED_MAX: usize = 5;

/// Says which jobs could not read their traces: numbers and reasons, by number.
pub fn unread_text(unread: &[(u64, String)]) -> String {
    let named = unread.iter().take(NAMED_MAX).map(|(job, why)| format!("job {job}: {why}"));
    format!(
        "{} jobs could not read their traces and have no result; the same command tries them \
         again. {}",
        unread.len(),
        named.collect::<Vec<_>>().join("; ")
    )
}

/// Outcome of a run of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Jobs of the sweep.
    pub jobs: usize,
    /// Jobs that were done before this run.
    pub done_before: usize,
    /// Jobs that this run has done.
    pub done_now: usize,
    /// Rows of these that are errors.
    pub errors_now: usize,
    /// Jobs whose traces could not be read in this run; they are not done.
    pub unread_now: usize,
}

impl Summary {
    /// The outcome for people; `out` is the folder of the sweep.
    pub fn text(&self, out: &Path) -> String {
        let errors = match self.errors_now {
            0 => String::new(),
            n => format!(", {n} results are errors"),
        };
        let unread = match self.unread_now {
            0 => String::new(),
            n => format!(", {n} could not read their traces"),
        };
        format!(
            "{} jobs done, {} of them now{errors}{unread}; `thermocline lab report {}` compares\n",
            self.done_before + self.done_now,
            self.done_now,
            out.display()
        )
    }
}
