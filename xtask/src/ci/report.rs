//! What the gate keeps of the steps it ran, and the summary it ends with.

use super::Passed;
use std::time::Duration;

/// One step that ran.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) elapsed: Duration,
    /// Or why it failed.
    pub(super) result: Result<Passed, String>,
}

/// A test runner's output, read line by line.
#[derive(Debug, Default)]
pub(super) struct Tests {
    pub(super) passed: u64,
    /// `test result: …` lines of test binaries that had tests.
    pub(super) closing: Vec<String>,
    /// `SKIPPED: …` lines of tests that found no data.
    pub(super) skipped: Vec<String>,
    /// Between a line `successes:` and the runner's result.
    in_successes: bool,
}

impl Tests {
    /// Takes note of one line of the runner's output; whether it is worth showing. The runner lists
    /// the names of passed tests once more after their output: that list is not.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let is_name = line.strip_prefix("    ").is_some_and(|name| !name.contains(' '));
        let line = line.trim();
        if line == "successes:" {
            self.in_successes = true;
        } else if line.starts_with("SKIPPED") {
            self.skipped.push(line.to_string());
        } else if line.starts_with("test result:") {
            self.in_successes = false;
            let passed = count_before(line, " passed");
            if passed + count_before(line, " failed") > 0 {
                self.closing.push(line.to_string());
            }
            self.passed += passed;
        }
        !(line.is_empty() || self.in_successes && (is_name || line == "successes:"))
    }

    pub(super) fn detail(&self) -> String {
        let Tests { passed, closing, skipped, .. } = self;
        format!("{passed} passed in {} binaries, {} skipped", closing.len(), skipped.len())
    }
}

/// The number that stands before `word` in `line`; 0 when there is none.
fn count_before(line: &str, word: &str) -> u64 {
    let before = line.split(word).next().filter(|before| before.len() < line.len());
    before.and_then(|b| b.rsplit(' ').next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The table of steps, then everything that could not be checked, then the test runner's last
/// words.
pub(super) fn summary(rows: &[Row], total: Duration) -> String {
    let mut text = String::from("==== summary\n");
    for Row { name, elapsed, result } in rows {
        let (state, detail) = match result {
            Ok(passed) => ("ok", passed.detail.as_str()),
            Err(message) => ("FAILED", message.as_str()),
        };
        let seconds = elapsed.as_secs_f64();
        text.push_str(&format!("{name:<8} {state:<6} {seconds:>7.1} s  {detail}\n"));
    }
    text.push_str(&format!("{:<15} {:>7.1} s\n", "total", total.as_secs_f64()));
    let passed = || rows.iter().filter_map(|r| r.result.as_ref().ok());
    for warning in passed().flat_map(|p| &p.warnings) {
        text.push_str(&format!("warning: {warning}\n"));
    }
    for line in passed().flat_map(|p| &p.closing) {
        text.push_str(&format!("{line}\n"));
    }
    text
}
