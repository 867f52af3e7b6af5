//! Outcome of a run of a sweep, as the command prints it.

use serde::Serialize;
use std::path::Path;

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
}

impl Summary {
    /// The outcome for people; `out` is the folder of the sweep.
    pub fn text(&self, out: &Path) -> String {
        let errors = match self.errors_now {
            0 => String::new(),
            n => format!(", {n} results are errors"),
        };
        format!(
            "{} jobs done, {} of them now{errors}; `thermocline lab report {}` compares\n",
            self.done_before + self.done_now,
            self.done_now,
            out.display()
        )
    }
}
